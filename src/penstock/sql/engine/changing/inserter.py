"""INSERT INTO … VALUES, and rows given as JSON: each row is one record, acknowledged before the answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.protocol import records
from penstock.protocol.murmur2 import partition_for_key
from penstock.sql.analysis import Row
from penstock.sql.catalog import Catalog, DataSource
from penstock.sql.engine.changing.inserted_records import Record, record_of, record_of_json
from penstock.sql.formats import FormatError
from penstock.sql.language.errors import SqlError


@dataclass(frozen=True)
class Inserted:
    """The outcome of an insert: the first ``rows`` rows were written; ``error`` is the next row's, if any."""

    rows: int
    error: Exception | None = None


class Inserter:
    """The producer of inserted rows. Any thread may call it.

    Its methods raise SqlError or FormatError for a row that can't be written, and ClientError.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._cluster = Cluster(config)
        self._producer: Producer | None = None
        self._lock = threading.Lock()
        self._undealt = count()
        self.rows = 0
        """Rows written so far."""

    def close(self) -> None:
        with self._lock:
            if self._producer is not None:
                self._producer.close()
            self._cluster.close()

    def insert(self, row: Row, catalog: Catalog, registry: Mapping[str, str]) -> None:
        self._write([record_of(row, catalog.functions, registry, _now_ms())])

    def insert_json(
        self, target: DataSource, rows: Iterable[Mapping[str, Any]], registry: Mapping[str, str]
    ) -> Inserted:
        """Write the rows in order, up to the first invalid one. Raises ClientError."""
        made: list[Record] = []
        error: Exception | None = None
        for row in rows:
            try:
                made.append(record_of_json(target, row, registry, _now_ms()))
            except (SqlError, FormatError) as wrong:
                error = wrong
                break
        if made:
            self._write(made)
        return Inserted(len(made), error)

    def _write(self, made: Sequence[Record]) -> None:
        """Write records of a single topic. Each partition receives its records in their order."""
        with self._lock:
            try:
                if self._producer is None:
                    self._producer = Producer(self._cluster, ProducerConfig(), create_topics=False)
                topic = made[0].topic
                for partition, batch in self._batches(topic, made).items():
                    self._producer.send(topic, partition, bytearray(records.encode_batch(batch)))
                self._producer.flush()
                self.rows += len(made)
            except ClientError:
                if self._producer is not None:
                    self._producer.close()
                    self._producer = None
                raise

    def _batches(self, topic: str, made: Sequence[Record]) -> dict[int, list[records.Record]]:
        self._cluster.refresh([topic])  # the topic may have been created again with other partitions
        number = len(self._cluster.require_topics([topic])[topic].partitions)
        batches: dict[int, list[records.Record]] = {}
        for each in made:
            partition = (
                next(self._undealt) % number if each.key is None else partition_for_key(each.key, number)
            )
            record = records.Record(0, each.timestamp_ms, each.key, each.value)
            batches.setdefault(partition, []).append(record)
        return batches


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
