"""Replicas: one partition of a store, with its bytes as of the offset up to which its log was followed.

A replica applies whole transactions. The records of a transaction are buffered until its end has been
fetched, and are then applied in one step under ``lock``: a reader that holds the lock sees all of the
transaction or nothing. Single values may be read without the lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.batches import record_batches
from penstock.arrow.layout import Layout
from penstock.client.batches import headers
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import PartitionRange
from penstock.topology.stores.ordered_bytes import TimedBytes
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec, VersionedSpec
from penstock.topology.stores.window_stores import SessionSpec, WindowSpec

LAYOUT: Final = Layout().select(("key", "value", "timestamp"))
_NO_END: Final = (1 << 63) - 1
_NUMBER_BYTES: Final = 8
_STEP: Final = 8_192
"""Entries per step of work, after which other threads can run: one or two milliseconds.

``_SHORT_STEP`` is used once the replica is ready, when other threads answer queries.
"""
_SHORT_STEP: Final = 1_024
_PAUSE_S: Final = 0.001
"""The pause between steps: a query needs the interpreter several times, and gets it without waiting."""

Entry = tuple[bytes, "bytes | None"]


class Replica:
    """The bytes of one partition. Only the follower's thread writes it; any thread may read it."""

    def __init__(self, spec: StoreSpec, tp: TopicPartition) -> None:
        self.spec = spec
        self.tp = tp
        self.lock = Lock()
        self.is_ready = False
        """Whether it has once reached the end of its log."""
        self.position = 0
        """Everything before this offset has been applied."""
        self.read_until = 0
        """The offset up to which records were fetched; ahead of ``position`` within a transaction."""
        self.end = 0
        """The last known end of its log's committed records."""
        self.records = 0
        """The number of records applied so far."""
        self._new()

    def _new(self) -> None:
        self._map: Any = self.spec.new_map()
        self.store: Any = self.spec.open(self._map)
        self._held: list[list[Entry]] = []
        self._open: set[int] = set()
        self._is_ordered = False

    def __len__(self) -> int:
        return len(self._map)

    @property
    def map(self) -> Any:
        """The bytes: an `OrderedBytes`."""
        return self._map

    @property
    def lag(self) -> int:
        """The number of offsets by which it is behind that end."""
        return max(self.end - self.position, 0)

    def restart(self, offset: int) -> None:
        """Start again, empty: the data read so far is no longer in the log."""
        with self.lock:
            self.is_ready = False
            self._new()
            self.position = self.read_until = offset

    def take(self, spans: Iterable[memoryview], next_offset: int, stable_end: int) -> bool:
        """Apply committed batches. Return whether the position or the readiness changed.

        Args:
            spans: whole batches from `read_until` on, without those of aborted transactions.
            next_offset: where to continue reading.
            stable_end: where the log's committed records ended when they were read.

        Raises CorruptBatch, MalformedRecords.
        """
        self.end = stable_end
        settled = self.position
        decided: list[Entry] = []
        for span in spans:
            end, last = self._ends(span)
            if end:
                for entries in self._held:
                    decided += entries
                self._held.clear()
                decided += self._entries(span, self.read_until, end)
                settled = max(settled, end)
            if end < last:
                self._held.append(self._entries(span, max(self.read_until, end), _NO_END))
        self.read_until = max(self.read_until, next_offset)
        if self.read_until >= stable_end or not self._open:
            # Everything before the last stable offset is decided.
            self._open.clear()
            for entries in self._held:
                decided += entries
            self._held.clear()
            settled = self.read_until
        moved = settled > self.position
        self._apply(decided, settled)
        if not self.is_ready and self.read_until >= stable_end:
            self._put_in_order()
            self.is_ready = True
            return True
        return moved

    def _ends(self, span: memoryview) -> tuple[int, int]:
        """Return two end offsets: of the batches after which no transaction is open, and of all batches.

        The first is 0 if a transaction is open after each batch.
        """
        end = last = 0
        for _, header in headers(span):
            if header.is_control:
                self._open.discard(header.producer_id)
            elif header.is_transactional:
                self._open.add(header.producer_id)
            last = header.next_offset
            if not self._open:
                end = last
        return end, last

    def _entries(self, span: memoryview, start: int, end: int) -> list[Entry]:
        wanted = PartitionRange(self.tp.topic, self.tp.partition, start, end)
        found: list[Entry] = []
        for batch in record_batches(span, wanted, LAYOUT):
            for at, step in self._steps(batch.num_rows):
                found += entries_of(batch.slice(at, step), self.spec)
        return found

    def _steps(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield the start and the length of each step; once ready, pause between steps for other threads."""
        step = _SHORT_STEP if self.is_ready else _STEP
        for at in range(0, count, step):
            if at and self.is_ready:
                time.sleep(_PAUSE_S)
            yield at, step

    def _apply(self, entries: list[Entry], position: int) -> None:
        with self.lock:
            if entries:
                for at, step in self._steps(len(entries)):
                    self._map.apply(entries[at : at + step])
                self._expire(entries)
            self.position = position
        self.records += len(entries)

    def _expire(self, changed: list[Entry]) -> None:
        """Delete entries that have expired; the application's tombstones may arrive later, or never."""
        data = self._map
        if isinstance(self.spec, VersionedSpec):
            for key in {place[:-_NUMBER_BYTES] for place, _ in changed} if self._is_ordered else ():
                self.store.trim(key)
        elif isinstance(self.spec, WindowSpec | SessionSpec):
            data.expire(self.store.first_kept_ms)
        elif isinstance(data, TimedBytes):
            self.store.expire()
        data.take_delta()

    def _put_in_order(self) -> None:
        """Sort the keys once, without blocking other threads; later keys are inserted in order."""
        if self._is_ordered:
            return
        keys = list(self._map.data)
        if keys:
            order = pc.sort_indices(pa.array(keys, pa.large_binary())).to_numpy()
            ordered: list[bytes] = []
            for at in range(0, len(order), _STEP):
                ordered += [keys[index] for index in order[at : at + _STEP].tolist()]
            keys = ordered
            del order
            pa.default_memory_pool().release_unused()
        with self.lock:
            self._map.set_order(keys)
        self._is_ordered = True


def entries_of(batch: pa.RecordBatch, spec: StoreSpec) -> list[Entry]:
    """Convert records of a log, with the columns of `LAYOUT`, to the form that `OrderedBytes.apply` takes.

    Records with a null key are skipped.
    """
    if batch.column(0).null_count:
        batch = batch.filter(pc.is_valid(batch.column(0)))
    keys, values, times = batch.columns
    if isinstance(spec, KeyValueSpec):
        return list(zip(_objects(keys), _objects(_with_times(values, times)), strict=True))
    restore = spec.from_changelog
    rows = zip(_objects(keys), _objects(values), times.cast(pa.int64()).to_pylist(), strict=True)
    return [restore(key, value, timestamp_ms) for key, value, timestamp_ms in rows]


def _objects(array: pa.Array) -> list[Any]:
    found: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return found


def _with_times(values: pa.Array, times: pa.Array) -> pa.Array:
    """Prefix each value with its time, 8 bytes, as `KeyValueSpec` stores it; null stays null."""
    numbers = times.cast(pa.int64()).to_numpy().astype(">i8")
    packed = pa.Array.from_buffers(
        pa.binary(_NUMBER_BYTES), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))]
    )
    return pc.binary_join_element_wise(packed.cast(pa.binary()), values, b"")
