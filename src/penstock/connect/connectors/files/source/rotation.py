"""The names of rotated files: `app.log.1`, `app.log-20260101.gz`, `app.2026-01-01.log`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

_COMPRESSED: Final = r"(?:\.(?:gz|bz2|zst))?"
_BEHIND: Final = re.compile(rf"(.+?)[.\-_](?:\d.*?|old|bak){_COMPRESSED}")
_BETWEEN: Final = re.compile(rf"(.+?)[.\-_]\d[^/]*?(\.[A-Za-z]\w*?){_COMPRESSED}")


def logs_of(path: str) -> set[str]:
    """Return the paths of logs of which a file may be a rotated one."""
    directory, name = os.path.split(path)
    found = {match[1] for match in [_BEHIND.fullmatch(name)] if match is not None}
    found |= {match[1] + match[2] for match in [_BETWEEN.fullmatch(name)] if match is not None}
    return {os.path.join(directory, each) for each in found}


class RotatedFile(NamedTuple):
    """A rotated file; the path may soon be that of another one, but the inode stays."""

    path: str
    inode: int
    modified_ns: int


def rotated_files(log: str) -> list[RotatedFile]:
    """Return the rotated files of a log that are there, the oldest first."""
    found: list[tuple[int, list[int], RotatedFile]] = []
    for each in Path(log).parent.iterdir():
        path = str(each)
        if path == log or log not in logs_of(path):
            continue
        if path.endswith((".gz", ".bz2", ".zst")) and os.path.exists(os.path.splitext(path)[0]):
            continue  # it is being compressed
        try:
            status = each.stat()
        except FileNotFoundError:
            continue
        numbers = [-int(number) for number in re.findall(r"\d+", each.name)]
        found.append((status.st_mtime_ns, numbers, RotatedFile(path, status.st_ino, status.st_mtime_ns)))
    return [file for _, _, file in sorted(found)]
