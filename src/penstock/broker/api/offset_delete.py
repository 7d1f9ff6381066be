"""OffsetDelete (47): delete committed offsets of topics that a group does not read (KIP-496).

Version 0. Behaves as in Kafka. Needs DELETE on the group and READ on each topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage

RequestPartition = OffsetDeleteRequest.OffsetDeleteRequestPartition
ResponsePartition = OffsetDeleteResponse.OffsetDeleteResponsePartition

Refused = dict[str, list[ResponsePartition]]
"""The answers of partitions that are refused, by topic."""


class Parts(Protocol):
    """The parts of the node that this API uses."""

    groups: GroupCoordinatorRuntime
    image: MetadataImage


def handle(
    parts: Parts, request: OffsetDeleteRequest, context: RequestContext
) -> Answer[OffsetDeleteResponse]:
    permissions = context.permissions
    permissions.require(Operation.DELETE, ResourceType.GROUP, request.group_id)
    names = [topic.name for topic in request.topics]
    may_read = permissions.allowed(Operation.READ, ResourceType.TOPIC, names)
    refused: Refused = {}
    for topic in request.topics:
        if topic.name not in may_read:
            refused[topic.name] = _refuse(topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            topic.partitions = []
            continue
        image = parts.image.topics.by_name.get(topic.name)
        partitions = image.partitions if image is not None else {}
        missing = [p for p in topic.partitions if p.partition_index not in partitions]
        if missing:
            refused[topic.name] = _refuse(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic.partitions = [p for p in topic.partitions if p.partition_index in partitions]
    request.topics = [topic for topic in request.topics if topic.partitions]
    answer = parts.groups.delete_offsets(request).then(lambda response: _merge(response, refused))
    return answer.recover(lambda error: OffsetDeleteResponse(error_code=error.code))


def _refuse(partitions: list[RequestPartition], error: ErrorCode) -> list[ResponsePartition]:
    return [
        ResponsePartition(partition_index=partition.partition_index, error_code=error)
        for partition in partitions
    ]


def _merge(response: OffsetDeleteResponse, refused: Refused) -> OffsetDeleteResponse:
    if response.error_code:
        return response
    for answered in response.topics:
        answered.partitions += refused.pop(answered.name, [])
    response.topics += [
        OffsetDeleteResponse.OffsetDeleteResponseTopic(name=name, partitions=partitions)
        for name, partitions in refused.items()
    ]
    return response


API = (
    Api(OffsetDeleteRequest)
    .on_broker(lambda node: node, handle)
    .needs((Operation.DELETE, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC))
)
