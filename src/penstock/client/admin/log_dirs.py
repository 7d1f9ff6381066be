"""DescribeLogDirs: how many bytes partitions take on the brokers' disks (KIP-113)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ServerUnreachable, error_from
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse


def partition_bytes(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Bytes of each partition's log at its leader, as stored (compressed).

    Partitions that a leader omits are left out. Raises ServerError; CLUSTER_AUTHORIZATION_FAILED if the
    principal may not describe the cluster.
    """

    def ask() -> dict[TopicPartition, int]:
        requests = {node_id: _request(led) for node_id, led in cluster.leaders(partitions).items()}
        sizes: dict[TopicPartition, int] = {}
        for node_id, response in cluster.call_each(requests, DescribeLogDirsResponse).items():
            if response.error_code:
                raise error_from(response.error_code, f"log directories of broker {node_id}")
            for directory in response.results:
                if directory.error_code == ErrorCode.NONE:
                    sizes |= _sizes(directory)
        return sizes

    return cluster.retry(ask) if partitions else {}


def replica_bytes(
    cluster: Cluster, partitions: Mapping[int, Collection[TopicPartition]]
) -> dict[int, dict[TopicPartition, int]]:
    """Bytes of these partitions' replicas at each of these brokers. Raises ServerError.

    Replicas that a broker does not hold are left out, and so are unreachable brokers.
    """
    found: dict[int, dict[TopicPartition, int]] = {}
    for node_id, held in partitions.items():
        try:
            response = cluster.connection(node_id).call(_request(list(held)), DescribeLogDirsResponse)
        except ServerUnreachable:
            cluster.disconnect(node_id)
            continue
        if response.error_code:
            raise error_from(response.error_code, f"log directories of broker {node_id}")
        found[node_id] = {}
        for directory in response.results:
            if directory.error_code == ErrorCode.NONE:
                found[node_id] |= _sizes(directory)
    return found


def _request(partitions: list[TopicPartition]) -> DescribeLogDirsRequest:
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return DescribeLogDirsRequest(
        topics=[
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=numbers)
            for name, numbers in by_topic.items()
        ]
    )


def _sizes(directory: DescribeLogDirsResponse.DescribeLogDirsResult) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, partition.partition_index): partition.partition_size
        for topic in directory.topics
        for partition in topic.partitions
        if not partition.is_future_key  # a copy that is moving to another directory
    }
