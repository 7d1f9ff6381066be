"""DescribeProducers (61): report partitions' active producers and open transactions (KIP-664).

Version 0. Needs READ on the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.broker.network.turns import Steps, in_turns
from penstock.metadata.controller.state import Refusal
from penstock.metadata.controller.topic_names import check_topic_name
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DescribeProducersRequest, DescribeProducersResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.metadata.image import MetadataImage

PartitionResponse = DescribeProducersResponse.PartitionResponse


class Parts(Protocol):
    """The parts of the node that this API uses."""

    image: MetadataImage
    replicas: ReplicaManager


def handle(
    parts: Parts, request: DescribeProducersRequest, context: RequestContext
) -> Answer[DescribeProducersResponse]:
    return in_turns(_answer(parts, request, context))


def _answer(
    parts: Parts, request: DescribeProducersRequest, context: RequestContext
) -> Steps[DescribeProducersResponse]:
    topics = []
    for topic in request.topics:
        refused = _refusal(topic.name, context)
        partitions = []
        for index in topic.partition_indexes:
            yield
            if refused is None:
                described = yield from _describe(parts, topic.name, index)
            else:
                described = PartitionResponse(
                    partition_index=index, error_code=refused.code, error_message=str(refused)
                )
            partitions.append(described)
        topics.append(DescribeProducersResponse.TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _refusal(topic: str, context: RequestContext) -> Refusal | None:
    """The reason why no partition of the topic is described, whether it exists or not."""
    try:
        check_topic_name(topic)
    except Refusal as refusal:
        return refusal
    if context.permissions.allows(Operation.READ, ResourceType.TOPIC, topic):
        return None
    return Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _describe(parts: Parts, topic: str, index: int) -> Steps[PartitionResponse]:
    response = PartitionResponse(partition_index=index)
    try:
        producers = parts.replicas.leader(topic, index).active_producers()
    except KafkaError as error:
        response.error_code = error.code
        if topic not in parts.image.topics.by_name:
            response.error_message = "This server does not host this topic-partition."
    else:
        for producer in producers:
            yield
            response.active_producers.append(
                DescribeProducersResponse.ProducerState(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_start_offset=producer.txn_first_offset,
                )
            )
    return response


API = (
    Api(DescribeProducersRequest)
    .on_broker(lambda node: node, handle)
    .needs((Operation.READ, ResourceType.TOPIC))
)
