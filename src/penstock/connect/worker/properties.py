"""Turns a worker's properties into the settings of its parts, with defaults that suit a single worker.

Kafka Connect requires the names of the group, of its three topics and of the converters, and creates topics
with three replicas. Here a worker needs nothing but the brokers' addresses: other workers with the same
defaults share its work, topics are named after the group, and they get the brokers' default replication.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.connect.group.assignment import ConnectProtocol
from penstock.connect.group.session_keys import KeyRotation
from penstock.connect.group.settings import GroupSettings
from penstock.connect.herding.distributed.settings import HerderSettings
from penstock.connect.stores import InternalTopic, config_topic, offset_topic, status_topic

_GROUP_ID: Final = "connect"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_PURPOSES: Final = {"config": "configs", "offset": "offsets", "status": "status"}
"""The last parts of the default names of topics, by the first parts of their properties."""
_TOPIC_KEYS: Final = ("topic", "partitions", "replication.factor")
_EXACTLY_ONCE: Final = "exactly.once.source.support"


def with_defaults(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a worker's properties with the defaults of those that are missing."""
    group_id = properties.get("group.id", _GROUP_ID)
    topics = {f"{key}.storage.topic": f"{group_id}-{name}" for key, name in _PURPOSES.items()}
    replicas = {f"{key}.storage.replication.factor": "-1" for key in _PURPOSES}
    converters = {"key.converter": _JSON, "value.converter": _JSON}
    return {"group.id": group_id, **topics, **replicas, **converters, **properties}


def herder_settings(
    values: Mapping[str, Any], properties: Mapping[str, str], url: str, worker_id: str
) -> HerderSettings:
    """Return the settings of a worker's herder.

    Args:
        values: the parsed properties.
        properties: the same as text.
        url: where other workers reach this one.
        worker_id: the host and port of this worker.
    """
    group = GroupSettings(
        group_id=values["group.id"],
        protocol=ConnectProtocol[values["connect.protocol"].upper()],
        session_timeout_ms=values["session.timeout.ms"],
        heartbeat_interval_ms=values["heartbeat.interval.ms"],
        rebalance_timeout_ms=values["rebalance.timeout.ms"],
        worker_unsync_backoff_ms=values["worker.unsync.backoff.ms"],
        scheduled_rebalance_max_delay_ms=values["scheduled.rebalance.max.delay.ms"],
    )
    keys = KeyRotation(
        values["inter.worker.key.generation.algorithm"],
        values["inter.worker.key.size"],
        values["inter.worker.key.ttl.ms"],
    )
    return HerderSettings(
        group=group,
        url=url,
        worker_id=worker_id,
        config_topic=config_topic(
            values["config.storage.topic"],
            values["config.storage.replication.factor"],
            _topic_settings(properties, "config"),
        ),
        status_topic=status_topic(
            values["status.storage.topic"],
            values["status.storage.partitions"],
            values["status.storage.replication.factor"],
            _topic_settings(properties, "status"),
        ),
        sync_timeout_ms=values["worker.sync.timeout.ms"],
        fences_leaders=values[_EXACTLY_ONCE].lower() != "disabled",
        exactly_once=is_exactly_once(values),
        tracks_topics=values["topic.tracking.enable"],
        keys=keys,
        signature_algorithm=values["inter.worker.signature.algorithm"],
        verification_algorithms=tuple(values["inter.worker.verification.algorithms"]),
    )


def worker_offset_topic(values: Mapping[str, Any], properties: Mapping[str, str]) -> InternalTopic:
    """Return the topic of source offsets of all workers."""
    return offset_topic(
        values["offset.storage.topic"],
        values["offset.storage.partitions"],
        values["offset.storage.replication.factor"],
        _topic_settings(properties, "offset"),
    )


def is_exactly_once(values: Mapping[str, Any]) -> bool:
    """Whether the worker's sources are exactly once (KIP-618)."""
    return bool(values[_EXACTLY_ONCE].lower() == "enabled")


def _topic_settings(properties: Mapping[str, str], purpose: str) -> dict[str, str]:
    """The settings of a new topic, such as ``status.storage.min.insync.replicas``."""
    prefix = f"{purpose}.storage."
    found = {
        name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)
    }
    return {name: value for name, value in found.items() if name not in _TOPIC_KEYS}
