"""ListOffsets (2): find the offset of a timestamp, or of a position that a negative timestamp names.

Versions 1 to 11. If an index or a segment must be searched, a worker does it. A leader that does not know yet
which records of earlier epochs are committed answers with an error (KIP-207). This node has no tiered
storage, so the earliest local offset is the log start offset, and the latest tiered and the earliest pending
upload offsets do not exist. Needs DESCRIBE on the topic.

Versions:
- 1: one offset with its timestamp instead of a list of offsets (KIP-79)
- 2: `isolation_level` (KIP-98), `throttle_time_ms` (KIP-124)
- 3: a throttled client pauses by itself (KIP-219)
- 4: `current_leader_epoch` in the request, `leader_epoch` in the response (KIP-320)
- 5: the error OFFSET_NOT_AVAILABLE (KIP-207)
- 6: flexible encoding (KIP-482)
- 7: timestamp -3: the record with the highest timestamp (KIP-734)
- 8: timestamp -4: the earliest local offset (KIP-405)
- 9: timestamp -5: the latest tiered offset (KIP-1005)
- 10: `timeout_ms`, for offsets in tiered storage (KIP-1075)
- 11: timestamp -6: the earliest pending upload offset (KIP-1023)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.broker.network.turns import Steps, in_turns
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.replica import Replica
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.broker.setup.host import RunInWorker

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3  # KIP-734, version 7
EARLIEST_LOCAL = -4  # KIP-405, version 8
LATEST_TIERED = -5  # KIP-1005, version 9
EARLIEST_PENDING_UPLOAD = -6  # KIP-1023, version 11

FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
READ_COMMITTED = 1
CONSUMER = -1
DEBUGGING = -2
"""A replica id for tools: any replica answers."""
OFFSET_NOT_AVAILABLE_SINCE_VERSION = 5

TopicResponse = ListOffsetsResponse.ListOffsetsTopicResponse
PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse
Wanted = ListOffsetsRequest.ListOffsetsPartition


class Parts(Protocol):
    """The parts of the node that this API uses."""

    replicas: ReplicaManager

    @property
    def decode_in_worker(self) -> RunInWorker: ...


def handle(parts: Parts, request: ListOffsetsRequest, context: RequestContext) -> Answer[ListOffsetsResponse]:
    names = [topic.name for topic in request.topics]
    describable = context.permissions.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
    if any(_must_search(wanted.timestamp) for topic in request.topics for wanted in topic.partitions):
        return Answer.working(_search(parts, request, describable, context.api_version))
    return in_turns(_answer(parts, request, describable, context.api_version))


def _answer(
    parts: Parts, request: ListOffsetsRequest, describable: set[str], version: int
) -> Steps[ListOffsetsResponse]:
    response = ListOffsetsResponse()
    for topic in request.topics:
        answered = TopicResponse(name=topic.name)
        response.topics.append(answered)
        for wanted in topic.partitions:
            yield
            if topic.name in describable:
                answered.partitions.append(_known_offset(parts, request, topic.name, wanted, version))
            else:
                answered.partitions.append(_unauthorized(wanted))
    return response


def _unauthorized(wanted: Wanted) -> PartitionResponse:
    return PartitionResponse(
        partition_index=wanted.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


def _must_search(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


async def _search(
    parts: Parts, request: ListOffsetsRequest, describable: set[str], version: int
) -> ListOffsetsResponse:
    topics = []
    for topic in request.topics:
        if topic.name in describable:
            searches = (
                _searched_offset(parts, request, topic.name, wanted, version) for wanted in topic.partitions
            )
            partitions = list(await asyncio.gather(*searches))
        else:
            partitions = [_unauthorized(wanted) for wanted in topic.partitions]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


async def _searched_offset(
    parts: Parts, request: ListOffsetsRequest, topic: str, wanted: Wanted, version: int
) -> PartitionResponse:
    if not _must_search(wanted.timestamp) or version < FIRST_VERSION_OF.get(wanted.timestamp, 0):
        return _known_offset(parts, request, topic, wanted, version)
    index = wanted.partition_index
    try:
        replica = _replica(parts, request, topic, wanted)
        if wanted.timestamp == MAX_TIMESTAMP:
            found = await parts.decode_in_worker(replica.log.max_timestamp_offset)
        else:
            found = await parts.decode_in_worker(replica.log.offset_for_timestamp, wanted.timestamp)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code)
    if found is None or found.offset >= _last_fetchable(replica, request):
        if found is not None and (uncertain := _uncertain(replica, request, version)):
            return PartitionResponse(partition_index=index, error_code=uncertain)
        return PartitionResponse(partition_index=index)
    return PartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _known_offset(
    parts: Parts, request: ListOffsetsRequest, topic: str, wanted: Wanted, version: int
) -> PartitionResponse:
    index = wanted.partition_index
    if version < FIRST_VERSION_OF.get(wanted.timestamp, 0) or wanted.timestamp < EARLIEST_PENDING_UPLOAD:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        replica = _replica(parts, request, topic, wanted)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code)
    if wanted.timestamp == LATEST and (uncertain := _uncertain(replica, request, version)):
        return PartitionResponse(partition_index=index, error_code=uncertain)
    match wanted.timestamp:
        case -1:
            offset, epoch = _last_fetchable(replica, request), replica.leader_epoch
        case -2 | -4:
            offset = replica.log.log_start_offset
            epoch = replica.epoch_of(offset)
        case _:
            offset, epoch = -1, -1
    return PartitionResponse(partition_index=index, timestamp=-1, offset=offset, leader_epoch=epoch)


def _replica(parts: Parts, request: ListOffsetsRequest, topic: str, wanted: Wanted) -> Replica:
    """Find the replica that answers. Raises KafkaError."""
    find = parts.replicas.readable if request.replica_id == DEBUGGING else parts.replicas.leader
    return find(topic, wanted.partition_index, wanted.current_leader_epoch)


def _uncertain(replica: Replica, request: ListOffsetsRequest, version: int) -> ErrorCode | None:
    """The error for a consumer while more records may be committed than this leader knows (KIP-207).

    That is the case from the leader's election until the high watermark reaches the log end offset of that
    moment.
    """
    leading = None if replica.replicated is None else replica.replicated.leading
    if (
        leading is None
        or request.replica_id != CONSUMER
        or replica.high_watermark >= leading.epoch_start_offset
    ):
        return None
    if version >= OFFSET_NOT_AVAILABLE_SINCE_VERSION:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


def _last_fetchable(replica: Replica, request: ListOffsetsRequest) -> int:
    """The end of the log that is visible to this client."""
    if request.replica_id != CONSUMER:
        return replica.log.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return replica.last_stable_offset
    return replica.high_watermark


API = (
    Api(ListOffsetsRequest)
    .on_broker(lambda node: node, handle)
    .needs((Operation.DESCRIBE, ResourceType.TOPIC))
)
