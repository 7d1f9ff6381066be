"""Reads that would make the event loop wait for the disk: workers of their own do them.

What a fetch found to be absent from memory, or not yet checked since it was read from the disk, is read and
checked here before the response is sent. Then `sendfile` waits no more, and what is damaged is never served.
Who reads in sequence gets more read and checked than was asked for: the next fetches find it ready, and the
kernel, which sees large reads in order, has the disk at work on what comes after that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.storage.segment_file import FileSlice
from penstock.storage.slice_check import sound_end

if TYPE_CHECKING:
    from penstock.broker.outbox import FileRange
    from penstock.protocol.batch import CorruptBatch
    from penstock.storage.log import Log
    from penstock.storage.transaction_index import AbortedTransaction

log = logging.getLogger(__name__)

READERS = 4
"""A few, so that a disk has several reads to order, and other work in threads isn't crowded out."""

AHEAD_BYTES = 4 << 20
"""So much is read and checked beyond what a fetch asks for, all its partitions together."""


class ColdRead:
    """One partition's part of a fetch: given to a worker, then looked at by the loop again."""

    __slots__ = (
        "_limit_bytes",
        "_log",
        "_min_one_batch",
        "_offset",
        "_read_committed",
        "_up_to_offset",
        "aborted",
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
        """Which of the fetch's partitions it is."""
        self.found = found
        """The records; None as long as they are not even located, or where there are none."""
        self.aborted: list[AbortedTransaction] = []
        self.error: KafkaError | None = None
        self._log = log
        self._offset = offset
        self._limit_bytes = limit_bytes
        self._min_one_batch = min_one_batch
        self._up_to_offset = up_to_offset
        self._read_committed = read_committed

    @property
    def size_bytes_max(self) -> int:
        """As many bytes as it may become."""
        return len(self.found) if self.found is not None else self._limit_bytes

    def plan(self, ahead_bytes: int) -> None:
        """On the loop, before `run`. Raises OSError."""
        if self.found is not None:
            self.found.plan_check(ahead_bytes)

    def run(self) -> None:
        """In a worker."""
        try:
            if self.found is None:
                self.found = self._log.read(
                    self._offset,
                    self._limit_bytes,
                    min_one_batch=self._min_one_batch,
                    up_to_offset=self._up_to_offset,
                )
            if self.found is not None:
                self._log.check(self.found, self._offset)
                if self._read_committed:
                    self.aborted = self._log.aborted_transactions(
                        self._offset, self._up_to_offset, self.found
                    )
        except KafkaError as error:
            self.error = error
        except OSError as error:
            self.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        if self.error is not None:
            self.found = None


class ColdReads:
    """The workers, and what they did so far."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._workers = ThreadPoolExecutor(READERS, thread_name_prefix="cold-reader")
        self.reads = 0
        self.read_bytes = 0
        self.damaged = 0

    def submit(self, reads: Sequence[ColdRead], done: Callable[[], None]) -> None:
        """Have a worker do all of `reads`, then call `done` on the loop. Raises OSError."""
        for read in reads:
            read.plan(AHEAD_BYTES // len(reads))
        self._workers.submit(_run_all, reads).add_done_callback(
            lambda future: self._loop.call_soon_threadsafe(self._finish, future, reads, done)
        )

    def _finish(self, future: Future[None], reads: Sequence[ColdRead], done: Callable[[], None]) -> None:
        if future.cancelled():
            return
        if (failure := future.exception()) is not None:
            log.error("cold read failed", exc_info=failure)
            for read in reads:
                read.found, read.error = None, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        for read in reads:
            self.reads += 1
            if read.found is not None:
                self.read_bytes += len(read.found)
                read.found.note_checked()
            elif read.error is not None and read.error.code == ErrorCode.CORRUPT_MESSAGE:
                self.damaged += 1
        done()

    def reload(self, part: FileRange, done: Callable[[str | None], None]) -> None:
        """Have a worker read a slice again; `done` hears on the loop what is wrong with it, or None."""
        assert isinstance(part, FileSlice), "what waits in a file is records"
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
        """Wait for the reads under way; those that wait are given up. Blocks."""
        self._workers.shutdown(cancel_futures=True)


def _run_all(reads: Sequence[ColdRead]) -> None:
    for read in reads:
        read.run()
