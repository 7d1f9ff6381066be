"""Follows a log that grows, through its rotations.

A log is a path. When the file there is renamed and a new one is created, the rest of the old one is read
first. When it is copied and truncated, the rest is read from the copy. The offset has the file's inode and
the fingerprint of its first bytes, so that a task that starts again finds the file by any name, and then
reads all that came later.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from penstock.connect.connectors.files.source.identity import (
    FINGERPRINT,
    FINGERPRINT_BYTES,
    INODE,
    MODIFIED,
    POSITION,
    fingerprint,
    has_fingerprint,
)
from penstock.connect.connectors.files.source.rotation import RotatedFile, rotated_files
from penstock.connect.connectors.formats.compression import DAMAGED, decompressed
from penstock.connect.connectors.formats.items import Item, RecordReader, Stream
from penstock.connect.connectors.formats.opening import open_records
from penstock.connect.connectors.formats.settings import FormatSettings
from penstock.connect.data.records import Offset
from penstock.connect.errors import DataError

log = logging.getLogger(__name__)


class LogItem(NamedTuple):
    """An item of a log, and the offset behind it."""

    item: Item
    offset: Offset


class _ReadFile(NamedTuple):
    """A file that was read, by which newer ones are told from older ones."""

    inode: int
    position: int
    fingerprint: str
    modified_ns: int


@dataclass(slots=True)
class _OpenFile:
    """The file of a log that is read now."""

    path: str
    stream: Stream
    reader: RecordReader
    position: int
    is_final: bool
    """Whether it was rotated, so that it does not grow any more."""
    inode: int
    head: bytes = b""
    """The first bytes of those that were read."""
    modified_ns: int = 0
    """When it was modified last before it was read."""
    renamed_s: float | None = None
    """When another file was first seen at its path, or new data after that."""


_SKIPPED_MAX: Final = 64
"""Limit on files that are skipped in one call because nothing is left in them."""


class GrowingFile:
    """One log. `next` returns its records; errors of the file system leave the position as it is."""

    def __init__(
        self,
        path: str,
        stored: Offset | None,
        settings: FormatSettings,
        *,
        rotation_wait_s: float,
        earlier: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`earlier` are rotated files to read before the log, if no position is stored."""
        self.path = path
        self._settings = settings
        self._rotation_wait_s = rotation_wait_s
        self._clock = clock
        self._current: _OpenFile | None = None
        self._previous: _ReadFile | None = None
        """The file that was read before: the next one is the oldest that is newer."""
        self._stored = stored
        """The offset where to go on, once the file system can be read."""
        self._earlier = earlier

    def next(self, limit: int) -> list[LogItem]:
        """Return the next records, at most `limit`.

        Raises:
            OSError: a file cannot be read now.
        """
        for _ in range(_SKIPPED_MAX):
            current = self._current or self._open_next()
            if current is None:
                return []
            try:
                items = self._read(current, limit)
            except OSError:
                self.close()
                self._stored = _offset_of(current)
                raise
            if items:
                return items
            if self._current is current and not self._is_finished(current):
                return []
        return []

    def close(self) -> None:
        """Close the file that is open."""
        if self._current is not None:
            self._current.stream.close()
        self._current = None

    def _finish(self, current: _OpenFile) -> None:
        """Close a file of which all is read."""
        modified_ns = os.fstat(current.stream.fileno()).st_mtime_ns
        head = current.head[: current.position]
        self._previous = _ReadFile(current.inode, current.position, fingerprint(head), modified_ns)
        self.close()

    def _has_missed(self, current: _OpenFile) -> bool:
        """Whether the log was copied and truncated between its opening and its first bytes."""
        if self._previous is None:
            return False
        newer = takewhile(lambda each: each.inode != current.inode, self._files_after(self._previous))
        return next(newer, None) is not None

    def _read(self, current: _OpenFile, limit: int) -> list[LogItem]:
        try:
            items = current.reader.read(limit, is_complete=current.is_final)
        except DataError as error:
            items = [Item(current.position, None, None, error)]
            current.reader = _Damaged(None)  # nothing more can be read of this file
        if not current.is_final:
            is_first = not current.head
            if not self._is_same(current):
                self._follow_truncation(current)
                return []
            if is_first and self._has_missed(current):
                self.close()  # what was missed comes first
                return []
        found = []
        for item in items:
            current.position = item.position
            found.append(LogItem(item, _offset_of(current)))
        if items:
            current.renamed_s = None
        return found

    def _is_same(self, current: _OpenFile) -> bool:
        """Whether the open file still has the bytes that were read, as far as its first bytes tell."""
        descriptor, read = current.stream.fileno(), current.stream.tell()
        head = os.pread(descriptor, min(read, FINGERPRINT_BYTES), 0)
        status = os.fstat(descriptor)
        if status.st_size < read or not head.startswith(current.head):
            return False
        current.head, current.modified_ns = head, status.st_mtime_ns
        return True

    def _is_finished(self, current: _OpenFile) -> bool:
        """Whether all of the open file is read and it will not grow; then the next file is due."""
        if current.is_final:
            self._finish(current)
            return True
        try:
            inode_now = os.stat(self.path).st_ino
        except FileNotFoundError:
            if os.fstat(current.stream.fileno()).st_nlink:
                return False  # renamed, and the new file is not there yet
            inode_now = -1  # removed: an open file would keep its space on the disk
        if inode_now == current.inode:
            return False
        now = self._clock()
        if current.renamed_s is None:
            current.renamed_s = now
        if now - current.renamed_s < self._rotation_wait_s:
            return False
        current.is_final = True  # its last line may have no end, so it is read once more
        return True

    def _files_after(self, previous: _ReadFile) -> list[RotatedFile]:
        """Return the rotated files that are newer than one that was read, the oldest first."""
        files = rotated_files(self.path)
        if previous.position:  # not by the inode alone: it may have been compressed, and the inode reused
            held = [each for each in files if _holds(each.path, previous.fingerprint, previous.position)]
        else:
            held = [each for each in files if each.inode == previous.inode]
        if held:
            found = next((each for each in held if each.inode == previous.inode), held[0])
            return files[files.index(found) + 1 :]
        return [each for each in files if each.modified_ns > previous.modified_ns]

    def _follow_truncation(self, current: _OpenFile) -> None:
        """Go on in the copy that was made before the log was truncated."""
        self.close()
        expected, position = fingerprint(current.head), current.position
        for each in rotated_files(self.path):
            if each.inode != current.inode and _holds(each.path, expected, position):
                self._stored = {POSITION: position, INODE: each.inode, FINGERPRINT: expected}
                return
        self._previous = self._newest()
        log.warning(
            "a log was truncated and no copy was found, lines may be lost file=%s position=%d",
            *(self.path, current.position),
        )

    def _open_next(self) -> _OpenFile | None:
        """Open the file that comes next, unless there is none or its name has just become another's."""
        if self._stored is not None:
            self._resume(self._stored)
            if self._current is not None or self._stored is not None:
                return self._current
        newer: list[RotatedFile] = []
        if self._previous is not None:
            newer = self._files_after(self._previous)
        else:
            newer = [each for each in rotated_files(self.path) if each.path in self._earlier]
        if newer:
            return self._open(newer[0].path, 0, inode=newer[0].inode)
        if self._previous is None:
            self._previous = self._newest()
        opened = self._open(self.path, 0)
        if opened is not None and self._has_missed(opened):
            self.close()  # it was rotated between the two steps
        return self._current

    def _newest(self) -> _ReadFile:
        """Return the newest rotated file as one that was read, or one that is older than all."""
        files = rotated_files(self.path)
        if not files:
            return _ReadFile(-1, 0, "", -1)
        return _ReadFile(files[-1].inode, 0, "", files[-1].modified_ns)

    def _resume(self, stored: Offset) -> None:
        """Open the file of a stored offset, which has the inode, or is a copy.

        The stored offset stays if the file's name has just become another's, and is forgotten otherwise.
        """
        position, expected = stored.get(POSITION), stored.get(FINGERPRINT)
        if type(position) is not int or position < 0:
            position, expected = 0, None
        modified_ns = stored.get(MODIFIED)
        files = rotated_files(self.path)
        with suppress(FileNotFoundError):
            status = os.stat(self.path)
            files.append(RotatedFile(self.path, status.st_ino, status.st_mtime_ns))
        found = [each for each in files if _holds(each.path, expected, position)]
        if type(modified_ns) is int:  # older files may begin with the same lines
            found.sort(key=lambda each: each.modified_ns < modified_ns)
        found.sort(key=lambda each: each.inode != stored.get(INODE))
        if found:
            if self._open(found[0].path, position, inode=found[0].inode) is not None:
                self._stored = None
            return
        self._stored = None
        self._previous = self._newest()
        if type(modified_ns) is int:  # what is newer than the file that is gone was not read
            self._previous = _ReadFile(-1, 0, "", modified_ns)
        log.warning(
            "the file of the stored position is gone, lines may be lost file=%s offset=%s", self.path, stored
        )

    def _open(self, path: str, position: int, *, inode: int | None = None) -> _OpenFile | None:
        """Open a file; None if it is gone, or does not have the inode. The log itself may still grow."""
        try:
            stream: Stream = Path(path).open("rb")  # noqa: SIM115  # close() closes it
        except FileNotFoundError:
            return None
        found = os.fstat(stream.fileno()).st_ino
        if inode not in (None, found):
            stream.close()
            return None
        reader: RecordReader
        head = b""
        try:
            if path != self.path or position:
                head = decompressed(stream).read(FINGERPRINT_BYTES)
                stream.seek(0)
            reader = open_records(stream, self.path, position, self._settings)
        except (DataError, *DAMAGED) as error:
            reader = _Damaged(DataError(f"the file {path} cannot be read: {error}"))
        modified_ns = os.fstat(stream.fileno()).st_mtime_ns
        self._current = _OpenFile(path, stream, reader, position, path != self.path, found, head, modified_ns)
        return self._current


def _offset_of(current: _OpenFile) -> Offset:
    return {
        POSITION: current.position,
        INODE: current.inode,
        FINGERPRINT: fingerprint(current.head[: current.position]),
        MODIFIED: current.modified_ns,
    }


class _Damaged:
    """The reader of a file that cannot be opened in its format: it raises one error, or has no records."""

    def __init__(self, error: DataError | None) -> None:
        self._error = error

    def read(self, limit: int, *, is_complete: bool) -> list[Item]:
        if self._error is None:
            return []
        raise self._error


def _holds(path: str, expected: object, position: int) -> bool:
    """Whether a file begins with the bytes of a fingerprint, and has all bytes before a position."""
    try:
        with Path(path).open("rb") as stream:
            content = decompressed(stream)
            if not has_fingerprint(content, expected):
                return False
            if content is stream:
                return os.fstat(stream.fileno()).st_size >= position
            return content.seek(position) == position
    except (FileNotFoundError, *DAMAGED):
        return False
