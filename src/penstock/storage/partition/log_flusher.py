"""Makes a log durable: tracks what is on the disk and what the next flush has to sync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from penstock.storage.disk.files import FileSystem
from penstock.storage.partition.leader_epochs import LeaderEpochs
from penstock.storage.producers.producer_state import ProducerState
from penstock.storage.segments.segment_list import Segments


class CheckpointNotWritten(OSError):
    """The leader epoch checkpoint could not be written. The old file is intact; the next flush retries."""


class FlushedLog(Protocol):
    """A log as its flusher sees it."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def segments(self) -> Segments: ...

    @property
    def producer_state(self) -> ProducerState: ...

    @property
    def leader_epochs(self) -> LeaderEpochs: ...

    @property
    def deleted(self) -> bool:
        """Whether the log was deleted, possibly since the flush began."""


class LogFlusher:
    """The flusher of one log. The log's owner reports changes; `flush` blocks and runs in a worker."""

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
        """Held during a flush or truncation."""
        self.recovery_point = recovery_point
        """The offset below which all records are durable."""
        self.last_flush_ms = clock()
        self._unsynced: set[Path] = set()
        self._directory_changed = True
        self._parent_changed = parent_changed
        """Whether the directory itself is new, or may have been created by a process that was killed."""

    def file_written(self, path: Path) -> None:
        """Note a new file beside the segments, which the next flush syncs with the directory."""
        self._unsynced.add(path)
        self._directory_changed = True

    def directory_changed(self) -> None:
        """Note that files were created, removed or renamed."""
        self._directory_changed = True

    def lower_recovery_point(self, offset: int) -> None:
        self.recovery_point = min(self.recovery_point, offset)

    def flush(self, log: FlushedLog) -> None:
        """Sync everything appended before the call and advance the recovery point. Raises OSError.

        The caller holds the lock. If the log is deleted meanwhile, the flush ends early. After
        CheckpointNotWritten the log may continue; after any other OSError the state of the disk is unknown.
        """
        end_offset = log.log_end_offset
        assert self.recovery_point <= end_offset, "the recovery point is beyond the log"
        segments = log.segments
        # Start one offset lower: a segment that was active at the last flush may have indexes to sync.
        for segment in segments.from_offset(self.recovery_point - 1):
            segment.sync(finished=segment is not segments.active)
        log.producer_state.snapshots.sync()
        if log.deleted:
            return  # another log may have the directory's name by now
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
