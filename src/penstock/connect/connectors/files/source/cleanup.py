"""Deletes or moves files, once all of their records are in their topic."""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from penstock.connect.connectors.files.source import definition as keys

log = logging.getLogger(__name__)


class _Done(NamedTuple):
    """A file as it was when it was read, and whether a part could not be read."""

    status: os.stat_result
    is_damaged: bool


class Cleanup:
    """Counts the records of files that are not in their topic yet, and cleans up files without any."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._policy: str = config[keys.CLEANUP]
        self._finished: str = config[keys.FINISHED_PATH]
        self._error: str = config[keys.ERROR_PATH]
        self._pending: Counter[str] = Counter()
        self._done: dict[str, _Done] = {}
        """Files that were read to their end."""

    @property
    def keeps_files(self) -> bool:
        """Whether files stay where they are."""
        return self._policy == keys.NONE

    def sent(self, path: str, count: int) -> None:
        """Note that records of a file were given to the worker."""
        self._pending[path] += count

    def stored(self, path: str) -> None:
        """Note that a record of a file is in its topic, or was dropped."""
        self._pending[path] -= 1

    def done(self, path: str, status: os.stat_result, *, is_damaged: bool) -> None:
        """Note that a file was read to its end; the status is that of the opened file before."""
        self._done[path] = _Done(status, is_damaged)

    def is_waiting(self, path: str) -> bool:
        """Whether a file was read whose records are not all in their topic."""
        return path in self._done

    def run(self) -> list[str]:
        """Clean up the files that are due, and return the paths of those that are gone.

        A file that has changed since it was read stays, and is read again.

        Raises:
            OSError: a file cannot be cleaned up now; what is left is tried again.
        """
        cleaned = []
        for path in [each for each in self._done if self._pending[each] <= 0]:
            done = self._done[path]
            is_moved_apart = done.is_damaged and bool(self._error)
            if (is_moved_apart or not self.keeps_files) and _is_as_read(path, done.status):
                if is_moved_apart:
                    _move(path, self._error)
                elif self._policy == keys.MOVE:
                    _move(path, self._finished)
                else:
                    Path(path).unlink(missing_ok=True)
                cleaned.append(path)
            del self._done[path], self._pending[path]
        return cleaned


def _is_as_read(path: str, read: os.stat_result) -> bool:
    """Whether the file at a path is still the one that was read, without changes."""
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    return all(
        getattr(now, name) == getattr(read, name) for name in ("st_dev", "st_ino", "st_size", "st_mtime_ns")
    )


def _move(path: str, directory: str) -> None:
    """Move a file into a directory; if the name is taken there, a number is added."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    target = os.path.join(directory, os.path.basename(path))
    number = 0
    while os.path.exists(target):
        number += 1
        target = f"{os.path.join(directory, os.path.basename(path))}.{number}"
    try:
        shutil.move(path, target)
    except FileNotFoundError:
        log.warning("a file that was read is gone file=%s", path)
