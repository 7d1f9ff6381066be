"""The offsets up to which logs are cleaned: `cleaner-offset-checkpoint` in each log directory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from penstock.storage.disk import checkpoints
from penstock.storage.disk.files import FileSystem
from penstock.storage.names import TopicPartition

log = logging.getLogger(__name__)


class CleanerCheckpoint:
    """The cleaner checkpoint of one log directory.

    The event loop changes it. `write` blocks and runs in a worker.
    """

    def __init__(self, directory: Path, files: FileSystem) -> None:
        self._path = directory / checkpoints.CLEANED_OFFSETS
        self._files = files
        self._lock = threading.Lock()
        try:
            self._offsets = checkpoints.read_offsets(self._path)
        except checkpoints.CheckpointCorrupt as error:
            log.warning("checkpoint not readable, cleaning its logs from the start error=%s", error)
            self._offsets = {}

    def get(self, name: TopicPartition) -> int | None:
        return self._offsets.get(name)

    def set(self, name: TopicPartition, offset: int) -> None:
        self._offsets[name] = offset

    def truncate(self, name: TopicPartition, offset: int) -> bool:
        """Mark the records from `offset` on as not cleaned. Returns whether that changed anything."""
        if self._offsets.get(name, 0) <= offset:
            return False
        self._offsets[name] = offset
        return True

    def forget(self, name: TopicPartition) -> bool:
        return self._offsets.pop(name, None) is not None

    def keep_only(self, names: Iterable[TopicPartition]) -> None:
        """Remove the entries of logs that no longer exist."""
        for name in self._offsets.keys() - set(names):
            del self._offsets[name]

    def write(self) -> None:
        """Write the checkpoint durably. Raises OSError."""
        with self._lock:  # otherwise an older state could be written last
            checkpoints.write_offsets(self._files, self._path, dict(self._offsets))
