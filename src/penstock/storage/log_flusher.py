"""Making a log durable: what of it is on the disk, and what the next flush has to sync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.storage.files import FileSystem

if TYPE_CHECKING:
    from penstock.storage.log import Log


class CheckpointNotWritten(OSError):
    """The leader epochs' file is whole, but old. Nothing is lost: the next flush writes it."""


class LogFlusher:
    """One log's. The log's owner says what has changed; `flush` blocks and runs in a worker."""

    def __init__(
        self,
        directory: Path,
        files: FileSystem,
        clock: Callable[[], int],
        *,
        recovery_point: int,
        parent_changed: bool,
    ) -> None:
        self._directory = directory
        self._files = files
        self._clock = clock
        self.lock = threading.Lock()
        """Held by whoever flushes or truncates."""
        self.recovery_point = recovery_point
        """What lies below it is durable."""
        self.last_flush_ms = clock()
        self._unsynced: set[Path] = set()
        self._directory_changed = True
        self._parent_changed = parent_changed
        """The directory itself is new, or was to a process that was killed."""

    def file_written(self, path: Path) -> None:
        """There is a new file beside the segments, to be synced with its directory."""
        self._unsynced.add(path)
        self._directory_changed = True

    def directory_changed(self) -> None:
        """Files have come, gone, or got another name."""
        self._directory_changed = True

    def lower_recovery_point(self, offset: int) -> None:
        self.recovery_point = min(self.recovery_point, offset)

    def flush(self, log: Log) -> None:
        """Sync all that was appended before the call and move the recovery point up to it. Raises OSError.

        The caller holds the lock. A log that is deleted meanwhile is left alone. After CheckpointNotWritten
        it may go on, else nobody knows what is on the disk.
        """
        end_offset = log.log_end_offset
        segments = log.segments
        # From one below: a segment that was active when it was flushed last has indexes to sync.
        for segment in segments.from_offset(self.recovery_point - 1):
            segment.sync(finished=segment is not segments.active)
        log.producer_state.snapshots.sync()
        if log.deleted:
            return  # its directory's name may be another log's by now
        try:
            log.leader_epochs.flush()
        except OSError as error:
            raise CheckpointNotWritten(error.errno, str(error)) from error
        for path in list(self._unsynced):
            self._files.sync_path(path)
            self._unsynced.discard(path)
        if self._directory_changed:
            self._directory_changed = False
            self._files.sync_directory(self._directory)
        if self._parent_changed:
            self._files.sync_directory(self._directory.parent)
            self._parent_changed = False
        self.recovery_point = min(max(self.recovery_point, end_offset), log.log_end_offset)
        self.last_flush_ms = self._clock()
