"""OffsetCommit (8): commit offsets of topics that exist.

Versions 2 to 10. Behaves as in Kafka: version 10 names topics by id (KIP-848); partitions that do not exist
are refused one by one, and the others are committed. Needs READ on the group and on each topic.

Versions:
- 2: `retention_time_ms` of the request replaces a timestamp of each partition (KAFKA-1634)
- 3: `throttle_time_ms` (KIP-124)
- 4: a throttled client pauses by itself (KIP-219)
- 5: no `retention_time_ms` any more; the broker's configuration decides (KIP-211)
- 6: `committed_leader_epoch` (KIP-320)
- 7: `group_instance_id` for static members (KIP-345)
- 8: flexible encoding (KIP-482)
- 9: members of the new consumer protocol send their epoch; the errors STALE_MEMBER_EPOCH and
  GROUP_ID_NOT_FOUND (KIP-848)
- 10: topic ids replace names (KIP-848)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.coordinators.group.offset_commit import commit_error_response
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage
    from penstock.security.permissions import Permissions

TOPIC_IDS_VERSION = 10

RequestTopic = OffsetCommitRequest.OffsetCommitRequestTopic
ResponseTopic = OffsetCommitResponse.OffsetCommitResponseTopic


class Parts(Protocol):
    """The parts of the node that this API uses."""

    groups: GroupCoordinatorRuntime
    image: MetadataImage


def handle(
    parts: Parts, request: OffsetCommitRequest, context: RequestContext
) -> Answer[OffsetCommitResponse]:
    permissions = context.permissions
    if not permissions.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return Answer.of(commit_error_response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if context.api_version >= TOPIC_IDS_VERSION:
        refused = _take_out_unknown_ids(parts, request)
    else:
        refused = []
    if not permissions.is_unrestricted:
        refused += _take_out_unreadable(request, permissions)
    known: list[RequestTopic] = []
    for topic in request.topics:
        _sort_out(parts, topic, known, refused)
    if not known:
        return Answer.of(OffsetCommitResponse(topics=refused))
    request.topics = known
    answer = parts.groups.commit_offsets(request, context).recover(
        lambda error: commit_error_response(request, error.code)
    )
    return answer.then(lambda response: _merge(response, refused)) if refused else answer


def _take_out_unknown_ids(parts: Parts, request: OffsetCommitRequest) -> list[ResponseTopic]:
    """Fill in names; remove topics with an unknown id from the request and return their answers."""
    known, refused = [], []
    for topic in request.topics:
        image = parts.image.topics.by_id.get(topic.topic_id)
        if image is not None:
            topic.name = image.name
            known.append(topic)
        else:
            refused.append(_refuse(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID))
    request.topics = known
    return refused


def _take_out_unreadable(request: OffsetCommitRequest, permissions: Permissions) -> list[ResponseTopic]:
    """Remove topics that the client may not read from the request, and return their answers."""
    names = [topic.name for topic in request.topics]
    may_read = permissions.allowed(Operation.READ, ResourceType.TOPIC, names)
    refused = [
        _refuse(topic, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for topic in request.topics
        if topic.name not in may_read
    ]
    request.topics = [topic for topic in request.topics if topic.name in may_read]
    return refused


def _sort_out(
    parts: Parts, topic: RequestTopic, known: list[RequestTopic], refused: list[ResponseTopic]
) -> None:
    """Fill in the topic's id, and separate partitions that do not exist."""
    image = parts.image.topics.by_name.get(topic.name)
    if image is None:
        refused.append(_refuse(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return
    topic.topic_id = image.topic_id
    missing = [p for p in topic.partitions if p.partition_index not in image.partitions]
    if missing:
        refused.append(_refuse(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        topic.partitions = [p for p in topic.partitions if p.partition_index in image.partitions]
    if topic.partitions:
        known.append(topic)


def _refuse(
    topic: RequestTopic,
    partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition],
    error: ErrorCode,
) -> ResponseTopic:
    return ResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponse.OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=error
            )
            for partition in partitions
        ],
    )


def _merge(response: OffsetCommitResponse, refused: list[ResponseTopic]) -> OffsetCommitResponse:
    """Merge the results so that each topic has one entry."""
    by_topic = {(topic.name, topic.topic_id): topic for topic in refused}
    for topic in response.topics:
        earlier = by_topic.setdefault((topic.name, topic.topic_id), topic)
        if earlier is not topic:
            earlier.partitions += topic.partitions
    return OffsetCommitResponse(topics=list(by_topic.values()))


API = (
    Api(OffsetCommitRequest)
    .on_broker(lambda node: node, handle)
    .needs((Operation.READ, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC))
)
