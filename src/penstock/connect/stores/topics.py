"""Create the topics of a worker, or check that existing ones keep the newest record of each key."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.client.admin.configs import ConfigResource, ResourceType, describe_configs
from penstock.client.admin.topics import BROKER_DEFAULT, NewTopic, create_topics
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError, ServerError, UnknownPartition
from penstock.connect.errors import ConfigInvalid, ConnectError
from penstock.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

_CLEANUP: Final = "cleanup.policy"
_COMPACT: Final = "compact"

# Without permission to create or to describe, the worker relies on an operator's topic, as Connect does.
_NOT_PERMITTED: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_TOO_FEW_BROKERS: Final = ErrorCode.INVALID_REPLICATION_FACTOR


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic of the worker.

    ``property_name`` is the worker's property with its name, and ``purpose`` says what the topic keeps; both
    appear in messages. Partitions and replicas of -1 are the brokers' defaults.
    """

    name: str
    property_name: str
    purpose: str
    partitions: int
    replication_factor: int = BROKER_DEFAULT
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


def config_topic(
    name: str, replication_factor: int = BROKER_DEFAULT, settings: Mapping[str, str] | None = None
) -> InternalTopic:
    """Describe the topic of configurations, which always has one partition."""
    purpose = "connector configurations"
    return InternalTopic(name, "config.storage.topic", purpose, 1, replication_factor, settings or {})


def offset_topic(
    name: str,
    partitions: int = 25,
    replication_factor: int = BROKER_DEFAULT,
    settings: Mapping[str, str] | None = None,
) -> InternalTopic:
    """Describe a topic of source offsets, of the worker or of a connector."""
    purpose = "source connector offsets"
    return InternalTopic(
        name, "offset.storage.topic", purpose, partitions, replication_factor, settings or {}
    )


def status_topic(
    name: str,
    partitions: int = 5,
    replication_factor: int = BROKER_DEFAULT,
    settings: Mapping[str, str] | None = None,
) -> InternalTopic:
    """Describe the topic of statuses."""
    purpose = "connector and task statuses"
    return InternalTopic(
        name, "status.storage.topic", purpose, partitions, replication_factor, settings or {}
    )


def require_topic(cluster: Cluster, topic: InternalTopic) -> int:
    """Create the topic if it is missing, else check its cleanup policy; return its number of partitions.

    Raises ConfigInvalid if an existing topic does not only compact, and ConnectError if there is no topic.
    """
    try:
        if topic.name not in cluster.topics([topic.name]):
            _create(cluster, topic)
        verify_cleanup_policy(cluster, topic)
        return len(cluster.require_topics([topic.name], create=True)[topic.name].partitions)
    except UnknownPartition as error:
        raise ConnectError(
            f"Could not look up partition metadata for topic '{topic.name}' in the allotted period. This"
            " could indicate a connectivity issue, unavailable topic partitions, or if this is your first use"
            " of the topic it may have taken too long to create."
        ) from error
    except ClientError as error:
        raise ConnectError(
            f"Error while attempting to create/find topic(s) '{topic.name}': {error}"
        ) from error


def _create(cluster: Cluster, topic: InternalTopic) -> None:
    """Create the topic; while the cluster has too few brokers, retry until the client's timeout."""
    settings = {**topic.settings, _CLEANUP: _COMPACT}
    new = NewTopic(topic.name, topic.partitions, settings, topic.replication_factor)
    deadline_s = time.monotonic() + cluster.config.api_timeout_ms / 1000
    failures = 0
    while True:
        try:
            create_topics(cluster, [new])
            log.info("created a topic topic=%s partitions=%d", topic.name, topic.partitions)
            return
        except ServerError as error:
            if error.code in _NOT_PERMITTED:
                log.debug("the worker may not create the topic, so it expects it topic=%s", topic.name)
                return
            failures += 1
            wait_s = cluster.policy.backoff_s(failures)
            if error.code != _TOO_FEW_BROKERS or time.monotonic() + wait_s >= deadline_s:
                raise ConnectError(f"Unable to create topic(s) '{topic.name}': {error}") from error
            log.info("creating a topic failed, retrying topic=%s error=%s", topic.name, error)
            time.sleep(wait_s)


def verify_cleanup_policy(cluster: Cluster, topic: InternalTopic) -> None:
    """Check that the topic compacts and does not delete. Raises ConfigInvalid and ClientError."""
    found = _cleanup_policies(cluster, topic.name)
    if not found:
        log.info("the cleanup policy cannot be verified topic=%s", topic.name)
    elif found != {_COMPACT}:
        policies = ",".join(sorted(found))
        raise ConfigInvalid(
            f"Topic '{topic.name}' supplied via the '{topic.property_name}' property is required to have"
            f" '{_CLEANUP}={_COMPACT}' to guarantee consistency and durability of {topic.purpose}, but found"
            f" the topic currently has '{_CLEANUP}={policies}'. Continuing would likely result in eventually"
            f" losing {topic.purpose} and problems restarting this Connect cluster in the future. Change the"
            f" '{topic.property_name}' property in the Connect worker configurations to use a topic with"
            f" '{_CLEANUP}={_COMPACT}'."
        )


def _cleanup_policies(cluster: Cluster, name: str) -> set[str]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    try:
        described = describe_configs(cluster, [resource], [_CLEANUP])[resource]
    except ServerError as error:
        if error.code in _NOT_PERMITTED:
            return set()
        raise
    values = [each.value for each in described if each.name == _CLEANUP and each.value]
    return {policy.strip() for value in values for policy in value.split(",") if policy.strip()}
