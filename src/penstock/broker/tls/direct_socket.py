"""Sockets with TLS that OpenSSL reads and writes itself, and for which the kernel may encrypt.

If OpenSSL has given the kernel the keys for sending (kernel TLS), plain bytes that are written to the socket
arrive encrypted. So slices of files go from the page cache to the other side with `sendfile`, and never into
this process. OpenSSL still decrypts what arrives, unless it has given the kernel those keys, too.

The limit of this is KeyUpdate of TLS 1.3, by which a client changes its own key and may ask the server for a
new one. OpenSSL answers before it writes next, or with the next KeyUpdate, and the kernel goes on with the
first key. So one such request is survived, because OpenSSL writes nothing. After another KeyUpdate the client
cannot decrypt what the kernel sends: it ends the connection, and opens a new one. Java's clients ask after
each 128 GiB (`jdk.tls.keyLimits`), librdkafka never does.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress

from penstock.broker.tls.kernel_support import is_offloaded
from penstock.broker.tls.secured_socket import SecuredSocket
from penstock.broker.tls.tls_socket import PIECE_BYTES, room


class DirectTlsSocket(SecuredSocket):
    """A socket whose bytes OpenSSL encrypts in this process."""

    __slots__ = ("_tls",)

    def __init__(self, tls: ssl.SSLSocket) -> None:
        self._tls = tls
        self.has_more = tls.pending() > 0

    @property
    def certificate(self) -> bytes | None:
        return self._tls.getpeercert(binary_form=True)

    def fileno(self) -> int:
        return self._tls.fileno()

    def recv_into(self, buffer: memoryview) -> int:
        received, wanted = 0, len(buffer)
        self.has_more = False
        try:
            while received < wanted:  # OpenSSL returns one TLS record at a time
                count = self._tls.recv_into(buffer[received:])
                if not count:
                    self.has_more = True  # the end, which the selector does not report after close_notify
                    return received
                received += count
        except ssl.SSLWantReadError:
            if not received:
                raise BlockingIOError from None
            return received
        except OSError:  # SSLWantWriteError, too: OpenSSL answers a KeyUpdate of a client that does not read
            if not received:
                raise
            self.has_more = True  # the next call reports the loss
            return received
        self.has_more = self._tls.pending() > 0
        return received

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        try:
            return self._tls.send(memoryview(data)[:PIECE_BYTES])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def sendfile(self, out_fd: int, file: int, position: int, count: int) -> int:
        piece = room.view[: min(count, PIECE_BYTES)]
        read_bytes = os.preadv(file, (piece,), position)
        return self.send(piece[:read_bytes]) if read_bytes else 0

    def sendmsg(self, pieces: Iterable[bytes | bytearray | memoryview]) -> int:
        return self.send(b"".join(pieces))

    def close(self) -> None:
        with suppress(OSError, ValueError):  # ValueError: it is closed already
            self._tls.unwrap()
        self._tls.close()


class KernelTlsSocket(DirectTlsSocket):
    """A socket whose bytes the kernel encrypts: they are sent around OpenSSL."""

    __slots__ = ()

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        try:
            return socket.socket.send(self._tls, data, flags)
        except BlockingIOError:
            self._push()
            raise

    def sendfile(self, out_fd: int, file: int, position: int, count: int) -> int:
        try:
            return os.sendfile(out_fd, file, position, count)
        except BlockingIOError:
            self._push()
            raise

    def sendmsg(self, pieces: Iterable[bytes | bytearray | memoryview]) -> int:
        try:
            return socket.socket.sendmsg(self._tls, pieces)
        except BlockingIOError:
            self._push()
            raise

    def _push(self) -> None:
        """Have TCP send what it holds back.

        The kernel writes each TLS record of a slice as if more followed. If the buffer is full before that
        makes a whole segment, nothing would be sent, and the socket would never become writable.
        """
        self._tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def secured(tls: ssl.SSLSocket) -> DirectTlsSocket:
    """Return the socket of a completed handshake, by whether the kernel has its keys for sending."""
    return KernelTlsSocket(tls) if is_offloaded(tls) else DirectTlsSocket(tls)
