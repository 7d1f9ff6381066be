"""Decides which log is cleaned next and when, and runs the workers that clean.

The event loop owns this module's state: it makes all changes here and in the logs. While a log is being
cleaned, retention removes none of its segments; it waits until the clean is over. Truncation and deletion do
not wait: they abort the clean, which then installs nothing more.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from penstock.storage.compaction.checkpoint import CleanerCheckpoint
from penstock.storage.compaction.cleanable import LogToClean, cleanable_offsets, examine
from penstock.storage.compaction.cleaner import Cleaner, CleanResult
from penstock.storage.compaction.config import CleanerConfig
from penstock.storage.compaction.job import CleaningJob
from penstock.storage.compaction.stats import CleanerStats
from penstock.storage.compaction.throttler import Throttler
from penstock.storage.disk.files import FileSystem
from penstock.storage.errors import CleaningAborted, LogError
from penstock.storage.names import TopicPartition
from penstock.storage.partition.log import Log

log = logging.getLogger(__name__)

_NICENESS: Final = 10
"""Niceness of the workers' threads: if there are few cores, threads that serve requests run first."""


_SCANNED_LOGS_PER_TURN: Final = 100
"""Logs examined per turn of the event loop: a millisecond or two, so that the loop can serve requests."""


class _Scan(NamedTuple):
    """One scan of all compacted logs: those still to be examined, and what was found of the others."""

    waiting: deque[Log]
    high_watermarks: Mapping[TopicPartition, int]
    found: list[LogToClean]


def cleaner_threads(count: int) -> Executor:
    return ThreadPoolExecutor(count, thread_name_prefix="log-cleaner", initializer=_step_back)


def _step_back() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


