"""Create and delete topics, and delete the oldest records (CreateTopics, DeleteTopics, DeleteRecords)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ServerError, error_from
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

BROKER_DEFAULT: Final = -1
"""Leaves the number of partitions or replicas to the brokers' defaults (KIP-464)."""

_STATES_VERSION: Final = 6
"""The first version of DeleteTopics that takes topics by name or by id (KIP-516)."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; the brokers' defaults apply to what is left out."""

    name: str
    partitions: int = BROKER_DEFAULT
    config: Mapping[str, str] = field(default_factory=dict, hash=False)
    replication_factor: int = BROKER_DEFAULT


def create_topics(cluster: Cluster, topics: Iterable[NewTopic]) -> None:
    """Create topics and wait until the cluster's metadata lists them; existing topics are left as they are.

    Raises ServerError for the first topic that the cluster refuses.
    """
    wanted = {topic.name: topic for topic in topics}

    def ask() -> None:
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    assignments=[],
                    configs=[
                        CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
                        for name, value in topic.config.items()
                    ],
                )
                for topic in wanted.values()
            ],
            timeout_ms=cluster.config.request_timeout_ms,
        )
        for answer in cluster.call_any(request, CreateTopicsResponse).topics:
            if answer.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                wanted.pop(answer.name, None)
            else:
                raise error_from(answer.error_code, f"creating topic '{answer.name}'", answer.error_message)

    names = list(wanted)
    if names:
        cluster.retry(ask)
        cluster.forget(names)
        cluster.require_topics(names, create=True)


def delete_topics(cluster: Cluster, names: Collection[str]) -> None:
    """Delete topics; missing ones are skipped. Raises ServerError."""
    left = set(names)

    def ask() -> None:
        timeout_ms = cluster.config.request_timeout_ms
        if cluster.any_version_of(ApiKey.DELETE_TOPICS) < _STATES_VERSION:
            request = DeleteTopicsRequest(topic_names=sorted(left), timeout_ms=timeout_ms)
        else:
            states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in sorted(left)]
            request = DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
        for answer in cluster.call_any(request, DeleteTopicsResponse).responses:
            if answer.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                left.discard(answer.name or "")
            else:
                raise error_from(answer.error_code, f"deleting topic '{answer.name}'", answer.error_message)

    if left:
        cluster.retry(ask)
        cluster.forget(names)


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> None:
    """Delete the records of each partition before this offset. Raises ServerError."""
    left = dict(before)

    def ask() -> None:
        requests = {
            node_id: _delete_request({tp: left[tp] for tp in partitions}, cluster)
            for node_id, partitions in cluster.leaders(left).items()
        }
        failure: ServerError | None = None
        for response in cluster.call_each(requests, DeleteRecordsResponse).values():
            for topic in response.topics:
                for answer in topic.partitions:
                    tp = TopicPartition(topic.name, answer.partition_index)
                    if answer.error_code == ErrorCode.NONE:
                        left.pop(tp, None)
                    else:
                        failure = error_from(
                            answer.error_code, f"deleting records of {tp} before {before[tp]}"
                        )
        if failure is not None:
            cluster.forget({tp.topic for tp in left})
            raise failure

    if left:
        cluster.retry(ask)


def _delete_request(before: Mapping[TopicPartition, int], cluster: Cluster) -> DeleteRecordsRequest:
    topics: dict[str, list[DeleteRecordsRequest.DeleteRecordsPartition]] = {}
    for tp, offset in before.items():
        topics.setdefault(tp.topic, []).append(
            DeleteRecordsRequest.DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
        )
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=p) for name, p in topics.items()
        ],
        timeout_ms=cluster.config.request_timeout_ms,
    )
