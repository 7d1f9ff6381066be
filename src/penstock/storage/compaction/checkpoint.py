"""Up to where each log is cleaned: `cleaner-offset-checkpoint` at the top of each log directory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from penstock.storage import checkpoints
from penstock.storage.files import FileSystem
from penstock.storage.names import TopicPartition

logger = logging.getLogger(__name__)


class CleanerCheckpoint:
    """That of one directory. Changed on the event loop; `write` blocks and is for workers."""

    def __init__(self, directory: Path, files: FileSystem) -> None:
        self._path = directory / checkpoints.CLEANED_OFFSETS
        self._files = files
        self._lock = threading.Lock()
        try:
            self._offsets = checkpoints.read_offsets(self._path)
        except checkpoints.CheckpointCorrupt as error:
            logger.warning(
                "a broken checkpoint is passed over, its logs are cleaned from the start: %s", error
            )
            self._offsets = {}

    def get(self, name: TopicPartition) -> int | None:
        return self._offsets.get(name)

    def set(self, name: TopicPartition, offset: int) -> None:
        self._offsets[name] = offset

    def truncate(self, name: TopicPartition, offset: int) -> bool:
        """Take the records from `offset` on for not cleaned. Returns whether that changed anything."""
        if self._offsets.get(name, 0) <= offset:
            return False
        self._offsets[name] = offset
        return True

    def forget(self, name: TopicPartition) -> bool:
        return self._offsets.pop(name, None) is not None

    def keep_only(self, names: Iterable[TopicPartition]) -> None:
        """Forget logs that are no longer there."""
        for name in self._offsets.keys() - set(names):
            del self._offsets[name]

    def write(self) -> None:
        """Make it durable. Raises OSError."""
        with self._lock:  # or an older state could come last
            checkpoints.write_offsets(self._files, self._path, dict(self._offsets))
