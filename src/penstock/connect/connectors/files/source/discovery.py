"""Finds the files of a configuration, and those of one task."""

from __future__ import annotations

import glob
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.connect.connectors.files.source import definition as keys


class FoundFile(NamedTuple):
    """A file, and what the file system said about it."""

    path: str
    status: os.stat_result


_SORTS: Final[Mapping[str, Callable[[FoundFile], Any]]] = {
    "Name": lambda found: found.path,
    "LastModified": lambda found: (found.status.st_mtime_ns, found.path),
    "Length": lambda found: (found.status.st_size, found.path),
}


class Discovery:
    """Finds files."""

    def __init__(self, config: Mapping[str, Any], clock: Callable[[], float] = time.time) -> None:
        self._paths: list[str] = config[keys.INPUT_PATH]
        self._pattern = re.compile(config[keys.FILE_PATTERN])
        self._is_recursive: bool = config[keys.RECURSIVE]
        self._minimum_age_s: float = config[keys.MINIMUM_AGE] / 1000
        self._clock = clock
        self._task: int = config[keys.TASK_INDEX]
        self._tasks: int = config[keys.TASK_COUNT]
        sort: str = config[keys.SORT]
        self._is_descending = sort.endswith("Desc")
        self._sort = _SORTS[sort.removesuffix("Desc").removesuffix("Asc")]
        excluded = (config[keys.FINISHED_PATH], config[keys.ERROR_PATH])
        self._excluded = [os.path.join(os.path.abspath(each), "") for each in excluded if each]

    def files(self) -> list[FoundFile]:
        """Return the files of all tasks, in order; OSError means that a file system cannot be read now."""
        found: dict[str, FoundFile] = {}
        for path in self._candidates():
            name = os.path.basename(path)
            if name.startswith(".") or self._pattern.fullmatch(name) is None or path in found:
                continue
            if any(path.startswith(each) for each in self._excluded):
                continue
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                found[path] = FoundFile(path, status)
        return sorted(self._without_links(found), key=self._sort, reverse=self._is_descending)

    def _without_links(self, found: Mapping[str, FoundFile]) -> list[FoundFile]:
        """Leave out symbolic links to files that are found under another name too."""
        links = {path for path in found if os.path.islink(path)}
        files = [each for path, each in found.items() if path not in links]
        targets = {(each.status.st_dev, each.status.st_ino) for each in files}
        for path in sorted(links):
            target = found[path].status.st_dev, found[path].status.st_ino
            if target not in targets:
                targets.add(target)
                files.append(found[path])
        return files

    def is_old_enough(self, found: FoundFile) -> bool:
        """Whether a file was not modified for the configured time."""
        return self._clock() - found.status.st_mtime >= self._minimum_age_s

    def is_mine(self, path: str) -> bool:
        """Whether a file belongs to this task: its path decides, so that all tasks agree."""
        return zlib.crc32(path.encode(errors="surrogateescape")) % self._tasks == self._task

    def _candidates(self) -> Iterator[str]:
        for each in self._paths:
            path = os.path.abspath(each)
            if os.path.isdir(path):
                yield from self._in_directory(path)
            elif os.path.exists(path):
                yield path
            else:
                for matching in glob.iglob(path, recursive=True):
                    if os.path.isdir(matching):
                        yield from self._in_directory(matching)
                    else:
                        yield matching

    def _in_directory(self, directory: str) -> Iterator[str]:
        if not self._is_recursive:
            yield from (str(each) for each in Path(directory).iterdir())
            return
        for parent, _, names in os.walk(directory):
            yield from (os.path.join(parent, name) for name in names)
