"""Decode fetched record batches to Arrow batches in a layout, without a Python object per record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.decoded import Decoded, Format
from penstock.arrow.layout import ERROR_COLUMN, HEADERS, KEPT_COLUMNS, Layout
from penstock.client.reading.fetcher import PartitionRange
from penstock.errors import PenstockError
from penstock.protocol.batch import BatchHeader, Buffer, CorruptBatch, MalformedRecords
from penstock.protocol.columns import BinaryColumn, HeadersColumn, RecordColumns, decode_columns

log = logging.getLogger(__name__)

# A few MB of ordinary records: large enough to be cheap per row, small enough to stay in the cache.
ROWS_PER_BATCH: Final = 32_768
# An Arrow batch ends once its uncompressed record batches reach this size; a single one may be larger.
_BYTES_PER_BATCH: Final = 32 << 20
_MAX_TIMESTAMP_MS: Final = (2**63 - 1) // 1000


class UndecodableRecord(PenstockError, ValueError):
    """A key or value that its format cannot read; the message names the record and what was found."""

    def __init__(
        self, topic: str, partition: int, offset: int, part: str, format_name: str, why: str
    ) -> None:
        super().__init__(
            f"{part} at offset {offset} of {topic}-{partition} is not of the format '{format_name}': {why}"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.part = part


class DeadLetter(NamedTuple):
    """A record that could not be decoded, with its original bytes.

    Each of ``reasons`` has the part (key or value), its format, and the problem.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    reasons: tuple[tuple[str, str, str], ...]


KeepDeadLetters: TypeAlias = Callable[[list[DeadLetter]], None]


