"""A connected socket whose bytes are encrypted, with the methods of a socket that connections use.

OpenSSL reads from one buffer in memory and writes to another, and this class moves bytes between them and the
socket. So a slice of a file goes out with one read of the page cache, one encryption and one `send` for each
`PIECE_BYTES`.

After a BlockingIOError the bytes of a call are encrypted already; the repeated call sends them and returns
their number.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from penstock.broker.tls.secured_socket import SecuredSocket

PIECE_BYTES: Final = 256 * 1024
"""The most bytes that are encrypted, or received, at a time."""


class _Room(threading.local):
    """Memory that no call keeps, for each thread that runs an event loop."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(PIECE_BYTES))


room: Final = _Room()


class TlsSocket(SecuredSocket):
    """A non-blocking socket after its handshake. ``tls`` reads ``incoming`` and writes to ``outgoing``."""

    __slots__ = ("_incoming", "_is_at_end", "_outgoing", "_socket", "_taken_bytes", "_tls", "_unsent")

    def __init__(
        self, sock: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        self._socket = sock
        self._tls = tls
        self._incoming = incoming
        self._outgoing = outgoing
        self._unsent = memoryview(b"")
        """Encrypted bytes that the kernel has not accepted yet."""
        self._taken_bytes = 0
        """The number of plain bytes that a repeated call to send returns once `_unsent` is sent."""
        self._is_at_end = False
        self.has_more = incoming.pending > 0

    @property
    def certificate(self) -> bytes | None:
        return self._tls.getpeercert(binary_form=True)

    def fileno(self) -> int:
        return self._socket.fileno()

    def recv_into(self, buffer: memoryview) -> int:
        received = self._decrypt_into(buffer) if self.has_more else 0
        while not received and not self._is_at_end:
            self._receive()
            received = self._decrypt_into(buffer)
        if self._outgoing.pending and not self._taken_bytes:
            self._answer()
        return received

    def _receive(self) -> None:
        view = room.view
        count = self._socket.recv_into(view)
        if count:
            self._incoming.write(view[:count])
        else:
            self._incoming.write_eof()

    def _decrypt_into(self, buffer: memoryview) -> int:
        received, wanted = 0, len(buffer)
        try:
            while received < wanted:
                count = self._tls.read(wanted - received, buffer[received:])
                if not count:
                    self._is_at_end = True
                    break
                received += int(count)
                if not self._incoming.pending and not self._tls.pending():
                    self.has_more = False  # without asking again, which would raise SSLWantReadError
                    return received
            self.has_more = True
        except ssl.SSLWantReadError:
            self.has_more = False
        except ssl.SSLEOFError:  # without close_notify; a frame that is cut off is noticed by its size
            self.has_more = self._is_at_end = True
        return received

    def _answer(self) -> None:
        """Send what OpenSSL has to say by itself, such as its answer to a new key."""
        try:
            self._send_encrypted(0)
        except BlockingIOError:
            return  # the next call to send goes on with it

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        if not self._taken_bytes:
            piece = memoryview(data)[:PIECE_BYTES]
            self._encrypt(piece)
            if flags & socket.MSG_MORE and len(piece) == len(data):
                return len(piece)
            self._taken_bytes = len(piece)
        return self._send_encrypted(flags)

    def sendfile(self, out_fd: int, file: int, position: int, count: int) -> int:
        if not self._taken_bytes:
            piece = room.view[: min(count, PIECE_BYTES)]
            read_bytes = os.preadv(file, (piece,), position)
            if not read_bytes:
                return 0
            self._encrypt(piece[:read_bytes])
            self._taken_bytes = read_bytes
        return self._send_encrypted(0)

    def sendmsg(self, pieces: Iterable[bytes | bytearray | memoryview]) -> int:
        joined = b"" if self._taken_bytes else b"".join(pieces)
        return self.send(joined)

    def _encrypt(self, piece: memoryview) -> None:
        while piece:
            piece = piece[self._tls.write(piece) :]

    def _send_encrypted(self, flags: int) -> int:
        """Send all encrypted bytes and return how many plain ones they are. Raises OSError."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            self._unsent = self._unsent[self._socket.send(self._unsent, flags) :]
        taken_bytes, self._taken_bytes = self._taken_bytes, 0
        return taken_bytes

    def close(self) -> None:
        if not self._unsent:
            with suppress(OSError):
                self._tls.unwrap()
            with suppress(OSError):
                self._send_encrypted(0)
        self._socket.close()
