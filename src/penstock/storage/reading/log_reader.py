"""Reads a log, from any thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from penstock.protocol.batch import CorruptBatch
from penstock.storage.errors import CorruptLog, OffsetOutOfRange, StorageFailed
from penstock.storage.names import TopicPartition
from penstock.storage.reading import timestamps
from penstock.storage.reading.aborted_transactions import aborted_transactions
from penstock.storage.reading.slice_check import sound_end
from penstock.storage.reading.timestamps import TimestampAndOffset
from penstock.storage.segments.file_slice import DIRECT_BYTES_MIN, FileSlice
from penstock.storage.segments.segment import Segment
from penstock.storage.segments.segment_list import Segments
from penstock.storage.segments.transaction_index import AbortedTransaction

log = logging.getLogger(__name__)

DAMAGES_TOLD_MAX: Final = 100


class LogReader:
    """The reader of one log; the log publishes its state here by replacing each attribute atomically."""

    __slots__ = ("_damages_told", "_name", "segments", "start_offset", "tail")

    def __init__(self, name: TopicPartition, start_offset: int, segments: Segments, end_offset: int) -> None:
        self._name = name
        self._damages_told: set[str] = set()
        self.start_offset = start_offset
        self.segments = segments
        self.tail: tuple[int, Segment, int] = (end_offset, segments.active, segments.active.size)
        """End offset, active segment, and its size; never ahead of `segments`."""

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one_batch: bool = True,
        up_to_offset: int | None = None,
        wait: bool = True,
    ) -> FileSlice | None:
        """Return a slice of whole batches in one segment, from the one that holds `offset` on.

        The batches are below `up_to_offset` and have at most `max_bytes`; with `min_one_batch` the first one
        may be larger. The first batch may begin below `offset`, so readers skip its first records. Returns
        None if there is nothing to read yet.

        Raises: OffsetOutOfRange outside [log start, log end], CorruptLog, StorageFailed; without `wait`,
        BlockingIOError if finding the position would have to wait for the disk.
        """
        end_offset, active, end_position = self.tail
        if not self.start_offset <= offset <= end_offset:
            raise OffsetOutOfRange(
                f"{self._name}: offset {offset} is outside of the log, {self.start_offset} to {end_offset}"
            )
        if up_to_offset is None or up_to_offset > end_offset:
            up_to_offset = end_offset
        if offset >= up_to_offset:
            return None
        segments = self.segments
        candidates = (active,) if offset >= active.base_offset else segments.from_offset(offset)
        try:
            for segment in candidates:
                segment.file.set_read_ahead(max_bytes < DIRECT_BYTES_MIN)
                limit = end_position if segment is active else segment.size
                if up_to_offset < end_offset:
                    position = segment.position_of(up_to_offset, limit, wait=wait)
                    limit = limit if position is None else position
                position = segment.position_of(offset, limit, wait=wait)
                if position is not None:
                    found = segment.slice(position, limit, max_bytes, min_one_batch=min_one_batch, wait=wait)
                    found.segments = segments
                    if segment is not active and limit == segment.size:
                        found.is_old = True
                    return found if found.size else None
                if segment is active:
                    break
        except CorruptBatch as error:
            raise self._corrupt(f"{self._name}, offset {offset}, {segment.file.path}: {error}") from error
        except BlockingIOError:
            raise
        except OSError as error:
            raise StorageFailed(f"{self._name}: reading {segment.file.path} failed: {error}") from error
        return None

    def check(self, found: FileSlice, offset: int) -> None:
        """Read a slice for `offset` that is not ready to be sent, check it, and cut it before any damage.

        Blocks, so it runs in a worker. Raises CorruptLog if the first batch is damaged, StorageFailed.
        """
        try:
            sound_to, damage = sound_end(found)
        except OSError as error:
            raise StorageFailed(f"{self._name}: reading {found.file.path} failed: {error}") from error
        if damage is not None and sound_to < found.position + found.size:
            corrupt = self._corrupt(f"{self._name}, read for offset {offset}, {found.file.path}: {damage}")
            if sound_to <= found.position:
                raise corrupt from damage
        found.cut_to_sound(sound_to)

    def _corrupt(self, damage: str) -> CorruptLog:
        """Return the error to raise, and log it once, however often clients read the damaged place."""
        if damage not in self._damages_told and len(self._damages_told) < DAMAGES_TOLD_MAX:
            self._damages_told.add(damage)
            log.error("corrupt log log=%s damage=%s", self._name, damage)
        return CorruptLog(damage)

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record at or after `timestamp` (milliseconds), or None if there is none.

        Decodes one batch. Raises CorruptLog, StorageFailed.
        """
        start = self.start_offset
        return self._by_time(
            lambda: timestamps.first_at_or_after(self.segments.from_offset(start), timestamp, start)
        )

    def max_timestamp_offset(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp, or None if no record has a timestamp (KIP-734)."""
        return self._by_time(
            lambda: timestamps.latest_timestamp(self.segments.from_offset(self.start_offset))
        )

    def _by_time(self, find: Callable[[], TimestampAndOffset | None]) -> TimestampAndOffset | None:
        segments = self.segments
        try:
            return find()
        except FileNotFoundError as error:
            if self.segments is not segments:
                return self._by_time(find)  # retention removed a segment meanwhile
            raise StorageFailed(f"{self._name}: reading by time failed: {error}") from error
        except CorruptBatch as error:
            raise self._corrupt(f"{self._name}: {error}") from error
        except OSError as error:
            raise StorageFailed(f"{self._name}: reading by time failed: {error}") from error

    def aborted_transactions(
        self, start_offset: int, up_to_offset: int, found: FileSlice | None = None
    ) -> list[AbortedTransaction]:
        """The aborted transactions that have records in [start, up to), or in the slice `found` read there.

        Raises CorruptLog, StorageFailed.
        """
        try:
            return aborted_transactions(self.segments, start_offset, up_to_offset, found)
        except ValueError as error:
            raise self._corrupt(f"{self._name}: {error}") from error
        except OSError as error:
            raise StorageFailed(f"{self._name}: reading aborted transactions failed: {error}") from error
