"""DeleteRecords (21): advance the log start offset of partitions. Versions 0 to 2.

The answer waits until the live replicas have advanced too, and its low watermark is the smallest log start
offset among them. The next retention check deletes segments that lie completely below it. Needs DELETE on the
topic.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: flexible encoding (KIP-482)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.broker.api_entry import Api
from penstock.metadata.controller.topic_names import INTERNAL_TOPICS
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.replica import Replica
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.broker.partitions.replicated_partition import ReplicatedPartition
    from penstock.broker.setup.host import RunInWorker
    from penstock.metadata.image import MetadataImage
    from penstock.storage.directories.log_manager import LogManager

TO_HIGH_WATERMARK = -1

PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult


class Parts(Protocol):
    """The parts of the node that this API uses."""

    image: MetadataImage
    logs: LogManager
    loop: asyncio.AbstractEventLoop
    replicas: ReplicaManager

    @property
    def run_in_worker(self) -> RunInWorker: ...


async def handle(
    parts: Parts, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    names = [topic.name for topic in request.topics]
    deletable = context.permissions.allowed(Operation.DELETE, ResourceType.TOPIC, names)
    deleted = [
        (topic.name, [_delete(parts, topic.name, wanted, deletable) for wanted in topic.partitions])
        for topic in request.topics
        if topic.partitions  # Kafka answers by partition, too
    ]
    # Write the start offsets down, so that a crash does not bring the records back: Kafka does that once a
    # minute.
    await parts.run_in_worker(parts.logs.checkpoint_log_start_offsets)
    deadline_s = parts.loop.time() + request.timeout_ms / 1000
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=name, partitions=[await _everywhere(result, deadline_s) for result in results]
            )
            for name, results in deleted
        ]
    )


class _Deleted(NamedTuple):
    """The result of a deletion on this node; `replicated` is set if followers must delete too."""

    result: PartitionResult
    offset: int = 0
    replicated: ReplicatedPartition | None = None


def _delete(
    parts: Parts, topic: str, wanted: DeleteRecordsRequest.DeleteRecordsPartition, deletable: set[str]
) -> _Deleted:
    index = wanted.partition_index
    try:
        if topic not in deletable:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        replica, offset = _delete_before(parts, topic, index, wanted.offset)
    except KafkaError as error:
        return _Deleted(PartitionResult(partition_index=index, low_watermark=-1, error_code=error.code))
    result = PartitionResult(partition_index=index, low_watermark=replica.log.log_start_offset)
    return _Deleted(result, offset, replica.replicated)


async def _everywhere(deleted: _Deleted, deadline_s: float) -> PartitionResult:
    """Wait until all live replicas start at the offset, so that no election brings the records back."""
    result, offset, replicated = deleted
    if replicated is None:
        return result
    if replicated.low_watermark < offset:
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        replicated.low_watermark_waiters.wait(
            offset, lambda error: None if done.done() else done.set_result(error)
        )
        try:
            async with asyncio.timeout_at(deadline_s):
                result.error_code = await done
        except TimeoutError:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
    result.low_watermark = replicated.low_watermark
    return result


def _delete_before(parts: Parts, topic: str, partition: int, offset: int) -> tuple[Replica, int]:
    """Delete records below an offset; return the replica and the resolved offset. Raises KafkaError."""
    if parts.image.topics.partition(topic, partition) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"cannot delete records of internal topic {topic}"
        )
    replica = parts.replicas.leader(topic, partition)
    if not replica.config.deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"cleanup.policy of topic {topic} does not delete")
    if offset == TO_HIGH_WATERMARK:
        offset = replica.high_watermark
    if not 0 <= offset <= replica.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    replica.log.delete_records_before(offset)
    replica.wake_all()
    return replica, offset


API = (
    Api(DeleteRecordsRequest)
    .on_broker(lambda node: node, handle)
    .needs((Operation.DELETE, ResourceType.TOPIC))
)
