"""The unsent data of a connection: bytes and slices of segment files, in order.

Bytes are sent by `send`, with `MSG_MORE` if a slice follows. Slices are sent by `sendfile` from the page
cache, or from memory if they were already read. A small slice is read and joined to its neighbours instead:
one system call for all of them is cheaper than one for each. Data that the socket does not accept stays in
the outbox. The kernel may evict a waiting slice from memory, so `flush` checks such a slice again before it
sends it: the event loop must not wait for the disk.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

JOINED_BYTES_MAX = 256 * 1024
READ_BYTES_MAX = 8 * 1024
"""The largest slice that is read and joined to its neighbours."""


class FileRange(Protocol):
    """A range of bytes in an open file, as the log returns it; usable as long as it is referenced."""

    position: int
    data: memoryview | None
    """The bytes of the range if they were already read, else None."""

    @property
    def fd(self) -> int: ...

    def __len__(self) -> int: ...

    def is_ready(self, now_s: float) -> bool:
        """Whether the bytes are in memory and valid; if not, a worker must read them first."""
        ...


Part = bytes | FileRange


class FileTooShort(OSError):
    """A slice ended before its promised size, so the frame on the wire can't be completed."""


class NotReady(Exception):
    """A slice was evicted from memory while it waited for the socket: read `part` again, then `resume`."""

    def __init__(self, part: FileRange) -> None:
        self.part = part


class Channel(Protocol):
    """The socket, or one that encrypts."""

    def fileno(self) -> int: ...

    def send(self, data: bytes | memoryview, flags: int, /) -> int: ...


class Outbox:
    """The unsent parts of one connection."""

    __slots__ = (
        *("_fd", "_file_ranges", "_has_waited", "_parts", "_sendfile", "_sent_of_first", "_socket"),
        "unsent_bytes",
    )

    def __init__(self, sock: Channel, sendfile: Callable[[int, int, int, int], int] = os.sendfile) -> None:
        self._socket = sock
        self._sendfile = sendfile
        self._fd = sock.fileno()
        self._parts: deque[Part] = deque()
        self._file_ranges = 0
        self._sent_of_first = 0
        self._has_waited = False
        self.unsent_bytes = 0

    def put(self, part: Part) -> None:
        """Add a part. Raises OSError if a small slice can't be read."""
        if isinstance(part, bytes):
            self.put_bytes(part)
            return
        size_bytes = len(part)
        if size_bytes > READ_BYTES_MAX or part.data is not None:
            self._parts.append(part)
            self._file_ranges += 1
            self.unsent_bytes += size_bytes
            return
        data = os.pread(part.fd, size_bytes, part.position)
        if len(data) < size_bytes:
            raise FileTooShort(f"{size_bytes} bytes promised, {len(data)} found")
        self.put_bytes(data)

    def put_bytes(self, part: bytes) -> None:
        self._parts.append(part)
        self.unsent_bytes += len(part)

    def flush(self, now_s: float) -> bool:
        """Send as much as the socket accepts; return whether everything is sent.

        Raises OSError if the peer is gone, and NotReady if a slice must be read again.
        """
        parts = self._parts
        try:
            while parts:
                first = parts[0]
                if isinstance(first, bytes):
                    self._send_bytes()
                elif self._has_waited and not first.is_ready(now_s):
                    raise NotReady(first)
                else:
                    self._send_range(first)
        except BlockingIOError:
            self._has_waited = True
            return False
        self._has_waited = False
        return True

    def resume(self) -> None:
        """Allow `flush` to continue, once the slice that NotReady named is in memory again."""
        self._has_waited = False

    def clear(self) -> None:
        self._parts.clear()
        self.unsent_bytes = self._file_ranges = 0

    def _send_bytes(self) -> None:
        data = self._join_bytes()
        offset = self._sent_of_first
        sent = 0
        try:
            sent = self._socket.send(
                memoryview(data)[offset:] if offset else data, socket.MSG_MORE if self._parts else 0
            )
        finally:
            if offset + sent < len(data):
                self._parts.appendleft(data)
                self._sent_of_first = offset + sent
            else:
                self._sent_of_first = 0
            self.unsent_bytes -= sent

    def _join_bytes(self) -> bytes:
        """Remove the byte strings at the head and join them: one system call for many small responses."""
        parts = self._parts
        if not self._file_ranges and self.unsent_bytes <= JOINED_BYTES_MAX:
            data = b"".join(cast("deque[bytes]", parts))
            parts.clear()
            return data
        run: list[bytes] = []
        size_bytes = 0
        while parts and isinstance(part := parts[0], bytes) and size_bytes < JOINED_BYTES_MAX:
            size_bytes += len(part)
            run.append(part)
            parts.popleft()
        return run[0] if len(run) == 1 else b"".join(run)

    def _send_range(self, part: FileRange) -> None:
        offset = self._sent_of_first
        left = len(part) - offset
        if part.data is not None:
            sent = self._socket.send(part.data[offset:], socket.MSG_MORE if len(self._parts) > 1 else 0)
        else:
            sent = self._sendfile(self._fd, part.fd, part.position + offset, left)
        if sent == 0:
            raise FileTooShort(f"{left} bytes missing from position {part.position + offset}")
        self.unsent_bytes -= sent
        if sent < left:
            self._sent_of_first = offset + sent
        else:
            self._sent_of_first = 0
            self._file_ranges -= 1
            self._parts.popleft()
