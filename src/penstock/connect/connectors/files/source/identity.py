"""Tells whether the file at a path is the one whose position is stored.

A file has its inode and a fingerprint of its first bytes, as in log shippers: a renamed file keeps both, a
copied one keeps the fingerprint, and a new one at the same path or with a reused inode has another
fingerprint.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final

from penstock.connect.connectors.formats.items import Stream
from penstock.connect.data.records import Offset

FINGERPRINT_BYTES: Final = 1024
"""The most bytes of a fingerprint; a file that has fewer is known by all of them."""
POSITION: Final = "position"
INODE: Final = "inode"
FINGERPRINT: Final = "fingerprint"
DONE: Final = "done"
SIZE: Final = "size"
MODIFIED: Final = "modified_ns"
END: Final = "end"


def fingerprint(head: bytes) -> str:
    """Return the fingerprint of a file's first bytes, with their number."""
    return f"{len(head)}:{hashlib.blake2b(head, digest_size=12).hexdigest()}"


def has_fingerprint(stream: Stream, expected: object) -> bool:
    """Whether the first bytes of a file have a stored fingerprint; the stream is moved."""
    text = str(expected)
    count = text.partition(":")[0]
    if not count.isdigit():
        return False
    stream.seek(0)
    return fingerprint(stream.read(min(int(count), FINGERPRINT_BYTES))) == text


def is_unchanged(status: os.stat_result, stored: Offset) -> bool:
    """Whether a file has the size and the time of its last change that are stored."""
    return (stored.get(SIZE), stored.get(MODIFIED)) == (status.st_size, status.st_mtime_ns)


class CompleteFile:
    """The identity of a file that does not change while it is read."""

    def __init__(self, stream: Stream) -> None:
        self.status = os.fstat(stream.fileno())
        self.stream = stream
        self._fingerprint = fingerprint(stream.read(FINGERPRINT_BYTES))
        stream.seek(0)

    def offset(self, position: int, is_done: bool) -> Offset:
        """Make the offset behind a position."""
        offset = {
            POSITION: position,
            INODE: self.status.st_ino,
            SIZE: self.status.st_size,
            MODIFIED: self.status.st_mtime_ns,
            FINGERPRINT: self._fingerprint,
        }
        if is_done:
            offset |= {DONE: True, END: self._end(self.status.st_size)}
        return offset

    def start(self, stored: Offset | None, *, may_grow: bool) -> int | None:
        """Return the position where to begin; None if the file was read to its end.

        A file that was read is new if it was changed, unless lines were only added to it.
        """
        if stored is None or not has_fingerprint(self.stream, stored.get(FINGERPRINT)):
            return 0
        position = stored.get(POSITION)
        if type(position) is not int:
            return 0
        is_same = is_unchanged(self.status, stored)
        if stored.get(DONE):
            if is_same:
                return None
            return self._behind_line(position) if may_grow and self._is_longer(stored) else 0
        return position if is_same or stored.get(INODE) == self.status.st_ino else 0

    def _behind_line(self, position: int) -> int:
        """Return the position behind the end of a line that was read before its end was written."""
        around = os.pread(self.stream.fileno(), 3, max(0, position - 1))
        if position and not around.startswith(b"\n"):
            for end in (b"\n", b"\r\n"):
                if around[1:].startswith(end):
                    return position + len(end)
        return position

    def _is_longer(self, stored: Offset) -> bool:
        size = stored.get(SIZE)
        if type(size) is not int or size >= self.status.st_size:
            return False
        return stored.get(INODE) == self.status.st_ino and self._end(size) == stored.get(END)

    def _end(self, size: int) -> str:
        """Return the fingerprint of the last bytes of a file of this size."""
        count = min(size, FINGERPRINT_BYTES)
        return fingerprint(os.pread(self.stream.fileno(), count, size - count))
