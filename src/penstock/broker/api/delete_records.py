"""DeleteRecords (21): move the start of a partition's log up. Versions 0 to 2.

The low watermark answered is the new log start offset. Segments that lie wholly below it go with the next
retention check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.controller.topic_names import INTERNAL_TOPICS
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.DELETE_RECORDS

TO_HIGH_WATERMARK = -1

PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult


async def handle(
    broker: Broker, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(broker, topic.name, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    # What was told to be deleted stays so, whatever dies: Kafka writes this down once a minute.
    await broker.run_in_worker(broker.logs.checkpoint_log_start_offsets)
    return response


def _delete(
    broker: Broker, topic: str, wanted: DeleteRecordsRequest.DeleteRecordsPartition
) -> PartitionResult:
    try:
        low_watermark = _delete_before(broker, topic, wanted.partition_index, wanted.offset)
    except KafkaError as error:
        return PartitionResult(
            partition_index=wanted.partition_index, low_watermark=-1, error_code=error.code
        )
    return PartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark)


def _delete_before(broker: Broker, topic: str, partition: int, offset: int) -> int:
    """The new log start offset. Raises KafkaError."""
    if topic in INTERNAL_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"cannot delete records of internal topic {topic}"
        )
    replica = broker.replicas.leader(topic, partition)
    if not replica.config.deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"cleanup.policy of topic {topic} does not delete")
    if offset == TO_HIGH_WATERMARK:
        offset = replica.high_watermark
    if not 0 <= offset <= replica.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    low_watermark = replica.log.delete_records_before(offset)
    replica.wake_all()
    return low_watermark
