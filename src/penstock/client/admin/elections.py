"""Trigger elections of partition leaders (ElectLeaders, KIP-460)."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ServerError, error_from
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ElectLeadersRequest, ElectLeadersResponse


class ElectionType(IntEnum):
    """The kind of an election.

    PREFERRED elects the first replica if it is in sync. UNCLEAN elects any replica if no other can lead.
    """

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    cluster: Cluster, kind: ElectionType, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, ServerError | None]:
    """Elect leaders and return each partition's error, or None for a new leader (``partitions`` None: all).

    Partitions that needed no election are left out. Raises ServerError if the whole request is refused.
    """
    topics: dict[str, list[int]] = {}
    for tp in partitions or ():
        topics.setdefault(tp.topic, []).append(tp.partition)
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=None
        if partitions is None
        else [
            ElectLeadersRequest.TopicPartitions(topic=name, partitions=numbers)
            for name, numbers in topics.items()
        ],
        timeout_ms=cluster.config.request_timeout_ms,
    )

    def ask() -> dict[TopicPartition, ServerError | None]:
        response = cluster.call_any(request, ElectLeadersResponse)
        if response.error_code:
            raise error_from(response.error_code, "electing leaders")
        results: dict[TopicPartition, ServerError | None] = {}
        for topic in response.replica_election_results:
            for answer in topic.partition_result:
                tp = TopicPartition(topic.topic, answer.partition_id)
                if answer.error_code == ErrorCode.NONE:
                    results[tp] = None
                elif answer.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    results[tp] = error_from(answer.error_code, f"electing {tp}", answer.error_message)
        return dict(sorted(results.items()))

    return cluster.retry(ask)
