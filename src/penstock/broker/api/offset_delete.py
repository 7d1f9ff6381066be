"""OffsetDelete (47): delete committed offsets of topics that a group does not read (KIP-496).

Version 0. Behaves as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage

ResponsePartition = OffsetDeleteResponse.OffsetDeleteResponsePartition


class Parts(Protocol):
    """The parts of the node that this API uses."""

    groups: GroupCoordinatorRuntime
    image: MetadataImage


def handle(
    parts: Parts, request: OffsetDeleteRequest, context: RequestContext
) -> Answer[OffsetDeleteResponse]:
    unknown: dict[str, list[ResponsePartition]] = {}
    for topic in request.topics:
        image = parts.image.topics.by_name.get(topic.name)
        partitions = image.partitions if image is not None else {}
        missing = [p for p in topic.partitions if p.partition_index not in partitions]
        if missing:
            unknown[topic.name] = [
                ResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
                for partition in missing
            ]
        topic.partitions = [p for p in topic.partitions if p.partition_index in partitions]
    request.topics = [topic for topic in request.topics if topic.partitions]
    answer = parts.groups.delete_offsets(request).then(lambda response: _merge(response, unknown))
    return answer.recover(lambda error: OffsetDeleteResponse(error_code=error.code))


def _merge(
    response: OffsetDeleteResponse, unknown: dict[str, list[ResponsePartition]]
) -> OffsetDeleteResponse:
    if response.error_code:
        return response
    for answered in response.topics:
        answered.partitions += unknown.pop(answered.name, [])
    response.topics += [
        OffsetDeleteResponse.OffsetDeleteResponseTopic(name=name, partitions=partitions)
        for name, partitions in unknown.items()
    ]
    return response


API = Api(OffsetDeleteRequest).on_broker(lambda node: node, handle)
