"""ListOffsets: the first and last offsets of partitions, and the offsets of timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ServerError, error_from
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ListOffsetsRequest, ListOffsetsResponse

LATEST: Final = -1
EARLIEST: Final = -2
NO_OFFSET: Final = -1
"""The partition has no record at or after the requested timestamp."""


class IsolationLevel(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ListedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, ListedOffset]:
    """The first offset at or after each timestamp (ms), or `LATEST`, or `EARLIEST`, from the leaders.

    With READ_COMMITTED the latest offset is the last stable offset. Raises UnknownPartition, ServerError.
    """
    missing = dict(timestamps)
    found: dict[TopicPartition, ListedOffset] = {}

    def ask() -> None:
        by_node = cluster.leaders(missing)
        requests = {
            node_id: _request({tp: missing[tp] for tp in partitions}, isolation, cluster)
            for node_id, partitions in by_node.items()
        }
        failure: ServerError | None = None
        for node_id, response in cluster.call_each(requests, ListOffsetsResponse).items():
            failure = _take(response, missing, found, f"broker {node_id}") or failure
        if failure is not None:
            cluster.forget({tp.topic for tp in missing})
            raise failure

    if missing:
        cluster.retry(ask)
    return found


def _request(
    timestamps: Mapping[TopicPartition, int], isolation: IsolationLevel, cluster: Cluster
) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
    for tp, timestamp in timestamps.items():
        topics.setdefault(tp.topic, []).append(
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=tp.partition, current_leader_epoch=-1, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=n, partitions=p) for n, p in topics.items()],
        timeout_ms=cluster.config.request_timeout_ms,
    )


def _take(
    response: ListOffsetsResponse,
    missing: dict[TopicPartition, int],
    found: dict[TopicPartition, ListedOffset],
    server: str,
) -> ServerError | None:
    """Move answered partitions from ``missing`` to ``found``; return the last retriable error, if any."""
    failure = None
    for topic in response.topics:
        for answer in topic.partitions:
            tp = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code == ErrorCode.NONE:
                found[tp] = ListedOffset(answer.offset, answer.timestamp, answer.leader_epoch)
                missing.pop(tp, None)
            else:
                failure = error_from(answer.error_code, f"offsets of {tp} at {server}")
                if not failure.retriable:
                    raise failure
    return failure
