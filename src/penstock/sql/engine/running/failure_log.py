"""The failures of whole queries, written to the processing log of a service."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.protocol.records import Record, encode_batch
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.service_topics import log_topic
from penstock.sql.engine.running.host import QueryFailure
from penstock.sql.planning.processing_log import stopped

log = logging.getLogger(__name__)


class FailureLog:
    """The writer of whole-query failures to the processing log. It belongs to one thread at a time."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._topic = log_topic(config.values, config.service_id)
        self._reported_ms: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        """The failures so far, by query."""

    def write_new(self, failures: Mapping[str, tuple[QueryFailure, ...]]) -> None:
        """Log the failures that were not logged yet.

        ``failures`` are the latest of each query. A failure that can't be written is not tried again.
        """
        found = [
            (query_id, each)
            for query_id, several in failures.items()
            for each in several
            if each.at_ms > self._reported_ms.get(query_id, 0)
        ]
        self._reported_ms = {
            query_id: at for query_id, at in self._reported_ms.items() if query_id in failures
        }
        self._reported_ms |= {query_id: each.at_ms for query_id, each in found}
        known = {query_id: self.counts[query_id] for query_id in failures}
        self.counts = Counter(known) + Counter(query_id for query_id, _ in found)
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
