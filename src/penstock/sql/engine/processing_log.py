"""The processing log of a service: its topic, and the stream over it."""

from __future__ import annotations

from penstock.client.cluster import Cluster
from penstock.client.topics import BROKER_DEFAULT, NewTopic, create_topics
from penstock.sql.engine.config import EngineConfig
from penstock.sql.engine.properties import Values
from penstock.sql.keywords import quoted
from penstock.sql.planning.processing_log import COLUMNS, LOG_TOPIC

TOPIC_AUTO_CREATE = "ksql.logging.processing.topic.auto.create"
STREAM_AUTO_CREATE = "ksql.logging.processing.stream.auto.create"
_PARTITIONS = "ksql.logging.processing.topic.partitions"
_REPLICATION = "ksql.logging.processing.topic.replication.factor"
_STREAM = "ksql.logging.processing.stream.name"


def log_topic(values: Values, service_id: str) -> str | None:
    """Where queries write what fails; None where nobody asked for a log."""
    name = values.get(LOG_TOPIC)
    if name:
        return name
    return f"{service_id}ksql_processing_log" if values.flag(TOPIC_AUTO_CREATE) else None


def make_log_topic(config: EngineConfig) -> None:
    """If it is asked for, and not there. Raises ClientError."""
    values = config.values
    topic = log_topic(values, config.service_id)
    if topic is None or not values.flag(TOPIC_AUTO_CREATE):
        return
    replicas = values.number(_REPLICATION) or BROKER_DEFAULT
    with Cluster(config.client) as cluster:
        create_topics(cluster, [NewTopic(topic, values.number(_PARTITIONS), replication_factor=replicas)])


def log_stream(config: EngineConfig) -> str | None:
    """The statement that makes the stream; None where nobody asked for it."""
    values = config.values
    topic = log_topic(values, config.service_id)
    if topic is None or not values.flag(STREAM_AUTO_CREATE):
        return None
    name = quoted(values.get(_STREAM) or "")
    return (
        f"CREATE STREAM {name} ({COLUMNS}) "
        f"WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', KEY_FORMAT='KAFKA');"
    )
