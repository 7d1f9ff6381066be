"""The topics that a service needs for itself: its command topic, and the topic of its processing log."""

from __future__ import annotations

from typing import Final

from penstock.client.admin.topics import BROKER_DEFAULT, NewTopic, create_topics
from penstock.client.connections.cluster import Cluster
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.properties import Values
from penstock.sql.language.keywords import quoted
from penstock.sql.planning.processing_log import COLUMNS, LOG_TOPIC

TOPIC_AUTO_CREATE = "ksql.logging.processing.topic.auto.create"
STREAM_AUTO_CREATE = "ksql.logging.processing.stream.auto.create"
_PARTITIONS = "ksql.logging.processing.topic.partitions"
_REPLICATION = "ksql.logging.processing.topic.replication.factor"
_STREAM = "ksql.logging.processing.stream.name"
_OF_COMMANDS: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}


def make_command_topic(config: EngineConfig) -> None:
    """Create a service's command topic if it doesn't exist. Raises ClientError."""
    configured = config.values.get("ksql.internal.topic.replicas")
    replicas = BROKER_DEFAULT if configured is None else int(configured)
    with Cluster(config.client) as cluster:
        create_topics(cluster, [NewTopic(config.command_topic, 1, _OF_COMMANDS, replication_factor=replicas)])


def log_topic(values: Values, service_id: str) -> str | None:
    """The topic that queries log their failures in; None if the service has no processing log."""
    name = values.get(LOG_TOPIC)
    if name:
        return name
    return f"{service_id}ksql_processing_log" if values.flag(TOPIC_AUTO_CREATE) else None


def made_log_topic(config: EngineConfig) -> str | None:
    """The topic of the processing log if the service creates and deletes it, else None."""
    values = config.values
    return log_topic(values, config.service_id) if values.flag(TOPIC_AUTO_CREATE) else None


def make_log_topic(config: EngineConfig) -> None:
    """Create the topic of the processing log if it is configured and missing. Raises ClientError."""
    values, topic = config.values, made_log_topic(config)
    if topic is None:
        return
    replicas = values.number(_REPLICATION) or BROKER_DEFAULT
    with Cluster(config.client) as cluster:
        create_topics(cluster, [NewTopic(topic, values.number(_PARTITIONS), replication_factor=replicas)])


def log_stream(config: EngineConfig) -> str | None:
    """The statement that creates the stream; None if none is configured."""
    values = config.values
    topic = log_topic(values, config.service_id)
    if topic is None or not values.flag(STREAM_AUTO_CREATE):
        return None
    name = quoted(values.get(_STREAM) or "")
    return (
        f"CREATE STREAM {name} ({COLUMNS}) "
        f"WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', KEY_FORMAT='KAFKA');"
    )
