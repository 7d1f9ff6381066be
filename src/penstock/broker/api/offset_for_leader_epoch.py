"""OffsetForLeaderEpoch (23): find where a leader epoch ended, so that a client detects log truncation.

Versions 2 to 4. Followers and consumers get the same answer: the current epoch ends at the log end offset,
which may be above the high watermark.

Versions:
- 2: `current_leader_epoch` (KIP-320); `throttle_time_ms`
- 3: `replica_id` (KIP-392)
- 4: flexible encoding (KIP-482)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.broker.network.turns import Steps, in_turns
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.replica_manager import ReplicaManager

TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(
    replicas: ReplicaManager, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> Answer[OffsetForLeaderEpochResponse]:
    return in_turns(_answer(replicas, request))


def _answer(
    replicas: ReplicaManager, request: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answered = TopicResult(topic=topic.topic)
        response.topics.append(answered)
        for wanted in topic.partitions:
            yield
            answered.partitions.append(_end_offset(replicas, topic.topic, wanted))
    return response


def _end_offset(
    replicas: ReplicaManager,
    topic: str,
    wanted: OffsetForLeaderEpochRequest.OffsetForLeaderPartition,
) -> EpochEndOffset:
    try:
        replica = replicas.leader(topic, wanted.partition, wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    epoch, end_offset = replica.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(
        partition=wanted.partition, error_code=ErrorCode.NONE, leader_epoch=epoch, end_offset=end_offset
    )


API = Api(OffsetForLeaderEpochRequest).on_broker(lambda node: node.replicas, handle)
