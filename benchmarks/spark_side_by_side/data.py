"""The topics that rows read: created once per run from a seed, with the same records for both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, StructType, TimestampType

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.spark.sink.columns import find_columns
from penstock.spark.sink.encoding import RowEncoder, TopicLimits
from penstock.spark.sink.options import BatchConfig
from spark_side_by_side.orders import Orders

KEY_BYTES = 8
VALUE_BYTES = 92
RECORD_BYTES = KEY_BYTES + VALUE_BYTES
REGIONS = 8
FIRST_MS = 1_700_000_000_000
RECORDS_PER_S = 20_000
"""The rate of event time: a million records last 50 s, so that windows of a minute open and close."""
_CHUNK = 200_000
_SCHEMA = StructType().add("key", BinaryType()).add("value", BinaryType()).add("timestamp", TimestampType())


@dataclass(frozen=True)
class Data:
    """`records` records of 100 bytes, a key of 8 and a value of 92, with `keys` different keys.

    A value is text: a region, an amount, and digits up to its size. Event times grow at a constant rate.
    """

    keys: int
    records: int
    each_key_once: bool = False

    def chunks(self, seed: int = 4) -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(seed)
        for first in range(0, self.records, _CHUNK):
            rows = min(_CHUNK, self.records - first)
            keys = np.arange(first, first + rows) if self.each_key_once else rng.integers(0, self.keys, rows)
            times_ms = FIRST_MS + np.arange(first, first + rows) * 1000 // RECORDS_PER_S
            yield pa.record_batch(
                {
                    "key": _fixed(_digits(b"k", keys, KEY_BYTES)),
                    "value": _fixed(_values(rng, rows)),
                    "timestamp": pa.array(times_ms * 1000, pa.timestamp("us", "UTC")),
                }
            )


def fill(servers: str, topic: str, partitions: int, data: Data | Orders) -> None:
    """Write the records to an existing topic, partitioned by their keys."""
    with Cluster(ClientConfig.from_properties({"bootstrap.servers": servers})) as cluster:
        producer = Producer(cluster, ProducerConfig())
        encoder = _Encoder(topic, partitions)
        try:
            for chunk in data.chunks():
                for batch in encoder.encode(chunk):
                    producer.send(batch.topic, batch.partition, batch.data)
            producer.flush()
        finally:
            producer.close()


class _Encoder(RowEncoder):
    def __init__(self, topic: str, partitions: int) -> None:
        # As large as the batches of a Java producer that waits a little.
        super().__init__(find_columns(_SCHEMA, True), topic, BatchConfig(batch_bytes=64 * 1024))
        self._partitions = partitions

    def limits_of(self, topic: str) -> TopicLimits:
        return TopicLimits(self._partitions)


def _values(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Make values of ``region-3|012345|`` and random digits."""
    text = rng.integers(ord("0"), ord("9") + 1, (rows, VALUE_BYTES), np.uint8)
    text[:, :7] = np.frombuffer(b"region-", np.uint8)
    text[:, 7] = ord("0") + rng.integers(0, REGIONS, rows, np.uint8)
    text[:, 8] = text[:, 15] = ord("|")
    return text


def _digits(prefix: bytes, numbers: np.ndarray, width: int) -> np.ndarray:
    text = np.empty((len(numbers), width), np.uint8)
    text[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    rest = numbers.copy()
    for place in range(width - 1, len(prefix) - 1, -1):
        text[:, place] = ord("0") + rest % 10
        rest //= 10
    return text


def _fixed(text: np.ndarray) -> pa.Array:
    """Convert rows of bytes of one length to a binary array."""
    rows, width = text.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