class LogCleaner:
    """The log cleaner of a node, which also applies the retention of compacted logs.

    `logs` returns all logs of the node, and `high_watermarks` their high watermarks; a log without one is not
    cleaned. `run_on_owner` may be called from any thread and schedules a function on the thread that owns the
    cleaner and the logs. `workers` makes a pool of the given number of workers. `io_error` is called if a
    log's files cannot be read or written.
    """

    def __init__(
        self,
        config: CleanerConfig,
        *,
        directories: Iterable[Path],
        logs: Callable[[], Iterable[Log]],
        high_watermarks: Callable[[], Mapping[TopicPartition, int]],
        run_on_owner: Callable[[Callable[[], None]], object],
        io_error: Callable[[Log, OSError], None],
        clock: Callable[[], int],
        files: FileSystem,
        rng: random.Random,
        workers: Callable[[int], Executor] = cleaner_threads,
    ) -> None:
        self.config = config
        self.uncleanable: set[TopicPartition] = set()
        """Partitions whose clean failed because of their data; they are not cleaned until the next start."""
        self.last_stats: deque[CleanerStats] = deque(maxlen=max(1, config.threads))
        """Statistics of the latest cleans, at most one for each worker thread."""
        self.max_dirty_ratio = 0.0
        self.max_compaction_delay_ms = 0
        self.last_run_ms = clock()
        self._logs = logs
        self._high_watermarks = high_watermarks
        self._run_on_owner = run_on_owner
        self._io_error = io_error
        self._clock = clock
        self._files = files
        self._rng = rng
        self._make_workers = workers
        self._workers: Executor | None = None  # made for the first clean, as many nodes compact nothing
        self._former_workers: list[Executor] = []
        self._writer: Executor | None = None  # writes checkpoints, which must not wait for a clean to end
        self._checkpoints = {path: CleanerCheckpoint(path, files) for path in directories}
        self._jobs: dict[TopicPartition, CleaningJob] = {}
        self._throttler = Throttler(config.io_max_bytes_per_second, time.monotonic)
        self._scan: _Scan | None = None
        self._next_run_ms = 0
        self._is_closed = False

    # --- called by the manager

    def tick(self, now_ms: int) -> None:
        """Begin a scan if one is due. The manager calls this about every second."""
        if now_ms >= self._next_run_ms and self.config.enable and self._scan is None:
            self._begin_scan(now_ms)

    def is_cleaning(self, partition_log: Log) -> bool:
        return partition_log.name in self._jobs

    @property
    def jobs(self) -> int:
        """The number of running cleans."""
        return len(self._jobs)

    def uncleanable_bytes(self) -> int:
        """The bytes that still need cleaning in the partitions that cannot be cleaned."""
        return sum(
            segment.size
            for partition_log in self._logs()
            if partition_log.name in self.uncleanable
            for segment in partition_log.segments.from_offset(self.cleaned_up_to(partition_log) or 0)
            if segment is not partition_log.segments.active
        )

    def cleaned_up_to(self, partition_log: Log) -> int | None:
        """The offset where the last clean of the log ended, or None if there was none."""
        return self._checkpoint_of(partition_log).get(partition_log.name)

    def truncated(self, partition_log: Log, offset: int) -> None:
        """Abort the log's clean and lower its checkpoint, as records from `offset` on are about to go."""
        self._abort(partition_log.name)
        if self._checkpoint_of(partition_log).truncate(partition_log.name, offset):
            self._write_checkpoint(partition_log)

    def deleted(self, partition_log: Log, directory: Path) -> None:
        """Abort the clean of a log that is no longer served, and forget the log; it was in `directory`."""
        self._abort(partition_log.name)
        self.uncleanable.discard(partition_log.name)
        checkpoint = self._checkpoints[directory]
        if checkpoint.forget(partition_log.name):
            self._write_soon(checkpoint)

    def reconfigure(self, config: CleanerConfig) -> None:
        """Apply new broker configs. Running cleans are aborted, and begin again."""
        if config == self.config:
            return
        for job in self._jobs.values():
            job.abort()
        if config.threads != self.config.threads:
            if self._workers is not None:
                self._workers.shutdown(wait=False)
                self._former_workers.append(self._workers)
                self._workers = None
            self.last_stats = deque(self.last_stats, maxlen=max(1, config.threads))
        self._throttler.bytes_per_second = config.io_max_bytes_per_second
        self.config = config
        self._next_run_ms = 0

    def close(self) -> None:
        """Abort all running cleans and wait for the workers. Blocks; the loop may be running or not."""
        self._is_closed = True
        for job in list(self._jobs.values()):
            job.abort()
        for workers in (*self._former_workers, self._workers, self._writer):
            if workers is not None:
                workers.shutdown(wait=True)

    def _abort(self, name: TopicPartition) -> None:
        job = self._jobs.get(name)
        if job is not None:
            log.info("aborting a clean log=%s", name)
            job.abort()

    # --- choosing a log

    def _begin_scan(self, now_ms: int) -> None:
        """Examine every compacted log, a few per turn, then assign the dirtiest to the free workers."""
        self.last_run_ms = now_ms
        compacted = deque(
            partition_log for partition_log in self._logs() if self._may_be_cleaned(partition_log)
        )
        self._scan = _Scan(compacted, self._high_watermarks() if compacted else {}, [])
        self._continue_scan()

    def _continue_scan(self) -> None:
        if self._scan is None or self._is_closed:
            return
        waiting, marks, found = self._scan
        now_ms = self._clock()
        for _ in range(min(len(waiting), _SCANNED_LOGS_PER_TURN)):
            partition_log = waiting.popleft()
            if partition_log.name in marks and self._may_be_cleaned(partition_log):
                self._retain(partition_log, marks[partition_log.name], now_ms)
                examined = (
                    self._examine(partition_log, marks[partition_log.name], now_ms)
                    if len(partition_log.segments) > 1
                    else None
                )
                if examined is not None:
                    found.append(examined)
        if waiting:
            self._run_on_owner(self._continue_scan)
            return
        self._scan = None
        self._choose(found, now_ms)

    def _choose(self, found: list[LogToClean], now_ms: int) -> None:
        """Start cleaning the logs that are due, those with the largest share of dirty bytes first."""
        self.max_dirty_ratio = max((one.cleanable_ratio for one in found), default=0.0)
        self.max_compaction_delay_ms = max((one.compaction_delay_ms for one in found), default=0)
        due = sorted((one for one in found if one.is_due), key=lambda one: one.cleanable_ratio, reverse=True)
        for filthiest in due[: max(self.config.threads - len(self._jobs), 0)]:
            self._start(filthiest)
        self._next_run_ms = now_ms + self.config.backoff_ms

    def _may_be_cleaned(self, partition_log: Log) -> bool:
        return (
            partition_log.config.compacts
            and partition_log.failure is None
            and partition_log.name not in self._jobs
            and partition_log.name not in self.uncleanable
        )

    def _retain(self, partition_log: Log, high_watermark: int, now_ms: int) -> None:
        """Apply retention here, because it must not run during a clean of the log."""
        try:
            partition_log.delete_old_segments(now_ms, high_watermark)
        except LogError as error:
            log.error("retention failed log=%s error=%s", partition_log.name, error)

    def _examine(self, partition_log: Log, high_watermark: int, now_ms: int) -> LogToClean | None:
        checkpoint = self._checkpoint_of(partition_log)
        try:
            offsets = cleanable_offsets(
                partition_log, checkpoint.get(partition_log.name), high_watermark, now_ms
            )
            if offsets.is_reset:
                checkpoint.set(partition_log.name, offsets.first_dirty_offset)
                self._write_checkpoint(partition_log)
            found = examine(partition_log, offsets, now_ms)
        except (LogError, OSError, ValueError) as error:
            self._give_up(partition_log, error)
            return None
        return found if found.total_bytes else None

    # --- one clean

    def _start(self, found: LogToClean) -> None:
        job = CleaningJob(found, self._run_on_owner)
        self._jobs[found.log.name] = job
        rng = random.Random(self._rng.getrandbits(64))
        cleaner = Cleaner(self.config, self._throttler, self._files, rng, job)
        if self._workers is None:
            self._workers = self._make_workers(max(1, self.config.threads))
        self._workers.submit(self._work, job, cleaner).add_done_callback(_complain)

    def _work(self, job: CleaningJob, cleaner: Cleaner) -> None:
        """Clean in a worker, then pass the outcome to the owner."""
        partition_log = job.found.log
        outcome: CleanResult | Exception
        try:
            outcome = cleaner.clean(job.found, self._clock())
        except Exception as error:
            outcome = error
        if not self._is_closed:
            self._run_on_owner(lambda: self._done(job, outcome))
        if isinstance(outcome, CleanResult):
            _log_result(partition_log, job.found, outcome)

    def _done(self, job: CleaningJob, outcome: CleanResult | Exception) -> None:
        partition_log = job.found.log
        del self._jobs[partition_log.name]
        if self._is_closed:
            return
        if isinstance(outcome, CleanResult):
            self.last_stats.append(outcome.stats)
            if not job.is_aborted:
                self._checkpoint_of(partition_log).set(partition_log.name, outcome.end_offset)
                self._write_checkpoint(partition_log)
            self._next_run_ms = 0
            self.tick(self._clock())  # another may be waiting
        elif isinstance(outcome, CleaningAborted) or job.is_aborted:
            log.info("clean aborted log=%s", partition_log.name)
            self._next_run_ms = 0
        elif isinstance(outcome, OSError):
            log.error("clean failed, will be retried log=%s error=%s", partition_log.name, outcome)
            self._io_error(partition_log, outcome)
        else:
            self._give_up(partition_log, outcome)

    def _give_up(self, partition_log: Log, error: Exception) -> None:
        self.uncleanable.add(partition_log.name)
        is_unexpected = not isinstance(error, LogError | OSError)
        log.error(
            "log cannot be compacted and grows until the cause is fixed and the node restarted "
            "log=%s error=%s",
            partition_log.name,
            error,
            exc_info=error if is_unexpected else None,
        )

    def _checkpoint_of(self, partition_log: Log) -> CleanerCheckpoint:
        return self._checkpoints[partition_log.directory.parent]

    def _write_checkpoint(self, partition_log: Log) -> None:
        checkpoint = self._checkpoint_of(partition_log)
        here = partition_log.directory.parent
        checkpoint.keep_only(other.name for other in self._logs() if other.directory.parent == here)
        self._write_soon(checkpoint)

    def _write_soon(self, checkpoint: CleanerCheckpoint) -> None:
        if self._is_closed:
            return
        if self._writer is None:
            self._writer = self._make_workers(1)
        self._writer.submit(checkpoint.write).add_done_callback(_complain)


def _complain(done: Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()):
        log.error("a task of the log cleaner failed error=%s", error, exc_info=error)


def _log_result(partition_log: Log, found: LogToClean, result: CleanResult) -> None:
    stats = result.stats
    log.info(
        "log cleaned log=%s from=%d to=%d elapsed_s=%.1f bytes_read=%d records_read=%d "
        "bytes_written=%d records_written=%d key_map_percent=%.0f",
        partition_log.name,
        found.first_dirty_offset,
        result.end_offset,
        stats.elapsed_s,
        stats.bytes_read,
        stats.messages_read,
        stats.bytes_written,
        stats.messages_written,
        100 * stats.buffer_utilization,
    )
    if stats.invalid_messages_read:
        log.warning(
            "records without a key dropped log=%s count=%d", partition_log.name, stats.invalid_messages_read
        )
