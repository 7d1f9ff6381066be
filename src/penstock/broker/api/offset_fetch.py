"""OffsetFetch (9): read committed offsets.

Versions 1 to 10. Behaves as in Kafka: several groups at once from version 8 on (KIP-709), topics by id in
version 10 (KIP-848). Version 1 has no field for an error of the group, so every partition has it. Needs
DESCRIBE on each group and each topic; a request for all topics gets those with DESCRIBE.

Versions:
- 1: offsets from `__consumer_offsets` instead of ZooKeeper
- 2: null requests all topics; an error code for the group (KIP-88)
- 3: `throttle_time_ms` (KIP-124)
- 4: a throttled client pauses by itself (KIP-219)
- 5: `committed_leader_epoch` (KIP-320)
- 6: flexible encoding (KIP-482)
- 7: `require_stable`: no offsets while a transaction may change them (KIP-447)
- 8: several groups at once (KIP-709)
- 9: members of the new consumer protocol send their id and epoch (KIP-848)
- 10: topic ids replace names (KIP-848)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer, all_of
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import ZERO_UUID, OffsetFetchRequest, OffsetFetchResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage

GROUP_ERROR_VERSION = 2
REQUIRE_STABLE_VERSION = 7
SEVERAL_GROUPS_VERSION = 8
TOPIC_IDS_VERSION = 10

RequestGroup = OffsetFetchRequest.OffsetFetchRequestGroup
RequestTopics = OffsetFetchRequest.OffsetFetchRequestTopics
ResponseGroup = OffsetFetchResponse.OffsetFetchResponseGroup
ResponseTopics = OffsetFetchResponse.OffsetFetchResponseTopics
ResponsePartitions = OffsetFetchResponse.OffsetFetchResponsePartitions


class Parts(Protocol):
    """The parts of the node that this API uses."""

    groups: GroupCoordinatorRuntime
    image: MetadataImage


def handle(parts: Parts, request: OffsetFetchRequest, context: RequestContext) -> Answer[OffsetFetchResponse]:
    version = context.api_version
    require_stable = version >= REQUIRE_STABLE_VERSION and request.require_stable
    asked = request.groups if version >= SEVERAL_GROUPS_VERSION else [_single_group(request)]
    fetched = all_of([_fetch(parts, group, context, require_stable) for group in asked])
    return fetched.then(lambda groups: _response(request, groups, version))


def _response(request: OffsetFetchRequest, groups: list[ResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= SEVERAL_GROUPS_VERSION:
        return OffsetFetchResponse(groups=groups)
    return _single_response(request, groups[0], version)


def _fetch(
    parts: Parts, request: RequestGroup, context: RequestContext, require_stable: bool
) -> Answer[ResponseGroup]:
    def failed(error: KafkaError) -> ResponseGroup:
        return ResponseGroup(group_id=request.group_id, topics=[], error_code=error.code)

    try:
        context.permissions.require(Operation.DESCRIBE, ResourceType.GROUP, request.group_id)
    except KafkaError as error:
        return Answer.of(failed(error))
    if request.topics is None:
        fetched = parts.groups.fetch_offsets(request, require_stable=require_stable)
        return fetched.then(lambda response: _shown(parts, response, context)).recover(failed)
    refused = _take_out_refused(parts, request, context)
    fetched = parts.groups.fetch_offsets(request, require_stable=require_stable)
    return fetched.then(lambda response: _completed(response, refused)).recover(failed)


# -- some topics -----------------------------------------------------------------------------------------


def _take_out_refused(parts: Parts, request: RequestGroup, context: RequestContext) -> list[ResponseTopics]:
    """Remove topics that are unknown or hidden from the request, and return their answers."""
    refused = _name_topics(parts, request) if context.api_version >= TOPIC_IDS_VERSION else []
    permissions, topics = context.permissions, request.topics or []
    if permissions.is_unrestricted:
        return refused
    may_describe = permissions.allowed(
        Operation.DESCRIBE, ResourceType.TOPIC, [topic.name for topic in topics]
    )
    request.topics = [topic for topic in topics if topic.name in may_describe]
    return refused + [
        _refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for topic in topics
        if topic.name not in may_describe
    ]


def _name_topics(parts: Parts, request: RequestGroup) -> list[ResponseTopics]:
    """Fill in topic names; remove topics with an unknown id from the request and return their answers."""
    known, unknown = [], []
    for topic in request.topics or ():
        image = parts.image.topics.by_id.get(topic.topic_id)
        if image is not None:
            topic.name = image.name
            known.append(topic)
        else:
            unknown.append(_refuse(topic, ErrorCode.UNKNOWN_TOPIC_ID))
    request.topics = known
    return unknown


def _refuse(topic: RequestTopics, error: ErrorCode) -> ResponseTopics:
    return ResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=_failed_partitions(topic.partition_indexes, error),
    )


def _completed(response: ResponseGroup, refused: list[ResponseTopics]) -> ResponseGroup:
    response.topics += refused
    return response


# -- all topics ------------------------------------------------------------------------------------------


def _shown(parts: Parts, response: ResponseGroup, context: RequestContext) -> ResponseGroup:
    """Remove hidden topics from the response, and complete it with ids if the client uses them."""
    permissions = context.permissions
    if not permissions.is_unrestricted:
        may_describe = permissions.allowed(
            Operation.DESCRIBE, ResourceType.TOPIC, [topic.name for topic in response.topics]
        )
        response.topics = [topic for topic in response.topics if topic.name in may_describe]
    if context.api_version >= TOPIC_IDS_VERSION:
        response.topics = _identified(parts, response.topics)
    return response


def _identified(parts: Parts, topics: list[ResponseTopics]) -> list[ResponseTopics]:
    """Add the topics' current ids; a topic without an id is left out."""
    shown = []
    for topic in topics:
        image = parts.image.topics.by_name.get(topic.name)
        if topic.topic_id == ZERO_UUID and image is not None:
            topic.topic_id = image.topic_id
        if topic.topic_id != ZERO_UUID:
            shown.append(topic)
    return shown


def _failed_partitions(indexes: list[int], error: int) -> list[ResponsePartitions]:
    return [
        ResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=error)
        for index in indexes
    ]


# -- one group per request, up to version 7 ------------------------------------------------------------


def _single_group(request: OffsetFetchRequest) -> RequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            RequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return RequestGroup(group_id=request.group_id, topics=topics)


def _single_response(request: OffsetFetchRequest, group: ResponseGroup, version: int) -> OffsetFetchResponse:
    topics = group.topics
    if group.error_code and version < GROUP_ERROR_VERSION:
        topics = [
            ResponseTopics(
                name=topic.name, partitions=_failed_partitions(topic.partition_indexes, group.error_code)
            )
            for topic in request.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


API = (
    Api(OffsetFetchRequest)
    .on_broker(lambda node: node, handle)
    .needs((Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC))
)
