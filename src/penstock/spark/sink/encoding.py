"""Encode rows into record batches, each for one partition of one topic; both kinds of delivery share this."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.encoding import Encoding, Unwritable
from penstock.client.errors import RecordTooLarge
from penstock.client.settings import ConfigError
from penstock.protocol.batch import parse_header
from penstock.protocol.columns import encode_batches
from penstock.protocol.records import decode_batch, encode_batch
from penstock.spark.sink.columns import SinkColumns, row_columns
from penstock.spark.sink.options import BatchConfig
from penstock.spark.sink.partitioner import Partitioner, RowRefused

if TYPE_CHECKING:
    from penstock.arrow.column_encoder import ColumnEncoder


class TopicLimits(NamedTuple):
    """The limits of a topic; ``max_batch_bytes`` bounds a whole record batch as the broker counts it."""

    partitions: int
    max_batch_bytes: int | None = None


class EncodedBatch(NamedTuple):
    topic: str
    partition: int
    data: bytearray


class RowEncoder:
    """The encoder of one task's rows, in their order. Subclasses determine the limits of each topic."""

    def __init__(
        self,
        columns: SinkColumns,
        topic: str | None,
        batch: BatchConfig,
        *,
        transactional: bool = False,
        encodings: Sequence[Encoding] = (),
    ) -> None:
        self._columns = columns
        self._topic = topic
        self._batch = batch
        self._transactional = transactional
        self._encoders = list(_encoders(columns, encodings))
        self._topics: dict[str, tuple[Partitioner, TopicLimits]] = {}

    def limits_of(self, topic: str) -> TopicLimits:
        """Return the limits of a topic; called once for each topic. Raises ClientError."""
        raise NotImplementedError

    def encode(self, rows: pa.RecordBatch) -> Iterator[EncodedBatch]:
        """Yield the rows as record batches. Raises RowRefused, RecordTooLarge and errors of `limits_of`."""
        for topic, part in self._by_topic(rows):
            if topic not in self._topics:
                limits = self.limits_of(topic)
                self._topics[topic] = Partitioner(topic, limits.partitions), limits
            partitioner, limits = self._topics[topic]
            part = self._in_formats(topic, part)
            for partition, data in self._batches(part, partitioner, limits.max_batch_bytes):
                if limits.max_batch_bytes is None or len(data) <= limits.max_batch_bytes:
                    yield EncodedBatch(topic, partition, data)
                else:
                    for smaller in split_batch(data, topic, limits.max_batch_bytes):
                        yield EncodedBatch(topic, partition, smaller)

    def _in_formats(self, topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        for name, encoder in self._encoders:
            at = rows.schema.get_field_index(name)
            try:
                encoded = encoder.encode(topic, rows.column(at))
            except Unwritable as problem:
                raise RowRefused(f"the column '{name}' for topic '{topic}': {problem}") from None
            rows = rows.set_column(at, name, encoded)
        return rows

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if rows.num_rows == 0:
            return
        if self._columns.topic is None:
            assert self._topic is not None  # find_columns guarantees it
            yield self._topic, rows
            return
        topics = rows.column(self._columns.topic)
        if topics.null_count:
            raise RowRefused(
                "the column 'topic' is null in a row: give every row a topic, or set the option 'topic'"
            )
        names = pc.unique(topics)
        for name in names:
            only = rows if len(names) == 1 else rows.filter(pc.equal(topics, name))
            yield name.as_py(), only

    def _batches(
        self, rows: pa.RecordBatch, partitioner: Partitioner, max_batch_bytes: int | None
    ) -> Iterator[tuple[int, bytearray]]:
        settings = self._batch
        columns = row_columns(rows, self._columns)
        partition = None if self._columns.partition is None else rows.column(self._columns.partition)
        now_ms = int(time.time() * 1000)
        for number, indices in partitioner.share_out(rows.num_rows, columns.key, partition):
            for encoded in encode_batches(
                columns,
                default_timestamp=now_ms,
                indices=indices,
                max_batch_bytes=min(settings.batch_bytes, max_batch_bytes or settings.batch_bytes),
                compression=settings.codec,
                level=settings.level,
                transactional=self._transactional,
            ):
                yield number, encoded if isinstance(encoded, bytearray) else bytearray(encoded)


def _encoders(columns: SinkColumns, encodings: Sequence[Encoding]) -> Iterator[tuple[str, ColumnEncoder]]:
    """Yield each column that a format writes, with its encoder. Raises ConfigError."""
    names = {"key": columns.key, "value": columns.value}
    for encoding in encodings:
        name = names[encoding.part]
        if name is not None:
            yield name, _encoder(encoding)


def _encoder(encoding: Encoding) -> ColumnEncoder:
    try:
        from penstock.arrow.column_encoder import ColumnEncoder
    except ImportError as error:
        raise ConfigError(
            f"the format '{encoding.name}' needs more than is installed ({error}): pip install "
            "'penstock[registry]'"
        ) from error
    return ColumnEncoder(encoding)


def split_batch(data: bytearray, topic: str, max_batch_bytes: int) -> Iterator[bytearray]:
    """Yield the same records in batches of at most ``max_batch_bytes``; compression can enlarge a batch.

    Raises RecordTooLarge if a single record is too large.
    """
    header = parse_header(data, 0)
    if header.count == 1:
        raise RecordTooLarge(
            f"a record for topic '{topic}' takes {len(data)} bytes (as a batch), expected at most "
            f"{max_batch_bytes}: the smaller of the topic's max.message.bytes and the option "
            "'kafka.max.request.size'"
        )
    records = list(decode_batch(data))
    middle = len(records) // 2
    for half in (records[:middle], records[middle:]):
        part = bytearray(
            encode_batch(half, compression=header.compression, transactional=header.is_transactional)
        )
        if len(part) > max_batch_bytes:
            yield from split_batch(part, topic, max_batch_bytes)
        else:
            yield part
