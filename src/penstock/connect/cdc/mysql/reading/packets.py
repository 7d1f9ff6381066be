"""Reads the packets of MySQL's protocol from a socket, and tells whether another one is already there.

PyMySQL reads packets too, but hides what it has buffered. Without that, a batch would end after each event.
"""

from __future__ import annotations

import select
import socket
import ssl
from typing import Final

import pymysql

_CHUNK: Final = 1 << 18
_MAX_PACKET: Final = 0xFFFFFF
"""Size of a packet that another one continues."""
_LOST: Final = 2013
"""The client's error for a lost connection."""


class PacketReader:
    """The packets that a server sends after a command."""

    def __init__(self, connected: socket.socket, timeout_s: float) -> None:
        """Read from a socket; a server that is silent for longer than the timeout counts as gone."""
        connected.settimeout(timeout_s)
        self._socket = connected
        self._buffer = bytearray()
        self._at = 0

    def has_more(self) -> bool:
        """Whether more is here, at least in part."""
        if self._at < len(self._buffer):
            return True
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        poll = select.poll()  # select() fails if the process has more than 1023 files open
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def read(self) -> bytes:
        """Read one packet's content. Raises OperationalError if the server sends an error or is gone."""
        content = self._part()
        if len(content) == _MAX_PACKET:
            parts = [content]
            while len(parts[-1]) == _MAX_PACKET:
                parts.append(self._part())
            content = b"".join(parts)
        if content[:1] == b"\xff":
            text = content[9:] if content[3:4] == b"#" else content[3:]
            raise pymysql.err.OperationalError(
                int.from_bytes(content[1:3], "little"), text.decode("utf-8", "replace")
            )
        return content

    def _part(self) -> bytes:
        self._fill(4)
        size = int.from_bytes(self._buffer[self._at : self._at + 3], "little")
        self._fill(4 + size)
        start = self._at + 4
        self._at = start + size
        return bytes(memoryview(self._buffer)[start : self._at])

    def _fill(self, needed: int) -> None:
        """Read until so many bytes are there."""
        while len(self._buffer) - self._at < needed:
            if self._at:
                del self._buffer[: self._at]
                self._at = 0
            try:
                data = self._socket.recv(_CHUNK)
            except OSError as error:
                raise pymysql.err.OperationalError(_LOST, f"the connection broke: {error}") from error
            if not data:
                raise pymysql.err.OperationalError(_LOST, "the server closed the connection")
            self._buffer += data
