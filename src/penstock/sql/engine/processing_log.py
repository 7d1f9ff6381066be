"""The processing log of a service: its topic, and the stream that reads it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.client.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.client.producer import Producer, ProducerConfig
from penstock.client.topics import BROKER_DEFAULT, NewTopic, create_topics
from penstock.protocol.records import Record, encode_batch
from penstock.sql.engine.config import EngineConfig
from penstock.sql.engine.hosting import QueryFailure
from penstock.sql.engine.properties import Values
from penstock.sql.language.keywords import quoted
from penstock.sql.planning.processing_log import COLUMNS, LOG_TOPIC, stopped

log = logging.getLogger(__name__)

TOPIC_AUTO_CREATE = "ksql.logging.processing.topic.auto.create"
STREAM_AUTO_CREATE = "ksql.logging.processing.stream.auto.create"
_PARTITIONS = "ksql.logging.processing.topic.partitions"
_REPLICATION = "ksql.logging.processing.topic.replication.factor"
_STREAM = "ksql.logging.processing.stream.name"


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


class FailureLog:
    """The writer of whole-query failures to the processing log. It belongs to one thread at a time."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._topic = log_topic(config.values, config.service_id)
        self._told_ms: dict[str, int] = {}

    def tell(self, failures: Mapping[str, tuple[QueryFailure, ...]]) -> None:
        """Log the failures that were not logged yet.

        ``failures`` are the latest of each query. A failure that can't be written is not tried again.
        """
        found = [
            (query_id, each)
            for query_id, several in failures.items()
            for each in several
            if each.at_ms > self._told_ms.get(query_id, 0)
        ]
        self._told_ms = {query_id: at for query_id, at in self._told_ms.items() if query_id in failures}
        self._told_ms |= {query_id: each.at_ms for query_id, each in found}
        if found and self._topic is not None:
            try:
                self._write(self._topic, found)
            except ClientError as error:
                log.warning("cannot write failures to the processing log error=%s", error)

    def _write(self, topic: str, found: list[tuple[str, QueryFailure]]) -> None:
        records = [
            Record(0, each.at_ms, None, stopped(query_id, each.at_ms, each.message))
            for query_id, each in found
        ]
        config = ProducerConfig(delivery_timeout_ms=self._config.client.api_timeout_ms)
        with Cluster(self._config.client) as cluster:
            producer = Producer(cluster, config, create_topics=False)
            try:
                producer.send(topic, 0, bytearray(encode_batch(records)))
                producer.flush()
            finally:
                producer.close()
