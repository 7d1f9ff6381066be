"""Manages one log directory of a node: its lock, its checkpoints and its clean-shutdown marker."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from penstock.storage.directories import run_file
from penstock.storage.directories.meta_properties import MetaProperties
from penstock.storage.disk import checkpoints
from penstock.storage.disk.files import FileSystem
from penstock.storage.errors import LogDirectoryError, LogDirectoryOffline
from penstock.storage.names import TopicPartition

log = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
_UNKNOWN_BROKER_EPOCH: Final = -1
_CHECKPOINTS: Final = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.HIGH_WATERMARKS,
)

_held_by_this_process: set[str] = set()


class DirectoryLock:
    """Kafka's `.lock` file, held with a record lock as by the JVM's FileChannel, so each excludes the other.

    Record locks belong to the process, and closing any descriptor of the file drops them. So this module
    remembers the directories that the process holds, and does not open their lock files twice.
    """

    def __init__(self, directory: Path) -> None:
        self._key = os.path.realpath(directory)
        if self._key in _held_by_this_process:
            raise self._refused(directory)
        self._fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise self._refused(directory) from None
        _held_by_this_process.add(self._key)

    @staticmethod
    def _refused(directory: Path) -> LogDirectoryError:
        return LogDirectoryError(
            f"{directory} is in use by another node; stop that one, or give this one another directory"
        )

    def release(self) -> None:
        if self._key in _held_by_this_process:
            _held_by_this_process.discard(self._key)
            os.close(self._fd)


class LogDirectory:
    """One log directory, opened by the manager; `path` exists and is locked until `release`.

    Raises LogDirectoryError if another node holds it or it cannot be written.
    """

    def __init__(self, path: Path, files: FileSystem) -> None:
        self.path = path
        self.properties: MetaProperties | None = None
        self.has_unsynced_renames = False
        self._files = files
        try:
            files.mkdir(path, exist_ok=True)
            # entries that a killed process left only in the page cache; logs sync what they add later
            files.sync_directory(path)
            files.sync_directory(path.parent)
            self._lock = DirectoryLock(path)
        except OSError as error:
            raise LogDirectoryOffline(f"{path} cannot be used as a log directory: {error}") from error
        self.incarnations: tuple[bytes, ...] = ()
        """Incarnations whose writes are all here, even if the last one was killed; `recall` reads them."""
        self._has_vouched = True
        """Whether a run file that lists them may exist."""
        self.is_distrusted = False
        self._checkpoint_lock = threading.Lock()
        self._checkpoints = {name: self._read_checkpoint(name) for name in _CHECKPOINTS}

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint; a broken one counts as empty.

        Without it, recovery covers more, and logs start at their first segment.
        """
        try:
            return checkpoints.read_offsets(self.path / name)
        except checkpoints.CheckpointCorrupt as error:
            log.warning("checkpoint not readable, so it counts as empty error=%s", error)
            return {}

    def broker_epoch_of_clean_shutdown(self) -> int:
        """The broker epoch in the clean-shutdown marker; -1 without a readable marker."""
        try:
            return int(
                json.loads((self.path / CLEAN_SHUTDOWN_FILE).read_text(encoding="utf-8"))["brokerEpoch"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return _UNKNOWN_BROKER_EPOCH

    def take_clean_shutdown_marker(self) -> bool:
        """Remove the clean-shutdown marker. Returns whether the last stop was clean.

        The marker is removed before the logs are opened, so that a crash while loading counts as a crash.
        """
        path = self.path / CLEAN_SHUTDOWN_FILE
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            return False
        self._files.sync_directory(self.path)
        return True

    def write_clean_shutdown_marker(self, broker_epoch: int) -> None:
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._files.write_atomically(self.path / CLEAN_SHUTDOWN_FILE, content.encode())

    def recall(self) -> None:
        """Read the incarnations that have written to this directory before."""
        self.incarnations = run_file.read(self.path, self._files)

    def was_stopped_cleanly(self, broker_epoch: int) -> bool:
        """Whether the last process here had this broker epoch and stopped cleanly."""
        return broker_epoch == self.broker_epoch_of_clean_shutdown() != _UNKNOWN_BROKER_EPOCH

    def was_only_killed(self, incarnation_id: bytes) -> bool:
        """Whether everything this process wrote is here, because the machine has been running since."""
        return incarnation_id in self.incarnations

    def vouch(self, incarnations: tuple[bytes, ...]) -> None:
        """Record that everything these processes wrote is here, including what the last will still write."""
        self.is_distrusted = False
        try:
            self._has_vouched = run_file.write(self.path, self._files, incarnations)
        except OSError as error:  # an older file may remain, but it does not name this process
            log.warning(
                "cannot write the run file, so a kill of this process counts as a loss of its writes "
                "directory=%s error=%s",
                self.path,
                error,
            )

    def distrust(self, reason: str = "") -> None:
        """Record that data written here may be lost, however this process ends. May run in any thread."""
        if reason and not self.is_distrusted:
            log.warning("log directory may have lost records directory=%s reason=%s", self.path, reason)
        self.is_distrusted = True
        self.withdraw()

    def withdraw(self) -> None:
        """Remove the run file if the directory is distrusted; each call retries until it succeeds."""
        if not (self.is_distrusted and self._has_vouched):
            return
        try:
            run_file.remove(self.path, self._files)
            self._has_vouched = False
        except OSError as error:
            log.error("cannot remove the run file file=%s error=%s", self.path / run_file.FILE_NAME, error)

    def sync_renames(self) -> None:
        """Make the renames of retired logs durable, before a new log of the same name is created."""
        if self.has_unsynced_renames:
            self._files.sync_directory(self.path)
            self.has_unsynced_renames = False

    def checkpoint(self, name: str) -> Mapping[TopicPartition, int]:
        """The offsets in the checkpoint file `name`, as of its last write or of the start."""
        return self._checkpoints[name]

    def write_checkpoint(self, name: str, offsets: Callable[[], dict[TopicPartition, int]]) -> None:
        """Write the offsets that `offsets` returns. May run in any thread. Raises OSError."""
        with self._checkpoint_lock:
            self._write(name, offsets())

    def forget(self, topic_partition: TopicPartition) -> None:
        """Remove a partition from the checkpoints. Raises OSError.

        This precedes the creation of a log of that name, which must not inherit a deleted topic's offsets.
        """
        with self._checkpoint_lock:
            for name, offsets in self._checkpoints.items():
                if topic_partition in offsets:
                    others = {other: offset for other, offset in offsets.items() if other != topic_partition}
                    self._write(name, others)

    def lower_recovery_point(self, topic_partition: TopicPartition, offset: int) -> None:
        """Ensure that recovery after a crash trusts only what is below `offset`. Raises OSError."""
        with self._checkpoint_lock:
            points = self._checkpoints[checkpoints.RECOVERY_POINTS]
            if points.get(topic_partition, 0) > offset:
                self._write(checkpoints.RECOVERY_POINTS, {**points, topic_partition: offset})

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        checkpoints.write_offsets(self._files, self.path / name, offsets)
        self._checkpoints[name] = offsets

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self._lock.release()
