"""DescribeTopicPartitions (75, KIP-966): list partitions page by page, with eligible leader replicas.

Version 0. Topics are sorted by name; a cursor names the next partition. Needs DESCRIBE on the topic, and the
list of all topics leaves out the others. An invalid name is answered INVALID_TOPIC_EXCEPTION; Kafka's whole
request fails with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.api.metadata import offline_replicas
from penstock.broker.api_entry import Api
from penstock.metadata.controller.topic_names import INTERNAL_TOPICS, is_valid_topic_name
from penstock.metadata.image import PartitionRegistration, TopicImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image import MetadataImage
    from penstock.security.permissions import Permissions

Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


class Parts(Protocol):
    """The parts of the node that this API uses."""

    config: BrokerConfig
    image: MetadataImage


def handle(
    parts: Parts, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    names = sorted({topic.name for topic in request.topics}) or sorted(parts.image.topics.by_name)
    first_topic, first_partition = "", 0
    cursor = request.cursor
    if cursor is not None:
        first_topic, first_partition = cursor.topic_name, cursor.partition_index
        if first_partition < 0 or (request.topics and first_topic not in names):
            return _refused(request)
        names = [name for name in names if name >= first_topic]
    limit = parts.config.get_int("max.request.partition.size.limit")
    room = max(1, min(limit, request.response_partition_limit))
    permissions = context.permissions
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if not permissions.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            if request.topics:
                response.topics.append(Topic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name))
            continue
        image = parts.image.topics.by_name.get(name)
        start = first_partition if name == first_topic else 0
        if room == 0:
            response.next_cursor = _cursor(name, start)
            break
        if image is None:
            response.topics.append(_unknown(name, permissions))
            continue
        end = min(start + room, len(image.partitions))
        response.topics.append(_topic(parts, image, range(start, end), permissions))
        room -= max(0, end - start)
        if end < len(image.partitions):
            response.next_cursor = _cursor(name, end)
            break
    return response


def _cursor(topic: str, partition: int) -> DescribeTopicPartitionsResponse.Cursor:
    return DescribeTopicPartitionsResponse.Cursor(topic_name=topic, partition_index=partition)


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Answer an invalid cursor with an error on each topic, as the response has no other place for it."""
    return DescribeTopicPartitionsResponse(
        topics=[Topic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name) for topic in request.topics]
    )


def _unknown(name: str, permissions: Permissions) -> Topic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_valid_topic_name(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return Topic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=permissions.operations(ResourceType.TOPIC, name),
    )


def _topic(parts: Parts, image: TopicImage, partitions: range, permissions: Permissions) -> Topic:
    return Topic(
        name=image.name,
        topic_id=image.topic_id,
        is_internal=image.name in INTERNAL_TOPICS,
        partitions=[_partition(parts, p, image.partitions[p]) for p in partitions],
        topic_authorized_operations=permissions.operations(ResourceType.TOPIC, image.name),
    )


def _partition(parts: Parts, partition_id: int, partition: PartitionRegistration) -> Partition:
    has_leader = partition.leader in parts.image.brokers
    return Partition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition_id,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(parts.image.brokers, partition),
    )


API = (
    Api(DescribeTopicPartitionsRequest)
    .on_broker(lambda node: node, handle)
    .needs((Operation.DESCRIBE, ResourceType.TOPIC))
)
