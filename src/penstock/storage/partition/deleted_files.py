"""Keeps files that were removed from a log for its readers until `file.delete.delay.ms` has passed."""

from __future__ import annotations

from pathlib import Path

from penstock.storage.disk.files import FileSystem


class DeletedFiles:
    """The renamed files of one log that wait for their removal. One thread adds, another removes."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._waiting: list[tuple[int, list[Path]]] = []

    def add(self, paths: list[Path], remove_at_ms: int) -> None:
        self._waiting.append((remove_at_ms, paths))

    def remove_due(self, now_ms: int) -> None:
        """Remove the files whose delay has passed. Blocks, so it runs in a worker. Raises OSError."""
        while self._waiting and self._waiting[0][0] <= now_ms:
            for path in self._waiting[0][1]:
                self._files.remove_if_exists(path)
            del self._waiting[0]
