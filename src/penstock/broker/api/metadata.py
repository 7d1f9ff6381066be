"""Metadata (3): report brokers, topics and the leader of each partition; the first request of every client.

Versions 0 to 13. The request creates topics that do not exist if the client and the broker allow it
(``auto.create.topics.enable``). Kafka answers such a request before the topic exists and lets the client
retry; here the first answer contains the topic. Needs DESCRIBE on the topic, and the list of all topics
leaves out the others. Creation needs CREATE on the cluster or on the topic.

Versions:
- 1: racks, the controller's id, `is_internal`; null requests all topics and an empty list none (KAFKA-3306)
- 2: the cluster's id (KIP-78)
- 3: `throttle_time_ms` (KIP-124)
- 4: `allow_auto_topic_creation` (KAFKA-5291)
- 5: `offline_replicas` (KIP-112)
- 6: a throttled client pauses by itself (KIP-219)
- 7: `leader_epoch` (KIP-320)
- 8: authorized operations on the cluster and the topics (KIP-430)
- 9: flexible encoding (KIP-482)
- 10: the response has topic ids (KIP-516)
- 11: no authorized operations on the cluster any more; DescribeCluster reports them (KIP-700)
- 12: topics may be requested by id (KIP-516)
- 13: an error code for the request (KIP-1102)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from penstock.broker.api.describe_cluster import cluster_operations
from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.broker.network.turns import Steps, in_turns
from penstock.metadata.controller.topic_names import INTERNAL_TOPICS, is_valid_topic_name
from penstock.metadata.controller.topics import internal_topic
from penstock.metadata.image import NO_LEADER, BrokerRegistration, PartitionRegistration, TopicImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    ZERO_UUID,
    CreateTopicsRequest,
    CreateTopicsResponse,
    MetadataRequest,
    MetadataResponse,
)
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.forwarding import Forwarding
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image import MetadataImage

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition

_TELLING: Final = {
    int(code): code for code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR)
}
"""The errors of topic creation that the client's user can resolve."""
_AUTO_CREATE_VERSION: Final = 4
"""The first version in which clients allow the creation of topics or not; before, it is allowed."""
_LISTENER_NOT_FOUND_VERSION: Final = 6
_TOPIC_ID_VERSION: Final = 12
"""Versions 10 and 11 have the field, but cannot request topics by it."""


class Parts(Protocol):
    """The parts of the node that this API uses."""

    cluster_id: str
    config: BrokerConfig
    forwarding: Forwarding
    image: MetadataImage
    node_id: int
    replicas: ReplicaManager


def handle(parts: Parts, request: MetadataRequest, context: RequestContext) -> Answer[MetadataResponse]:
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        return in_turns(_respond(parts, request, context, _all_topics(parts, context)))
    if context.api_version < _TOPIC_ID_VERSION and any(
        t.topic_id != ZERO_UUID or t.name is None for t in asked
    ):
        return Answer.of(_refuse_topic_ids(asked))
    ids = [topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID]
    if ids:
        return in_turns(_respond(parts, request, context, (_topic_by_id(parts, context, i) for i in ids)))
    names = list(dict.fromkeys(topic.name or "" for topic in asked))
    may_create = request.allow_auto_topic_creation or context.api_version < _AUTO_CREATE_VERSION
    creates = may_create and parts.config.get_bool("auto.create.topics.enable")
    refused = _unauthorized(parts, context, names, creates=creates)
    known = parts.image.topics.by_name
    missing = [
        name for name in names if name not in known and name not in refused and is_valid_topic_name(name)
    ]
    topics = (refused[name] if name in refused else _topic_by_name(parts, context, name) for name in names)
    if missing and creates:
        return Answer.working(_create_and_respond(parts, request, context, missing, topics))
    return in_turns(_respond(parts, request, context, topics))


def _unauthorized(
    parts: Parts, context: RequestContext, names: list[str], *, creates: bool
) -> Mapping[str, Topic]:
    """The answers for topics that the client may not describe, or not create if they do not exist.

    They are the same for topics that exist and for topics that do not.
    """
    permissions = context.permissions
    if permissions.is_unrestricted:
        return {}
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    describable = permissions.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
    refused = {name: Topic(error_code=code, name=name) for name in names if name not in describable}
    missing = describable - parts.image.topics.by_name.keys() if creates else None
    if missing and not permissions.allows(
        Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False
    ):
        for name in missing - permissions.allowed(Operation.CREATE, ResourceType.TOPIC, missing):
            refused[name] = Topic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)
    return refused


async def _create_and_respond(
    parts: Parts,
    request: MetadataRequest,
    context: RequestContext,
    missing: list[str],
    topics: Iterable[Topic],
) -> MetadataResponse:
    failed = await _auto_create(parts, context, missing)
    response = await in_turns(_respond(parts, request, context, topics))
    for topic in response.topics:
        if topic.error_code and topic.name in failed:
            topic.error_code = failed[topic.name]
    return response


