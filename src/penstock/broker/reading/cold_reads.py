"""Let worker threads do the reads that would make the event loop wait for the disk.

A worker reads and checks data that a fetch did not find in memory, or that was not checked since it was read
from the disk, before the response is sent. Then `sendfile` does not wait, and damaged data is never served.
Large slices on the disk are read past the page cache (`storage.reading.direct_reads`), several at once, and
sent from the buffers; while the socket sends, the disk reads the following slices. Data that is in memory but
unchecked is checked in place, together with some of the data after it, so that the next fetches find it
ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.storage.disk.direct_buffers import BUFFER_BYTES, BUFFERS
from penstock.storage.reading.direct_reads import read_directly
from penstock.storage.reading.slice_check import sound_end
from penstock.storage.segments.file_slice import FileSlice
from penstock.storage.segments.segment_file import SegmentFile

if TYPE_CHECKING:
    from penstock.broker.network.outbox import FileRange
    from penstock.protocol.batch import CorruptBatch
    from penstock.storage.partition.log import Log
    from penstock.storage.segments.transaction_index import AbortedTransaction

log = logging.getLogger(__name__)

_T = TypeVar("_T")

AHEAD_BYTES_MIN = BUFFER_BYTES // 2
"""Read-ahead starts once a lagging reader has at most this many bytes left."""

AHEAD_KEPT_S = 2.0
"""Data that was read ahead is discarded if no reader requests it within this time."""

READERS = 4
"""The number of worker threads: enough that a disk can order several reads, few enough that other threads get
time."""

AHEAD_BYTES = 4 << 20
"""The bytes checked beyond those that a fetch requests, over all its partitions."""


class ColdRead:
    """One partition's part of a fetch, which a worker reads before the loop continues with it."""

    __slots__ = (
        "_limit_bytes",
        "_log",
        "_min_one_batch",
        "_offset",
        "_read_committed",
        "_up_to_offset",
        "aborted",
        "ahead",
        "cuts",
        "error",
        "found",
        "place",
    )

    def __init__(
        self,
        place: int,
        log: Log,
        offset: int,
        *,
        limit_bytes: int,
        min_one_batch: bool,
        up_to_offset: int,
        read_committed: bool,
        found: FileSlice | None,
    ) -> None:
        self.place = place
        """The index of the partition in the fetch's results."""
        self.found = found
        """The records; None while they are not located yet, or if there are none."""
        self.aborted: list[AbortedTransaction] = []
        self.error: KafkaError | None = None
        self.ahead: list[FileSlice] = []
        """The slices after `found` that were read with it."""
        self.cuts = 0
        """The file's number of truncations before the read."""
        self._log = log
        self._offset = offset
        self._limit_bytes = limit_bytes
        self._min_one_batch = min_one_batch
        self._up_to_offset = up_to_offset
        self._read_committed = read_committed

    @property
    def size_bytes_max(self) -> int:
        """The largest number of bytes that the result may have."""
        return len(self.found) if self.found is not None else self._limit_bytes

    def adopt(self, found: FileSlice) -> bool:
        """Use data that was read ahead, unless it is larger than allowed; return whether it is used."""
        if found.data is None or self.found is None or found.size > self.found.size:
            return False
        found.segments, found.is_old = self.found.segments, self.found.is_old
        self.found = found
        if self._read_committed:
            try:
                self.aborted = self._log.aborted_transactions(self._offset, self._up_to_offset, found)
            except KafkaError as error:
                self.found, self.error = None, error
        return True

    def plan(self, ahead_bytes: int) -> None:
        """Prepare the read on the loop, before `run`. Raises OSError."""
        if self.found is not None and not self.found.is_loose and not self.found.is_on_disk:
            self.found.plan_check(ahead_bytes)

    def run(self) -> None:
        """Do the read, in a worker."""
        try:
            if self.found is None or not self._read(self.found):
                self.found = self._log.read(
                    self._offset,
                    self._limit_bytes,
                    min_one_batch=self._min_one_batch,
                    up_to_offset=self._up_to_offset,
                )
                if self.found is not None:
                    self._read(self.found)
            if self.found is not None and self._read_committed:
                self.aborted = self._log.aborted_transactions(self._offset, self._up_to_offset, self.found)
        except KafkaError as error:
            self.error = error
        except OSError as error:
            self.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if self.error is not None:
            self.found = None

    def _read(self, found: FileSlice) -> bool:
        """Read and check `found`; return False if the log must first locate the ends of its batches."""
        if found.is_loose or found.is_on_disk:
            self.cuts = found.file.readiness.cuts
            slices = read_directly(found)
            if slices:
                self.ahead = slices[1:]
                return True
        if found.is_loose:
            return False
        self._log.check(found, self._offset)
        return True


class _Ahead(NamedTuple):
    """Data that was read ahead, or is being read; then `future` completes when it is available."""

    found: FileSlice
    future: Future[list[FileSlice]] | None
    cuts: int
    timer: asyncio.TimerHandle


