"""Create or check the topic: one partition, compacted.

It gets the configured number of replicas, or as many as there are brokers.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.client.admin.configs import ConfigResource, ResourceType, describe_configs
from penstock.client.admin.topics import NewTopic, create_topics
from penstock.client.connections.cluster import Cluster
from penstock.client.settings import ConfigError
from penstock.registry.store.config import StoreConfig

log = logging.getLogger(__name__)

_CLEANUP: Final = "cleanup.policy"
_COMPACT: Final = "compact"


def require_topic(cluster: Cluster, config: StoreConfig) -> None:
    """Create the topic if it is missing.

    Raises ConfigError if an existing one can't keep schemas, and ClientError.
    """
    known = cluster.refresh()
    if config.topic not in known.topics:
        replicas = min(config.replication_factor, len(known.brokers))
        if replicas < config.replication_factor:
            log.warning(
                "the topic gets fewer replicas than configured, as there are no more brokers "
                "topic=%s replicas=%d configured=%d",
                *(config.topic, replicas, config.replication_factor),
            )
        asked = {**config.topic_config, _CLEANUP: _COMPACT}
        create_topics(cluster, [NewTopic(config.topic, 1, asked, replicas)])
    _verify(cluster, config.topic)


def _verify(cluster: Cluster, topic: str) -> None:
    """Check the topic's settings, since another program may have created it."""
    partitions = len(cluster.require_topics([topic], create=True)[topic].partitions)
    if partitions != 1:
        raise ConfigError(
            f"topic '{topic}' has {partitions} partitions, expected 1: schemas need a single order"
        )
    resource = ConfigResource(ResourceType.TOPIC, topic)
    for found in describe_configs(cluster, [resource], [_CLEANUP])[resource]:
        if found.name == _CLEANUP and found.value != _COMPACT:
            raise ConfigError(
                f"topic '{topic}' has {_CLEANUP}={found.value}, expected {_COMPACT}: "
                "old schemas would be deleted"
            )