def record_batches(
    batches: memoryview,
    wanted: PartitionRange,
    layout: Layout,
    *,
    check_crcs: bool = True,
    dead_letters: KeepDeadLetters | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``batches`` that lie in the range, some MB at a time.

    ``dead_letters`` receives the records that the layout leaves out. Raises UndecodableRecord, CorruptBatch
    or MalformedRecords.
    """
    schema = layout.schema
    names = frozenset(schema.names)
    wants_error = ERROR_COLUMN in names or layout.decode_errors == "dead-letter"
    rest = batches
    while len(rest):
        columns = decode_columns(
            rest,
            wanted.start,
            wanted.end,
            include_headers="headers" in names or layout.decode_errors == "dead-letter",
            include_keys="key" in names or "_error_key" in names or wants_error,
            include_values="value" in names or "_error_value" in names or wants_error,
            check_crc=check_crcs,
            stop_at_rows=ROWS_PER_BATCH,
            stop_at_bytes=_BYTES_PER_BATCH,
            on_damage=partial(_on_damage, wanted, layout),
        )
        if columns.rows:
            arrays = _Arrays(columns, wanted, layout)
            batch = pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
            letters = arrays.dead_letters() if layout.decode_errors == "dead-letter" else []
            if letters:
                assert dead_letters is not None
                dead_letters(letters)
                batch = batch.filter(pa.array(arrays.is_good()))
            if batch.num_rows:
                yield batch
        if not columns.end_position:
            return
        rest = rest[columns.end_position :]


def _on_damage(
    wanted: PartitionRange, layout: Layout, header: BatchHeader, error: CorruptBatch | MalformedRecords
) -> None:
    """Name a damaged batch: in the log if the layout leaves such batches out, else in the error to raise."""
    where = f"{wanted.topic}-{wanted.partition}, offsets {header.base_offset} to {header.last_offset}"
    if layout.damaged_batches == "fail":
        raise type(error)(
            f"the batch of {where} is damaged: {error} (damaged_batches, or the option damagedBatches, "
            "set to skip leaves such batches out)"
        ) from error
    log.warning("damaged batch skipped batch=%r reason=%r", where, str(error))


class _Arrays:
    """The columns of one Arrow batch by name, each built on first use."""

    def __init__(self, columns: RecordColumns, wanted: PartitionRange, layout: Layout) -> None:
        self._columns = columns
        self._wanted = wanted
        self._layout = layout
        self._decoded: dict[str, Decoded] = {}

    def __getitem__(self, name: str) -> pa.Array:
        return _MAKERS[name](self)

    def key(self) -> pa.Array:
        return self._decode("key", self._columns.key, self._layout.key)

    def value(self) -> pa.Array:
        return self._decode("value", self._columns.value, self._layout.value)

    def topic(self) -> pa.Array:
        return _repeated(self._wanted.topic, pa.string(), self._columns.rows)

    def partition(self) -> pa.Array:
        return _repeated(self._wanted.partition, pa.int32(), self._columns.rows)

    def offset(self) -> pa.Array:
        return _fixed(self._columns.offset, self._columns.rows, pa.int64())

    def timestamp(self) -> pa.Array:
        unit = self._layout.timestamp_unit
        kind = pa.timestamp(unit, "UTC")
        data: Buffer | np.ndarray = self._columns.timestamp
        if unit == "us":
            # A timestamp is whatever the producer sent, so one too far in the future becomes the largest
            # possible.
            ms = np.frombuffer(self._columns.timestamp, np.int64)
            data = np.clip(ms, -_MAX_TIMESTAMP_MS, _MAX_TIMESTAMP_MS) * 1000
        return _fixed(data, self._columns.rows, kind)

    def timestamp_type(self) -> pa.Array:
        return _fixed(self._columns.timestamp_type, self._columns.rows, pa.int32())

    def headers(self) -> pa.Array:
        assert self._columns.headers is not None
        return _headers(self._columns.headers, self._columns.rows)

    def errors(self) -> pa.Array:
        """Return each row's problem as text."""
        reasons = self._reasons()
        if not reasons:
            return pa.nulls(self._columns.rows, pa.string())
        texts = {row: "; ".join(f"{part}: {why}" for part, _, why in told) for row, told in reasons.items()}
        return pa.array([texts.get(row) for row in range(self._columns.rows)], pa.string())

    def kept(self, part: str) -> pa.Array:
        """Return the bytes of keys or values in rows with an error, null in others."""
        if not self._reasons():
            return pa.nulls(self._columns.rows, pa.binary())
        return pc.if_else(pa.array(self.is_good()), pa.scalar(None, pa.binary()), self._bytes(part))

    def is_good(self) -> np.ndarray:
        good = np.ones(self._columns.rows, bool)
        good[list(self._reasons())] = False
        return good

    def dead_letters(self) -> list[DeadLetter]:
        """Return the rows with an error, with their original bytes."""
        reasons = self._reasons()
        if not reasons:
            return []
        offsets = np.frombuffer(self._columns.offset, np.int64)
        timestamps_ms = np.frombuffer(self._columns.timestamp, np.int64)
        key, value, headers = self._bytes("key"), self._bytes("value"), self.headers()
        return [
            DeadLetter(
                self._wanted.topic,
                self._wanted.partition,
                int(offsets[row]),
                int(timestamps_ms[row]),
                key[row].as_py(),
                value[row].as_py(),
                tuple((each["key"], each["value"]) for each in headers[row].as_py() or ()),
                tuple(told),
            )
            for row, told in sorted(reasons.items())
        ]

    def _reasons(self) -> dict[int, list[tuple[str, str, str]]]:
        """Return part, format and problem of each row with an error.

        This decodes key and value even if they are no columns of the layout.
        """
        self.key()
        self.value()
        found: dict[int, list[tuple[str, str, str]]] = {}
        for part, how in (("key", self._layout.key), ("value", self._layout.value)):
            for row, why in self._decoded[part].bad.items():
                found.setdefault(row, []).append((part, how.name, why))
        return found

    def _bytes(self, part: str) -> pa.Array:
        column = self._columns.key if part == "key" else self._columns.value
        assert column is not None
        return _binary(column, self._columns.rows, pa.binary())

    def _decode(self, part: str, column: BinaryColumn | None, how: Format) -> pa.Array:
        assert column is not None
        if part not in self._decoded:
            decoded = how.decode(_binary(column, self._columns.rows, pa.binary()))
            if decoded.bad and self._layout.decode_errors == "fail":
                row = min(decoded.bad)
                offset = int(np.frombuffer(self._columns.offset, np.int64)[row])
                raise UndecodableRecord(
                    self._wanted.topic, self._wanted.partition, offset, part, how.name, decoded.bad[row]
                )
            self._decoded[part] = decoded
        return self._decoded[part].array


_MAKERS: Final[Mapping[str, Callable[[_Arrays], pa.Array]]] = {
    "key": _Arrays.key,
    "value": _Arrays.value,
    "topic": _Arrays.topic,
    "partition": _Arrays.partition,
    "offset": _Arrays.offset,
    "timestamp": _Arrays.timestamp,
    "timestampType": _Arrays.timestamp_type,
    "headers": _Arrays.headers,
    ERROR_COLUMN: _Arrays.errors,
    **{name: partial(_Arrays.kept, part=part) for name, part in KEPT_COLUMNS.items()},
}


@lru_cache(maxsize=256)
def _repeated_often(value: str | int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), ROWS_PER_BATCH)


def _repeated(value: str | int, kind: pa.DataType, rows: int) -> pa.Array:
    if rows > ROWS_PER_BATCH:
        return pa.repeat(pa.scalar(value, kind), rows)
    return _repeated_often(value, kind).slice(0, rows)


def _fixed(data: Buffer | np.ndarray, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)])


def _binary(column: BinaryColumn, rows: int, kind: pa.DataType) -> pa.Array:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _headers(column: HeadersColumn, rows: int) -> pa.Array:
    """Build the headers column; a record without headers has null, as in Spark's own source."""
    ends = np.frombuffer(column.offsets, np.int32)
    count = int(ends[-1])
    entries = pa.StructArray.from_arrays(
        [_binary(column.keys, count, pa.string()), _binary(column.values, count, pa.binary())],
        fields=list(HEADERS.value_type),
    )
    validity = np.packbits(np.diff(ends) > 0, bitorder="little")
    return pa.Array.from_buffers(
        HEADERS, rows, [pa.py_buffer(validity), pa.py_buffer(column.offsets)], children=[entries]
    )
