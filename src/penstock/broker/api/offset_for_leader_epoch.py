"""OffsetForLeaderEpoch (23): find where a leader epoch ended, so that a client detects log truncation.

Versions 2 to 4. Followers and consumers get the same answer: the current epoch ends at the log end offset,
which may be above the high watermark. Needs CLUSTER_ACTION on the cluster, or DESCRIBE on the topic.

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
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.replica_manager import ReplicaManager

TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(
    replicas: ReplicaManager, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> Answer[OffsetForLeaderEpochResponse]:
    return in_turns(_answer(replicas, request, _describable(request, context)))


def _describable(request: OffsetForLeaderEpochRequest, context: RequestContext) -> set[str]:
    """The topics of the request that a broker or a consumer may ask for."""
    names = [topic.topic for topic in request.topics]
    permissions = context.permissions
    if permissions.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False):
        return set(names)
    return permissions.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)


def _answer(
    replicas: ReplicaManager, request: OffsetForLeaderEpochRequest, describable: set[str]
) -> Steps[OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answered = TopicResult(topic=topic.topic)
        response.topics.append(answered)
        for wanted in topic.partitions:
            yield
            if topic.topic in describable:
                answered.partitions.append(_end_offset(replicas, topic.topic, wanted))
            else:
                answered.partitions.append(_refusal(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return response


def _end_offset(
    replicas: ReplicaManager,
    topic: str,
    wanted: OffsetForLeaderEpochRequest.OffsetForLeaderPartition,
) -> EpochEndOffset:
    try:
        replica = replicas.leader(topic, wanted.partition, wanted.current_leader_epoch)
    except KafkaError as error:
        return _refusal(wanted, error.code)
    epoch, end_offset = replica.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(
        partition=wanted.partition, error_code=ErrorCode.NONE, leader_epoch=epoch, end_offset=end_offset
    )


def _refusal(wanted: OffsetForLeaderEpochRequest.OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=wanted.partition, error_code=code)


API = (
    Api(OffsetForLeaderEpochRequest)
    .on_broker(lambda node: node.replicas, handle)
    .needs(
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "for brokers"),
        (Operation.DESCRIBE, ResourceType.TOPIC, "without CLUSTER_ACTION"),
    )
)