async def _auto_create(parts: Parts, context: RequestContext, names: list[str]) -> dict[str, ErrorCode]:
    """Create topics with the broker's defaults; return the errors to answer for those that failed."""
    topics = [
        internal_topic(name, parts.config)
        if name in INTERNAL_TOPICS
        else CreateTopicsRequest.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
        for name in names
    ]
    request = CreateTopicsRequest(topics=topics)
    try:
        response = await parts.forwarding.ask_for(context, request, CreateTopicsResponse)
    except KafkaError:
        return dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)
    return {
        result.name: _TELLING[result.error_code]
        for result in response.topics
        if result.error_code in _TELLING
    }


def _respond(
    parts: Parts, request: MetadataRequest, context: RequestContext, topics: Iterable[Topic | None]
) -> Steps[MetadataResponse]:
    """Build the response; ``topics`` is evaluated one by one, and None stands for a topic to hide."""
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=registration.broker_id, host=endpoint.host, port=endpoint.port, rack=registration.rack
            )
            for registration in parts.image.cluster.unfenced_brokers()
            if (endpoint := registration.endpoint(context.listener_name)) is not None
        ],
        cluster_id=parts.cluster_id,
        controller_id=parts.node_id,
    )
    for topic in topics:
        if topic is not None:
            response.topics.append(topic)
            if request.include_topic_authorized_operations and _shows_operations(topic):
                topic.topic_authorized_operations = context.permissions.operations(
                    ResourceType.TOPIC, topic.name or ""
                )
        yield
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context.permissions)
    return response


def _shows_operations(topic: Topic) -> bool:
    return topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _refuse_topic_ids(asked: list[MetadataRequest.MetadataRequestTopic]) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            Topic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
            for topic in asked
        ]
    )


def _all_topics(parts: Parts, context: RequestContext) -> Iterator[Topic | None]:
    """All topics, with None for those that the client may not describe."""
    permissions = context.permissions
    for image in list(parts.image.topics):
        hidden = not permissions.is_unrestricted and not permissions.allows(
            Operation.DESCRIBE, ResourceType.TOPIC, image.name, logs_denial=False
        )
        yield None if hidden else _topic(parts, context, image)


def _topic_by_id(parts: Parts, context: RequestContext, topic_id: bytes) -> Topic:
    image = parts.image.topics.by_id.get(topic_id)
    if image is None:
        return Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not context.permissions.allows(Operation.DESCRIBE, ResourceType.TOPIC, image.name):
        return Topic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return _topic(parts, context, image)


def _topic_by_name(parts: Parts, context: RequestContext, name: str) -> Topic:
    image = parts.image.topics.by_name.get(name)
    if image is not None:
        return _topic(parts, context, image)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_valid_topic_name(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return Topic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic(parts: Parts, context: RequestContext, image: TopicImage) -> Topic:
    brokers = parts.image.brokers
    return Topic(
        name=image.name,
        topic_id=image.topic_id,
        is_internal=image.name in INTERNAL_TOPICS,
        partitions=[
            _partition(
                brokers,
                context,
                partition_id,
                partition,
                parts.node_id if (image.name, partition_id) in parts.replicas.failed else NO_LEADER,
            )
            for partition_id, partition in image.partitions.items()
        ],
    )


def _partition(
    brokers: dict[int, BrokerRegistration],
    context: RequestContext,
    partition_id: int,
    partition: PartitionRegistration,
    offline_replica: int,
) -> Partition:
    leader = NO_LEADER if partition.leader == offline_replica else partition.leader
    offline = offline_replicas(brokers, partition)
    if offline_replica in partition.replicas and offline_replica not in offline:
        offline.append(offline_replica)
    return Partition(
        error_code=_leader_error(brokers, context, leader),
        partition_index=partition_id,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline,
    )


def _leader_error(brokers: dict[int, BrokerRegistration], context: RequestContext, leader: int) -> ErrorCode:
    registration = brokers.get(leader)
    if registration is None or registration.fenced:
        return ErrorCode.LEADER_NOT_AVAILABLE
    if registration.endpoint(context.listener_name) is None:
        if context.api_version >= _LISTENER_NOT_FOUND_VERSION:
            return ErrorCode.LISTENER_NOT_FOUND
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.NONE


def offline_replicas(brokers: dict[int, BrokerRegistration], partition: PartitionRegistration) -> list[int]:
    """The replicas on unregistered or fenced brokers, or in log directories that are offline (KIP-858)."""
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if (broker := brokers.get(replica)) is None
        or broker.fenced
        or not broker.has_online_directory(directory)
    ]


API = (
    Api(MetadataRequest)
    .on_broker(lambda node: node, handle)
    .needs(
        (Operation.DESCRIBE, ResourceType.TOPIC),
        (Operation.CREATE, ResourceType.CLUSTER, "to create a topic"),
        (Operation.CREATE, ResourceType.TOPIC, "to create it, without CREATE on the cluster"),
        (Operation.DESCRIBE, ResourceType.CLUSTER, "for authorized operations on the cluster"),
    )
)
