"""Blocks: thousands of records as one binary value, in the rows between the stages of the query.

Spark thus moves and sorts few rows, each of which is a block of records in columns; no record becomes an
object until a task needs it. A block is cheap to make from Arrow arrays (their buffers are copied unchanged)
and from Python lists.

    head        kind, flags, rows, the batch's wall-clock time, a note (the offsets of global tables), topic
                and partition that the records were read from, the topics that they are for
    columns     timestamps, offsets, lengths of keys and values (-1: null); if they differ, the topic of each
                row and its partition; stream times and headers, if there are any
    data        the concatenated keys, then the values

`Block.position` restores the order of one task's blocks after the shuffle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from itertools import groupby, pairwise, repeat
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.topology.records import NO_HEADERS, Headers, Input, Output

_HEAD: Final = Struct("<BBBxIqqiII")
_VERSION: Final = 1
_HAS_TARGETS: Final = 1
_HAS_PARTITIONS: Final = 2
_HAS_HEADERS: Final = 4
_HAS_TIMES: Final = 8
_MAX_TIMESTAMP_MS: Final = (2**63 - 1) // 1000

NO_PARTITION: Final = -1
_ROWS_FOR_ARROW: Final = 100
"""The number of rows from which Arrow makes objects faster, in a third of the time for each."""
_NULL: Final = -1

Bytes: TypeAlias = "bytes | memoryview | pa.Buffer"


class Kind(IntEnum):
    """The purpose of a block.

    RECORDS  input of the tasks of one partition
    OUTPUTS  records for the sink
    RESTORE  records of a changelog, to rebuild a store from
    TICK     no records: wall-clock time has passed
    CLEAR    no records: the tasks were removed, and their state is to be cleared
    TIMES    one record: the times of a task (`penstock.spark.streams.state.times`)
    DROPPED  counts of dropped records by node (`penstock.spark.streams.blocks.dropped`)
    """

    RECORDS = 0
    OUTPUTS = 1
    RESTORE = 2
    TICK = 3
    CLEAR = 4
    TIMES = 5
    DROPPED = 6


class DamagedBlock(ValueError):
    """The bytes are not a block of this version."""


class Binary(NamedTuple):
    """A column of keys or values: int32 lengths (-1: null) and the concatenated bytes."""

    lengths: np.ndarray
    data: Bytes

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> Binary:
        try:
            lengths = np.fromiter(map(len, values), np.int32, len(values))  # type: ignore[arg-type]
            return cls(lengths, b"".join(values))  # type: ignore[arg-type]
        except TypeError:  # some are None
            lengths = np.array([_NULL if value is None else len(value) for value in values], np.int32)
            return cls(lengths, b"".join([value for value in values if value is not None]))

    @classmethod
    def of_arrow(cls, array: pa.BinaryArray) -> Binary:
        """Convert an Arrow array, in most cases without a copy of the bytes."""
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
        lengths = np.diff(ends)
        if array.null_count:
            if lengths[~_valid(array)].any():  # in Arrow a null may have bytes
                return cls.of(array.to_pylist())
            lengths[~_valid(array)] = _NULL
        data = b"" if data is None else data
        return cls(lengths, memoryview(data)[int(ends[0]) : int(ends[-1])])

    def take(self, rows: np.ndarray) -> Binary:
        """The values of the rows with these numbers, in this order."""
        return Binary.of_arrow(self.to_arrow().take(pa.array(rows)))

    @property
    def sizes(self) -> np.ndarray:
        sizes: np.ndarray = np.maximum(self.lengths, 0)
        return sizes

    @property
    def ends(self) -> np.ndarray:
        """The int32 offsets that Arrow uses: one more than there are rows."""
        ends = np.zeros(len(self.lengths) + 1, np.int32)
        np.cumsum(self.sizes, out=ends[1:])
        return ends

    def values(self) -> list[bytes | None]:
        if len(self.lengths) >= _ROWS_FOR_ARROW:
            objects: list[bytes | None] = self.to_arrow().to_numpy(zero_copy_only=False).tolist()
            return objects
        ends = self.ends.tolist()
        data = bytes(self.data)
        found: list[bytes | None] = [data[a:b] for a, b in pairwise(ends)]
        if (self.lengths < 0).any():
            for row in np.flatnonzero(self.lengths < 0).tolist():
                found[row] = None
        return found

    def to_arrow(self) -> pa.BinaryArray:
        is_null = self.lengths < 0
        validity = np.packbits(~is_null, bitorder="little") if is_null.any() else None
        return pa.Array.from_buffers(
            pa.binary(),
            len(self.lengths),
            [
                None if validity is None else pa.py_buffer(validity),
                pa.py_buffer(self.ends),
                pa.py_buffer(self.data),
            ],
        )


class Position(NamedTuple):
    """The place where the first record of a block was read."""

    topic: str
    partition: int
    offset: int


class Block(NamedTuple):
    """Records in columns.

    ``targets`` are the topics that the rows are for, and ``target`` that of each row (uint16; None: the first
    for all). ``partitions`` are those that the rows are for (int32; -1: the partitioner chooses). ``times``
    are the stream times (ms) by which outputs of several tasks are merged
    (`penstock.spark.streams.blocks.merging`). ``note`` is a line that belongs to the batch.
    """

    kind: Kind
    clock_ms: int
    topic: str
    partition: int
    targets: tuple[str, ...]
    timestamps: np.ndarray
    offsets: np.ndarray
    keys: Binary
    values: Binary
    target: np.ndarray | None = None
    partitions: np.ndarray | None = None
    headers: Sequence[Headers] | None = None
    note: str = ""
    times: np.ndarray | None = None

    @property
    def rows(self) -> int:
        return len(self.timestamps)

    @property
    def position(self) -> Position:
        """A sort key that puts the blocks of one partition in the order of its offsets."""
        return Position(self.topic, self.partition, int(self.offsets[0]) if self.rows else -1)

    def only(self, targets: Collection[str]) -> Block:
        """The rows that are for one of these topics."""
        if self.target is None:
            return self
        wanted = np.array([name in targets for name in self.targets])
        return self.take(np.flatnonzero(wanted[self.target]))

    def take(self, rows: np.ndarray) -> Block:
        """The rows with these numbers, in this order."""
        return self._replace(
            timestamps=self.timestamps[rows],
            offsets=self.offsets[rows],
            keys=self.keys.take(rows),
            values=self.values.take(rows),
            target=None if self.target is None else self.target[rows],
            partitions=None if self.partitions is None else self.partitions[rows],
            headers=None if self.headers is None else [self.headers[row] for row in rows.tolist()],
            times=None if self.times is None else self.times[rows],
        )

    # Conversion to bytes

    def pack(self) -> bytes:
        has_targets = self.target is not None and len(self.targets) > 1
        has_headers = self.headers is not None and any(self.headers)
        flags = has_targets * _HAS_TARGETS | has_headers * _HAS_HEADERS
        flags |= (self.partitions is not None) * _HAS_PARTITIONS | (self.times is not None) * _HAS_TIMES
        names = "\n".join((self.note, self.topic, *self.targets)).encode()
        headers = _pack_headers(self.headers) if has_headers and self.headers is not None else b""
        keys_size = len(self.keys.data)
        first = int(self.offsets[0]) if self.rows else -1
        head = _HEAD.pack(
            _VERSION, self.kind, flags, self.rows, self.clock_ms, first, self.partition, len(names), keys_size
        )
        parts: list[Bytes] = [
            head,
            names,
            self.timestamps.astype(np.int64, copy=False).tobytes(),
            self.offsets.astype(np.int64, copy=False).tobytes(),
            self.keys.lengths.tobytes(),
            self.values.lengths.tobytes(),
        ]
        if has_targets and self.target is not None:
            parts.append(self.target.astype(np.uint16, copy=False).tobytes())
        if self.partitions is not None:
            parts.append(self.partitions.astype(np.int32, copy=False).tobytes())
        if self.times is not None:
            parts.append(self.times.astype(np.int64, copy=False).tobytes())
        parts += [headers, self.keys.data, self.values.data]
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> Block:
        """Unpack a block, whose columns are views into ``data``. Raises DamagedBlock."""
        try:
            return cls._unpack(data)
        except (ValueError, IndexError, UnicodeDecodeError) as error:
            if isinstance(error, DamagedBlock):
                raise
            raise DamagedBlock(f"{len(data)} bytes are not a block of records: {error}") from None

    @classmethod
    def _unpack(cls, data: bytes) -> Block:
        if len(data) < _HEAD.size or data[0] != _VERSION:
            raise DamagedBlock(
                f"{len(data)} bytes that begin {data[:4]!r} are not a block of records of version {_VERSION}"
            )
        _, kind, flags, rows, clock_ms, _, partition, names_size, keys_size = _HEAD.unpack_from(data)
        at = _HEAD.size
        note, topic, *targets = data[at : at + names_size].decode().split("\n")
        at += names_size

        def column(dtype: type[np.generic], count: int = rows) -> np.ndarray:
            nonlocal at
            found = np.frombuffer(data, dtype, count, at) if count else np.empty(0, dtype)
            at += found.nbytes
            return found

        timestamps, offsets = column(np.int64), column(np.int64)
        key_lengths, value_lengths = column(np.int32), column(np.int32)
        target = column(np.uint16) if flags & _HAS_TARGETS else None
        partitions = column(np.int32) if flags & _HAS_PARTITIONS else None
        times = column(np.int64) if flags & _HAS_TIMES else None
        headers: list[Headers] | None = None
        if flags & _HAS_HEADERS:
            counts = column(np.int32).tolist()
            total = sum(counts)
            names, values = column(np.int32, total), column(np.int32, total)
            headers, at = _unpack_headers(data, at, counts, names, values)
        view = memoryview(data)
        values_at = at + keys_size
        values_size = int(np.maximum(value_lengths, 0).sum())
        if len(data) != values_at + values_size or keys_size != int(np.maximum(key_lengths, 0).sum()):
            raise DamagedBlock(
                f"a block of records has {len(data)} bytes, expected {values_at + values_size}"
            )
        return cls(
            Kind(kind),
            clock_ms,
            topic,
            partition,
            tuple(targets),
            timestamps,
            offsets,
            Binary(key_lengths, view[at:values_at]),
            Binary(value_lengths, view[values_at:]),
            target,
            partitions,
            headers,
            note,
            times,
        )

    # Conversion to rows

    def inputs(self) -> list[Input]:
        """The rows as input of a task, each with the topic that it is for."""
        topics: Iterable[str]
        if self.target is None:
            topics = repeat(self.targets[0], self.rows)
        else:
            topics = [self.targets[number] for number in self.target.tolist()]
        return list(
            zip(
                topics,
                repeat(self.partition),
                self.offsets.tolist(),
                self.timestamps.tolist(),
                self.keys.values(),
                self.values.values(),
                repeat(NO_HEADERS) if self.headers is None else self.headers,
                strict=False,
            )
        )

    def to_arrow(self, schema: pa.Schema) -> pa.RecordBatch:
        """The rows of a block with one target, as a record batch for the sink."""
        rows = self.rows
        timestamps_us = np.clip(self.timestamps, 0, _MAX_TIMESTAMP_MS) * 1000
        partitions = pa.nulls(rows, pa.int32())
        if self.partitions is not None:
            partitions = pa.array(self.partitions, mask=self.partitions < 0)
        columns = {
            "topic": pa.repeat(pa.scalar(self.targets[0], pa.string()), rows),
            "partition": partitions,
            "key": self.keys.to_arrow(),
            "value": self.values.to_arrow(),
            "timestamp": pa.array(timestamps_us, schema.field("timestamp").type),
            "headers": _arrow_headers(self.headers, rows, schema.field("headers").type),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def note_of(data: bytes) -> str:
    """The note of a packed block."""
    return data[_HEAD.size :].partition(b"\n")[0].decode()


def tick(partition: int, clock_ms: int, note: str = "") -> Block:
    """Return a block without records."""
    none, nothing = np.empty(0, np.int64), Binary(np.empty(0, np.int32), b"")
    return Block(Kind.TICK, clock_ms, "", partition, (), none, none, nothing, nothing, note=note)


def outputs_by_topic(
    outputs: Sequence[Output], offsets: np.ndarray | None, origin: Position, clock_ms: int
) -> list[Block]:
    """Return one OUTPUTS block for each topic, in the order of the outputs.

    ``offsets`` are those of the records that the outputs come from.
    """
    topics = [output[0] for output in outputs]
    names = dict.fromkeys(topics)
    if len(names) == 1:
        return [output_block(topics[0], outputs, offsets, origin, clock_ms)] if outputs else []
    blocks = []
    for name in names:
        rows = [row for row, topic in enumerate(topics) if topic == name]
        picked = None if offsets is None else offsets[rows]
        blocks.append(output_block(name, [outputs[row] for row in rows], picked, origin, clock_ms))
    return blocks


def output_block(
    topic: str, outputs: Sequence[Output], offsets: np.ndarray | None, origin: Position, clock_ms: int
) -> Block:
    """Return a block of outputs that are all for ``topic``."""
    if offsets is None:
        offsets = np.full(len(outputs), origin.offset, np.int64)
    partitions = [output[1] for output in outputs]
    numbers = None
    if partitions.count(None) < len(partitions):
        numbers = np.array([NO_PARTITION if p is None else p for p in partitions], np.int32)
    headers = [output[5] for output in outputs]
    return Block(
        Kind.OUTPUTS,
        clock_ms,
        origin.topic,
        origin.partition,
        (topic,),
        np.array([output[4] for output in outputs], np.int64),
        offsets,
        Binary.of([output[2] for output in outputs]),
        Binary.of([output[3] for output in outputs]),
        None,
        numbers,
        headers if any(headers) else None,
    )


def in_order(blocks: Iterable[Block]) -> list[Input]:
    """Return the records of several blocks as input of a task, in the order in which it must process them.

    They are sorted by the time, topic, partition and offset of what was read, then by their order. A record's
    time is the greatest timestamp of its partition so far, so a partition's records keep their order whatever
    their timestamps: where batches are cut must not decide what is late or which update of a row is the last.
    Kafka Streams chooses among its partitions in the same way.
    """
    rows: list[Input] = []
    times: list[np.ndarray] = []
    by_place = sorted(blocks, key=lambda block: block.position)
    for _, of_partition in groupby(by_place, key=lambda block: block.position[:2]):
        some = list(of_partition)
        for block in some:
            rows += block.inputs()
        times.append(np.maximum.accumulate(np.concatenate([block.timestamps for block in some])))
    if len(times) > 1:
        order = np.argsort(np.concatenate(times), kind="stable")  # stable: equal times are already in order
        rows = [rows[row] for row in order.tolist()]
    return rows


def _valid(array: pa.Array) -> np.ndarray:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)


def _pack_headers(headers: Sequence[Headers]) -> bytes:
    names = Binary.of([name.encode() for row in headers for name, _ in row])
    values = Binary.of([value for row in headers for _, value in row])
    counts = np.array([len(row) for row in headers], np.int32)
    parts = [counts.tobytes(), names.lengths.tobytes(), values.lengths.tobytes(), names.data, values.data]
    return b"".join(parts)


def _unpack_headers(
    data: bytes, at: int, counts: list[int], name_lengths: np.ndarray, value_lengths: np.ndarray
) -> tuple[list[Headers], int]:
    """Return the headers of each row, and the position where they end."""
    names_end = at + int(name_lengths.sum())
    values_end = names_end + int(np.maximum(value_lengths, 0).sum())
    names = [bytes(name or b"").decode() for name in Binary(name_lengths, data[at:names_end]).values()]
    values = Binary(value_lengths, data[names_end:values_end]).values()
    pairs = iter(zip(names, values, strict=True))
    return [tuple(next(pairs) for _ in range(count)) for count in counts], values_end


def _arrow_headers(headers: Sequence[Headers] | None, rows: int, kind: pa.DataType) -> pa.Array:
    if headers is None:
        return pa.nulls(rows, kind)
    shaped = [[{"key": name, "value": value} for name, value in row] or None for row in headers]
    return pa.array(shaped, kind)