class ColdReads:
    """The worker threads and their counters."""

    def __init__(self, loop: asyncio.AbstractEventLoop, workers: Executor) -> None:
        self._loop = loop
        self._workers = workers
        self._ahead: dict[tuple[SegmentFile, int], _Ahead] = {}
        self.reads = 0
        self.read_bytes = 0
        self.damaged = 0

    def submit(self, reads: Sequence[ColdRead], done: Callable[[], None]) -> None:
        """Have workers do all `reads`, then call `done` on the loop. Raises OSError."""
        left = len(reads)

        def finish(read: ColdRead, failure: BaseException | None = None) -> None:
            nonlocal left
            self._note(read, failure)
            left -= 1
            if left == 0:
                done()

        def begin(read: ColdRead) -> None:
            read.plan(AHEAD_BYTES // len(reads))
            self._submit(read.run, lambda future: finish(read, future.exception()))

        def adopt(read: ColdRead, found: FileSlice) -> None:
            if read.adopt(found):
                finish(read)
            else:
                begin(read)

        def adopt_later(read: ColdRead, found: FileSlice, future: Future[list[FileSlice]]) -> None:
            self._on_loop(future, lambda _: adopt(read, found))

        for read in reads:
            ahead = self._take_ahead(read.found)
            if ahead is None:
                begin(read)
            elif ahead.future is None:
                adopt(read, ahead.found)
            else:
                adopt_later(read, ahead.found, ahead.future)

    def _submit(self, work: Callable[[], _T], done: Callable[[Future[_T]], None]) -> Future[_T]:
        future = self._workers.submit(work)
        self._on_loop(future, done)
        return future

    def _on_loop(self, future: Future[_T], done: Callable[[Future[_T]], None]) -> None:
        """Call `done` on the loop when `future` is done, unless it was cancelled."""

        def call(future: Future[_T]) -> None:
            if not future.cancelled():
                self._loop.call_soon_threadsafe(done, future)

        future.add_done_callback(call)

    def _read_ahead(self, found: FileSlice) -> None:
        """Keep the disk reading while the socket sends, for a reader that is far behind."""
        ahead_bytes = 0
        while ahead_bytes <= AHEAD_BYTES_MIN:
            ahead = self._ahead.get((found.file, found.position + found.size))
            if ahead is None:
                self._begin_ahead(found)
                return
            if ahead.future is not None:
                return
            found = ahead.found
            ahead_bytes += found.size

    def _begin_ahead(self, found: FileSlice) -> None:
        following = found.following() if BUFFERS.are_plenty else None
        if following is None or not following.is_on_disk:
            return
        place, cuts = (following.file, following.position), following.file.readiness.cuts

        def keep(future: Future[list[FileSlice]]) -> None:
            # This must not refer to a slice: a future keeps its callbacks, and with them the buffer.
            slices = [] if future.exception() is not None else future.result()
            ahead = self._ahead.get(place)
            if slices and ahead is not None and ahead.future is future:
                self._ahead[place] = ahead._replace(future=None)
            for piece in slices[1:]:
                self._keep_ahead(piece, cuts)

        self._keep_ahead(following, cuts, self._submit(partial(read_directly, following), keep))

    def _keep_ahead(self, found: FileSlice, cuts: int, future: Future[list[FileSlice]] | None = None) -> None:
        place = (found.file, found.position)
        if place not in self._ahead:
            timer = self._loop.call_later(AHEAD_KEPT_S, self._ahead.pop, place, None)
            self._ahead[place] = _Ahead(found, future, cuts, timer)

    def _take_ahead(self, found: FileSlice | None) -> _Ahead | None:
        ahead = self._ahead.pop((found.file, found.position), None) if found is not None else None
        if ahead is None:
            return None
        ahead.timer.cancel()
        return ahead if ahead.cuts == ahead.found.file.readiness.cuts else None

    def _note(self, read: ColdRead, failure: BaseException | None) -> None:
        self.reads += 1
        if failure is not None:
            log.error("cold read failed", exc_info=failure)
            read.found, read.error = None, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if read.found is not None:
            self.read_bytes += len(read.found)
            read.found.note_checked()
            if read.found.data is not None:
                for piece in read.ahead:
                    self._keep_ahead(piece, read.cuts)
                self._read_ahead(read.found)
        elif read.error is not None and read.error.code == ErrorCode.CORRUPT_MESSAGE:
            self.damaged += 1

    def reload(self, part: FileRange, done: Callable[[str | None], None]) -> None:
        """Have a worker read a slice again; `done` is called on the loop with the damage found, or None."""
        assert isinstance(part, FileSlice), "only records are sent from files"
        found = part
        found.plan_check()

        def finish(future: Future[tuple[int, CorruptBatch | None]]) -> None:
            if future.cancelled():
                return
            damage = future.exception() or future.result()[1]
            self.reads += 1
            if damage is not None:
                self.damaged += 1
                done(f"{found.file.path}: {damage}")
                return
            self.read_bytes += len(found)
            found.cut_to_sound(future.result()[0])
            found.note_checked()
            done(None)

        self._workers.submit(sound_end, found).add_done_callback(
            lambda future: self._loop.call_soon_threadsafe(finish, future)
        )

    def close(self) -> None:
        """Wait for the reads in progress and cancel those in the queue. Blocks."""
        self._workers.shutdown(cancel_futures=True)
