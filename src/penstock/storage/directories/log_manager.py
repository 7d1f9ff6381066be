"""Manages all logs of a node: loading, creation, flushes, checkpoints, retention, deletion and closing.

The broker's event loop calls the methods, except `load` and `close`, which block and may run in a worker
while nothing else uses the manager. Blocking work in between (flushes, checkpoints, removal of files) runs in
a small pool of threads of its own; `tick` starts it. `create` may run in one worker at a time.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from penstock.storage.compaction.config import CleanerConfig
from penstock.storage.compaction.log_cleaner import LogCleaner, cleaner_threads
from penstock.storage.config import LogConfig
from penstock.storage.directories import meta_properties
from penstock.storage.directories.background_work import BackgroundWork, threads
from penstock.storage.directories.config import LogManagerConfig
from penstock.storage.directories.log_directory import LogDirectory
from penstock.storage.disk import checkpoints
from penstock.storage.disk.files import REAL_FILES, FileSystem
from penstock.storage.errors import LogDirectoryError, LogDirectoryOffline, LogError, StorageFailed
from penstock.storage.names import (
    CLUSTER_METADATA_TOPIC,
    DELETE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    TopicPartition,
    marked_directory_name,
    parse_directory_name,
)
from penstock.storage.partition.log import Log, LogHooks

log = logging.getLogger(__name__)

_REMOVAL_INTERVAL_MS: Final = 1_000
_RECOVERED_INTERVAL_MS: Final = 100
_CLOSING_WORKERS: Final = 8
_UNREGISTERED_MAX: Final = 8
"""Limit for remembered processes that were killed before they registered."""
_RETAINED_LOGS_PER_TICK: Final = 200  # takes a few milliseconds if each log has an index entry to read


class LogManager:
    """The manager of all logs under `directories`, which it creates if missing, locks, and `formats` if new.

    Without `cluster_id`, that of the directories applies, or a new one. `high_watermarks` returns those to be
    checkpointed. `io_error` is called for every failed write or sync. `workers` makes a pool of the given
    number of workers. A directory whose disk fails at the start is left out (`offline`), except
    `metadata_directory` and the last one. `directory_failed` is called, in any thread, if a directory fails
    later; it must then call `fail_directory`. `run_soon` schedules a function on the manager's thread from
    any other; by default, `tick` runs such functions. Raises LogDirectoryError.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        *,
        node_id: int,
        cluster_id: str | None = None,
        formats: bool = True,
        clock: Callable[[], int],
        config: LogManagerConfig | None = None,
        files: FileSystem = REAL_FILES,
        rng: random.Random | None = None,
        high_watermarks: Callable[[], Mapping[TopicPartition, int]] | None = None,
        io_error: Callable[[Log, OSError], None] | None = None,
        metadata_directory: Path | None = None,
        directory_failed: Callable[[Path, OSError], None] = lambda directory, error: None,
        workers: Callable[[int], Executor] = threads,
        cleaner: CleanerConfig | None = None,
        run_soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self.config = config or LogManagerConfig()
        self.high_watermarks = high_watermarks or dict
        self._clock = clock
        self._files = files
        self._rng = rng
        self._logs: dict[TopicPartition, Log] = {}
        self._directory_of: dict[TopicPartition, LogDirectory] = {}
        self._rivals: list[tuple[Log, LogDirectory]] = []
        """Logs that have the same name as a log of another topic: see `settle_rivals`."""
        self._delete_delays: list[tuple[int, Path]] = []
        self._awaiting_retention: deque[Log] = deque()
        self._flushing: set[Log] = set()
        self._recovered: set[Log] = set()
        """Logs that were recovered and are not flushed yet: see `_flush`."""
        self._recovered_noted_ms = 0
        self._due: dict[str, int] = {}
        self._turns: deque[Callable[[], None]] = deque()
        self._hooks = LogHooks(
            wants_flush=self._flush_soon,
            io_error=self._io_failed,
            damaged=self._damaged,
            truncated=self._truncated,
        )
        self._io_error = io_error or LogHooks().io_error
        self.io_errors: Counter[Path] = Counter()
        """Failed writes and syncs by log directory, as `io_error` reports them."""
        self._incarnations: tuple[bytes, ...] = ()
        """Incarnations whose writes are all here: possibly earlier ones, and this process as the last."""
        self._workers = workers
        self._executor = workers(self.config.num_recovery_threads_per_data_dir)
        self._background = BackgroundWork(self._executor)
        self._directories: list[LogDirectory] = []
        self._failed: list[LogDirectory] = []
        """Directories that failed while they were in service."""
        self.cordoned: frozenset[Path] = frozenset()
        """Directories that accept no new logs (KIP-1066)."""
        self._metadata_directory = metadata_directory
        self._directory_failed = directory_failed
        self.offline: dict[Path, str] = {}
        """Directories that are out of service, each with the reason."""
        try:
            for path in directories:
                self._take(path, others=len(directories) - len(self.offline) - 1)
            claimed = meta_properties.claim(files, self._paths, node_id, cluster_id, formats=formats)
        except BaseException:
            self._release()
            raise
        for opened, properties in zip(self._directories, claimed, strict=True):
            opened.properties = properties
        self.cluster_id = claimed[0].cluster_id
        self.cleaner = LogCleaner(
            cleaner or CleanerConfig(),
            directories=self._paths,
            logs=lambda: self,
            high_watermarks=lambda: self.high_watermarks(),
            run_on_owner=run_soon or self._turns.append,
            io_error=self._hooks.io_error,
            clock=clock,
            files=files,
            rng=rng or random.Random(),
            workers=cleaner_threads if workers is threads else workers,
        )

    def _take(self, path: Path, others: int) -> None:
        try:
            self._directories.append(LogDirectory(path, self._files))
        except LogDirectoryOffline as error:
            if not others or path == self._metadata_directory:
                raise
            log.error("the node continues without a log directory error=%s", error)
            self.offline[path] = str(error)

    @property
    def _paths(self) -> list[Path]:
        return [directory.path for directory in self._directories]

    def directory_ids(self) -> list[str]:
        """The ids of the log directories that are in service."""
        return [found.properties.directory_id for found in self._directories if found.properties is not None]

    def directory_id(self, path: Path) -> str | None:
        """The id of a log directory, or None if it is out of service."""
        for directory in self._directories:
            if directory.path == path and directory.properties is not None:
                return directory.properties.directory_id
        return None

    # --- detecting lost writes after an unclean stop

    def begin_run(self, incarnation_id: bytes, before: tuple[bytes, int] | None) -> None:
        """Record that the process `incarnation_id` is going to write here. Blocks.

        `before` is the incarnation id that was registered last, and its broker epoch. This must be called
        before `load`, which removes the clean-shutdown markers.
        """
        for directory in self._directories:
            directory.recall()
        self._incarnations = (*self._whole_until_now(before), incarnation_id)
        for directory in self._directories:
            if self.config.penstock_trust_page_cache:
                directory.vouch(self._incarnations)
            else:
                directory.distrust()

    def _whole_until_now(self, before: tuple[bytes, int] | None) -> list[bytes]:
        """The incarnations that lost no writes: that of `before`, and any whose registration may follow."""
        directories = self._directories
        if before is None or self.offline or not all(self._has_all_of(*before, one) for one in directories):
            return []
        others = [
            found
            for found in directories[0].incarnations
            if found != before[0] and all(one.was_only_killed(found) for one in directories)
        ]
        return [before[0], *others[-_UNREGISTERED_MAX:]]

    def _has_all_of(self, incarnation_id: bytes, broker_epoch: int, directory: LogDirectory) -> bool:
        if directory.was_stopped_cleanly(broker_epoch):
            return True
        return self.config.penstock_trust_page_cache and directory.was_only_killed(incarnation_id)

    def is_whole(self, incarnation_id: bytes) -> bool:
        """Whether everything that this earlier process wrote is here (KIP-966). Call this after `load`."""
        return incarnation_id in self._incarnations[:-1] and not self.offline

    def _vouch_again(self) -> None:
        """Vouch again for directories in which recovery found losses.

        This process then no longer vouches for its predecessors, but everything it has written is here.
        """
        for directory in self._directories:
            if directory.is_distrusted and self.config.penstock_trust_page_cache:
                directory.vouch(self._incarnations)

    def _damaged(self, directory: Path, reason: str) -> None:
        """Stop vouching for earlier processes and distrust the log directory. May run in any thread."""
        self._incarnations = self._incarnations[-1:]
        for found in self._directories:
            if found.path == directory.parent:
                found.distrust(reason)

    def _io_failed(self, partition_log: Log, error: OSError) -> None:
        """Handle a failed write or sync. May run in any thread. A write that was undone loses nothing."""
        if partition_log.failure is not None:
            self._damaged(partition_log.directory, partition_log.failure)
        self.io_errors[partition_log.directory.parent] += 1
        self._io_error(partition_log, error)

    # --- loading

    def load(self, config_of: Callable[[str], LogConfig]) -> None:
        """Open every log, and recover it after an unclean stop. Blocks. `config_of` maps topics to configs.

        Directories marked as deleted are removed later. Raises LogDirectoryError if a directory is not a
        partition's, or a log cannot be opened.
        """
        pending: list[tuple[TopicPartition, LogDirectory, Future[Log]]] = []
        for directory in list(self._directories):
            try:
                clean = directory.take_clean_shutdown_marker()
                found = sorted(directory.path.iterdir())
            except OSError as error:
                self._fail_in_load(directory, f"{directory.path} cannot be read: {error}")
                continue
            for path in found:
                if path.is_dir() and (name := self._log_in(path)):
                    opening = self._executor.submit(
                        self._open, path, name, config_of(name.topic), directory, clean
                    )
                    pending.append((name, directory, opening))
        for name, directory, opening in pending:
            problem = f"{directory.path / str(name)} cannot be opened"
            try:
                partition_log = opening.result()
            except OSError as error:
                if directory.path not in self.offline:
                    self._fail_in_load(directory, f"{problem}: {error}")
                continue
            except ValueError as error:
                raise LogDirectoryError(f"{problem}: {error}") from error
            if directory.path in self.offline:
                continue
            if name in self._logs:
                if _are_of_different_topics(self._logs[name], partition_log):
                    self._rivals.append((partition_log, directory))
                    continue
                partition_log, directory = self._only_one_of(self._logs[name], partition_log, directory)
            self._add(partition_log, directory)
        self._vouch_again()
        self._recovered = {partition_log for partition_log in self if partition_log.unflushed_messages}

    def _fail_in_load(self, directory: LogDirectory, reason: str) -> None:
        """Continue without the directory. Raises LogDirectoryError if the node cannot do without it."""
        if directory.path == self._metadata_directory or len(self._directories) == 1:
            raise LogDirectoryError(reason)
        self.fail_directory(directory.path, reason)

    def fail_directory(self, path: Path, reason: str) -> list[TopicPartition]:
        """Take a directory and its logs out of service until the next start. Returns the logs' names."""
        directory = next((found for found in self._directories if found.path == path), None)
        if directory is None:
            return []
        log.error("log directory is out of service with its logs directory=%s reason=%s", path, reason)
        self.offline[path] = reason
        directory.distrust(reason)
        self._failed.append(directory)
        self._directories = [found for found in self._directories if found is not directory]
        failed = [name for name, found in self._directory_of.items() if found is directory]
        rivals = [partition_log for partition_log, found in self._rivals if found is directory]
        for partition_log in (*map(self._logs.pop, failed), *rivals):
            partition_log.fail(f"log directory {path} is out of service: {reason}")
        for name in failed:
            del self._directory_of[name]
        self._rivals = [
            (partition_log, found) for partition_log, found in self._rivals if found is not directory
        ]
        directory.release()
        return failed

    def _only_one_of(self, one: Log, other: Log, directory: LogDirectory) -> tuple[Log, LogDirectory]:
        """Keep, of two logs of one partition, the one with records; a failed creation leaves an empty one.

        Raises LogDirectoryError if both have records.
        """
        if one.log_end_offset and other.log_end_offset:
            raise LogDirectoryError(
                f"{one.name} is in two log directories, {one.directory} and {other.directory}; "
                "move one of them away"
            )
        partition_log, empty = (other, one) if other.log_end_offset else (one, other)
        renamed = marked_directory_name(one.name, DELETE_DIRECTORY_SUFFIX, self._uuid())
        empty.rename_for_deletion(empty.directory.with_name(renamed))
        self._delete_delays.append((self._clock(), empty.directory))
        return partition_log, directory if partition_log is other else self._directory_of[one.name]

    def _log_in(self, path: Path) -> TopicPartition | None:
        """The partition whose log is in `path`, or None if the log is not to be opened.

        Raises LogDirectoryError if the name is not that of a partition's directory.
        """
        parsed = parse_directory_name(path.name)
        if parsed is None:
            raise LogDirectoryError(
                f"{path} is not named <topic>-<partition>; move it away: a log directory holds topics only"
            )
        if parsed.mark == DELETE_DIRECTORY_SUFFIX:
            self._delete_delays.append((self._clock(), path))
        elif parsed.mark:
            log.warning(
                "directory skipped, because it is marked directory=%s mark=%s", path, parsed.mark.lstrip("-")
            )
        if parsed.mark or parsed.topic_partition.topic == CLUSTER_METADATA_TOPIC:
            return None
        return parsed.topic_partition

    def _open(
        self, path: Path, name: TopicPartition, config: LogConfig, directory: LogDirectory, clean: bool
    ) -> Log:
        partition_log = Log.open(
            path,
            name.topic,
            name.partition,
            config,
            clean=clean,
            recovery_point=directory.checkpoint(checkpoints.RECOVERY_POINTS).get(name, 0),
            log_start_offset=directory.checkpoint(checkpoints.LOG_START_OFFSETS).get(name, 0),
            clock=self._clock,
            files=self._files,
            hooks=self._hooks,
            rng=self._rng,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
        )
        if not clean:
            self._check_end(partition_log, directory)
        return partition_log

    def _check_end(self, partition_log: Log, directory: LogDirectory) -> None:
        """Report damage if the log ends below a checkpoint, as a kill loses nothing durable or committed."""
        for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
            offset = directory.checkpoint(name).get(partition_log.name, 0)
            if offset > partition_log.log_end_offset:
                end_offset = partition_log.log_end_offset
                self._damaged(
                    partition_log.directory,
                    f"{partition_log.name} ends at offset {end_offset}, but {name} has {offset}",
                )

    def _add(self, partition_log: Log, directory: LogDirectory) -> None:
        self._logs[partition_log.name] = partition_log
        self._directory_of[partition_log.name] = directory

    # --- the logs

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get(TopicPartition(topic, partition))

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def directories(self) -> list[LogDirectory]:
        return self._directories

    def directory_of(self, topic: str, partition: int) -> LogDirectory | None:
        return self._directory_of.get(TopicPartition(topic, partition))

    def checkpointed_high_watermark(self, topic: str, partition: int) -> int | None:
        """The partition's high watermark in the checkpoint of its directory, or None."""
        name = TopicPartition(topic, partition)
        directory = self._directory_of.get(name)
        return directory.checkpoint(checkpoints.HIGH_WATERMARKS).get(name) if directory else None

    def create(
        self, topic: str, topic_id: bytes, partition: int, config: LogConfig, *, is_new: bool = True
    ) -> Log:
        """Return the partition's log; if there is none, create it in the directory with the fewest logs.

        A log that is not new may be in an offline directory, so it is not created while one is offline.

        Raises: StorageFailed if the log cannot be created, InconsistentTopicId if the log of an earlier topic
        of that name still exists, OSError.
        """
        name = TopicPartition(topic, partition)
        partition_log = self._logs.get(name)
        if partition_log is None:
            if self.offline and not is_new:
                raise StorageFailed(f"{name} may be in {', '.join(map(str, self.offline))}, which is offline")
            if not self._directories:
                raise StorageFailed(f"{name} cannot be created: {', '.join(map(str, self.offline))} offline")
            directory = self._emptiest_directory()
            for other in self._directories:
                other.sync_renames()
            directory.forget(name)
            path = directory.path / str(name)
            try:
                partition_log = self._open(path, name, config, directory, clean=True)
            except BaseException:
                with suppress(OSError):
                    self._files.remove_tree(path)
                raise
            self._add(partition_log, directory)
        partition_log.assign_topic_id(topic_id)
        self._flush_soon(partition_log)
        return partition_log

    def _emptiest_directory(self) -> LogDirectory:
        """The directory with the fewest logs that is not cordoned.

        If all are cordoned, the first one is used, because the log was assigned to this node on purpose.
        """
        usable = [directory for directory in self._directories if directory.path not in self.cordoned]
        if not usable:
            return self._directories[0]
        used = Counter(map(id, list(self._directory_of.values()))) if len(usable) > 1 else {}
        return min(usable, key=lambda directory: used.get(id(directory), 0))

    def update_config(self, topic: str, partition: int, config: LogConfig) -> None:
        """Apply the topic's new config to a log."""
        partition_log = self._logs.get(TopicPartition(topic, partition))
        if partition_log is not None:
            partition_log.update_config(config)

    def delete(self, topic: str, partition: int) -> None:
        """Take a log out of service and rename its directory. Raises OSError.

        The files are removed after `file.delete.delay.ms`.
        """
        partition_log = self._retire(TopicPartition(topic, partition), DELETE_DIRECTORY_SUFFIX)
        if partition_log is not None:
            self._delete_delays.append(
                (self._clock() + partition_log.config.file_delete_delay_ms, partition_log.directory)
            )
            log.info(
                "log deleted, its directory was renamed log=%s directory=%s",
                partition_log.name,
                partition_log.directory,
            )

    def set_aside(self, topic: str, partition: int) -> None:
        """Take a log that is unknown to the cluster out of service, and keep its files under another name.

        Raises OSError.
        """
        partition_log = self._retire(TopicPartition(topic, partition), STRAY_DIRECTORY_SUFFIX)
        if partition_log is not None:
            log.warning(
                "log belongs to no topic of this cluster, its files are kept log=%s directory=%s",
                partition_log.name,
                partition_log.directory,
            )

    def settle_rivals(self, topic_id_of: Callable[[str], bytes | None]) -> None:
        """Choose between logs that have the same name but belong to different topics. Raises OSError.

        Such a log comes back on a disk that was missing while its topic was deleted and created again. The
        log of the topic that has the name now is served; the others are set aside.
        """
        for partition_log, directory in self._rivals:
            one = self._logs.get(partition_log.name)
            if one is not None and one.topic_id == topic_id_of(partition_log.name.topic):
                self._set_aside_rival(partition_log, directory)
            else:
                self.set_aside(*partition_log.name)
                self._add(partition_log, directory)
                if partition_log.unflushed_messages:
                    self._recovered.add(partition_log)
        self._rivals.clear()

    def _set_aside_rival(self, partition_log: Log, directory: LogDirectory) -> None:
        self._rename_retired(partition_log, directory, STRAY_DIRECTORY_SUFFIX)
        log.warning(
            "log belongs to an earlier topic of its name, its files are kept log=%s directory=%s",
            partition_log.name,
            partition_log.directory,
        )

    def _retire(self, name: TopicPartition, mark: str) -> Log | None:
        """Stop serving a log and rename its directory. Raises OSError."""
        partition_log = self._logs.pop(name, None)
        if partition_log is None:
            return None
        self._rename_retired(partition_log, self._directory_of.pop(name), mark)
        return partition_log

    def _rename_retired(self, partition_log: Log, directory: LogDirectory, mark: str) -> None:
        self._recovered.discard(partition_log)
        renamed = directory.path / marked_directory_name(partition_log.name, mark, self._uuid())
        directory.has_unsynced_renames = True
        partition_log.rename_for_deletion(renamed)
        self.cleaner.deleted(partition_log, directory.path)

    def _uuid(self) -> uuid.UUID | None:
        return uuid.UUID(int=self._rng.getrandbits(128), version=4) if self._rng is not None else None

    def _truncated(self, partition_log: Log, offset: int) -> None:
        self.cleaner.truncated(partition_log, offset)
        self._directory_of[partition_log.name].lower_recovery_point(partition_log.name, offset)

    # --- work at intervals

    def tick(self, now_ms: int) -> None:
        """Do work that is due, or start it in a worker. The broker calls this about every second."""
        config = self.config
        while self._turns:
            self._turns.popleft()()
        for directory in (*self._directories, *self._failed):
            directory.withdraw()
        self.cleaner.tick(now_ms)
        # A round that takes longer than the interval is finished first, so that its last logs get their turn.
        if not self._awaiting_retention and self._is_due(
            "retention", now_ms, config.log_retention_check_interval_ms
        ):
            self._awaiting_retention = deque(self)
        self._retain_some(now_ms)
        if self._is_due("producers", now_ms, config.producer_id_expiration_check_interval_ms):
            for partition_log in self:
                partition_log.producer_id_expiration_ms = config.producer_id_expiration_ms
                partition_log.remove_expired_producers(now_ms)
        if self._is_due("flush", now_ms, min(config.log_flush_scheduler_interval_ms, _REMOVAL_INTERVAL_MS)):
            for partition_log in self:
                if (
                    partition_log.unflushed_messages
                    and now_ms - partition_log.last_flush_ms >= partition_log.config.flush_ms
                ):
                    self._flush_soon(partition_log)
        if self._is_due("recovery points", now_ms, config.log_flush_offset_checkpoint_interval_ms):
            self._background.run_once("recovery points", self.checkpoint_recovery_points)
        if self._is_due("start offsets", now_ms, config.log_flush_start_offset_checkpoint_interval_ms):
            self._background.run_once("start offsets", self.checkpoint_log_start_offsets)
        if self._is_due("high watermarks", now_ms, config.replica_high_watermark_checkpoint_interval_ms):
            marks = dict(self.high_watermarks())
            self._background.run_once("high watermarks", lambda: self.checkpoint_high_watermarks(marks))
        if self._is_due("removal", now_ms, _REMOVAL_INTERVAL_MS):
            self._background.run_once("removal", lambda: self.remove_deleted_files(now_ms))

    def _is_due(self, task: str, now_ms: int, interval_ms: int) -> bool:
        """Whether `interval_ms` have passed since the task was last due, or since the first call for it."""
        due_ms = self._due.setdefault(task, now_ms + interval_ms)
        if now_ms < due_ms:
            return False
        self._due[task] = now_ms + interval_ms
        return True

    def _retain_some(self, now_ms: int) -> None:
        """Apply retention to the next logs in the queue."""
        marks = self.high_watermarks() if self._awaiting_retention else {}
        for _ in range(min(len(self._awaiting_retention), _RETAINED_LOGS_PER_TICK)):
            partition_log = self._awaiting_retention.popleft()
            if partition_log.config.compacts or self.cleaner.is_cleaning(partition_log):
                continue  # the cleaner applies retention itself, when it is not cleaning the log
            try:
                partition_log.delete_old_segments(now_ms, marks.get(partition_log.name))
            except LogError as error:
                log.error("retention failed log=%s error=%s", partition_log.name, error)

    def _flush_soon(self, partition_log: Log) -> None:
        """Flush a log in a worker, unless a flush is already queued."""
        if partition_log not in self._flushing:
            self._flushing.add(partition_log)
            self._background.run(lambda: self._flush(partition_log))

    def _flush(self, partition_log: Log) -> None:
        """Flush a log; if it was recovered, checkpoint recovery points soon, as another kill may follow."""
        self._flushing.discard(partition_log)
        partition_log.flush()
        if partition_log in self._recovered:
            self._recovered.discard(partition_log)
            now_ms = self._clock()
            if not self._recovered or now_ms >= self._recovered_noted_ms + _RECOVERED_INTERVAL_MS:
                self._recovered_noted_ms = now_ms
                self.checkpoint_recovery_points()

    # --- blocking work

    def checkpoint_recovery_points(self) -> None:
        """Write the checkpoint of the logs' recovery points. Blocks. Raises OSError."""
        self._checkpoint(checkpoints.RECOVERY_POINTS, lambda partition_log: partition_log.recovery_point)

    def checkpoint_log_start_offsets(self) -> None:
        """Write the checkpoint of the log start offsets. Blocks. Raises OSError.

        Kafka leaves out logs that start with a segment. They are included here, because a power failure may
        undo the removal of segments.
        """
        self._checkpoint(
            checkpoints.LOG_START_OFFSETS, lambda partition_log: partition_log.log_start_offset or None
        )

    def checkpoint_high_watermarks(self, marks: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoint of high watermarks. Blocks. Raises OSError."""
        self._checkpoint(checkpoints.HIGH_WATERMARKS, lambda partition_log: marks.get(partition_log.name))

    def _checkpoint(self, name: str, offset_of: Callable[[Log], int | None]) -> None:
        for directory in self._directories:
            try:
                directory.write_checkpoint(name, partial(self._offsets_in, directory, offset_of))
            except OSError as error:
                self._directory_failed(directory.path, error)
                raise

    def _offsets_in(
        self, directory: LogDirectory, offset_of: Callable[[Log], int | None]
    ) -> dict[TopicPartition, int]:
        offsets = {}
        for partition_log in self:
            if (
                self._directory_of.get(partition_log.name) is directory
                and (offset := offset_of(partition_log)) is not None
            ):
                offsets[partition_log.name] = offset
        return offsets

    def remove_deleted_files(self, now_ms: int) -> None:
        """Remove the files of deleted segments and topics whose delay has passed. Blocks. Raises OSError."""
        for partition_log in self:
            partition_log.remove_deleted_files(now_ms)
        for entry in [entry for entry in self._delete_delays if entry[0] <= now_ms]:
            self._delete_delays.remove(entry)
            self._files.remove_tree(entry[1])
            log.info("directory of a deleted log removed directory=%s", entry[1])

    def close(self, broker_epoch: int = -1, *, abandons: bool = False) -> None:
        """Stop cleanly: flush and close all logs, write the checkpoints and the marker. Blocks.

        Failures to close or write are logged; the directory then gets no marker, so its logs are recovered.
        A start that failed ``abandons`` the logs, of which not all are open, and writes nothing about them.
        """
        self.cleaner.close()
        self._executor.shutdown(wait=True, cancel_futures=True)  # closing does all work that is still queued
        try:
            failed = set(
                self._close_logs(
                    [*self._logs.values(), *(partition_log for partition_log, _ in self._rivals)]
                )
            )
            if abandons:
                return
            marks = dict(self.high_watermarks())
            self.checkpoint_recovery_points()
            self.checkpoint_log_start_offsets()
            self.checkpoint_high_watermarks(marks)
            for directory in self._directories:
                if directory.path not in failed:
                    directory.write_clean_shutdown_marker(broker_epoch)
        except OSError as error:
            log.error("the shutdown is not clean, so logs will be recovered error=%s", error)
        finally:
            self._release()

    def _close_logs(self, logs: Iterable[Log]) -> Iterator[Path]:
        """Close `logs` in parallel. Yields the directory of each log that could not be closed."""
        with self._workers(_CLOSING_WORKERS) as executor:
            for partition_log, closing in [
                (partition_log, executor.submit(partition_log.close)) for partition_log in logs
            ]:
                try:
                    closing.result()
                    clean = partition_log.closed
                except LogError as error:
                    log.error("cannot close a log log=%s error=%s", partition_log.name, error)
                    clean = False
                if not clean:
                    yield partition_log.directory.parent

    def _release(self) -> None:
        for directory in self._directories:
            directory.release()


def _are_of_different_topics(one: Log, other: Log) -> bool:
    """Whether both logs have a topic id, and the ids differ."""
    return None not in (one.topic_id, other.topic_id) and one.topic_id != other.topic_id
