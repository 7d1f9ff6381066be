"""The TLS handshake of a connection, on the side of the server or of the client."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Final

from penstock.broker.tls.direct_socket import DirectTlsSocket, secured
from penstock.broker.tls.kernel_support import OP_ENABLE_KTLS
from penstock.broker.tls.secured_socket import SecuredSocket
from penstock.broker.tls.tls_socket import TlsSocket

_RECEIVED_BYTES_MAX: Final = 64 * 1024


class HandshakeFailed(OSError):
    """The two sides did not agree; the message has OpenSSL's reason."""


class NothingReceived(ConnectionResetError):
    """The other side closed the connection and had sent nothing, as probes of a port do."""


async def shake_hands(
    sock: socket.socket,
    context: ssl.SSLContext,
    worker: Executor | None = None,
    *,
    server_hostname: str | None = None,
) -> SecuredSocket:
    """Complete the handshake of a non-blocking socket.

    With ``server_hostname`` it is a client's, which checks that name if ``context`` says so. The computation
    of a step takes a millisecond and more; a ``worker`` does it beside the event loop. If ``context`` has
    OP_ENABLE_KTLS, the kernel encrypts the connection where it can.

    Raises HandshakeFailed, NothingReceived, and OSError if the connection is lost. The caller closes the
    socket then.
    """
    if context.options & OP_ENABLE_KTLS:
        return await _shake_hands_directly(sock, context, worker, server_hostname)
    return await _shake_hands_in_memory(sock, context, worker, server_hostname)


async def _shake_hands_in_memory(
    sock: socket.socket, context: ssl.SSLContext, worker: Executor | None, server_hostname: str | None
) -> TlsSocket:
    """Complete a handshake whose bytes this process moves between OpenSSL and the socket."""
    loop = asyncio.get_running_loop()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    is_server = server_hostname is None
    tls = context.wrap_bio(incoming, outgoing, server_side=is_server, server_hostname=server_hostname)
    if is_server:
        first = await loop.sock_recv(sock, _RECEIVED_BYTES_MAX)
        if not first:
            raise NothingReceived("closed before the TLS handshake")
        incoming.write(first)
    while True:
        try:
            if worker is None:
                tls.do_handshake()
            else:
                await loop.run_in_executor(worker, tls.do_handshake)
        except ssl.SSLWantReadError:
            await _send(loop, sock, outgoing)
        except ssl.SSLError as error:
            with suppress(OSError):
                await _send(loop, sock, outgoing)  # the alert, which tells the other side why
            raise HandshakeFailed(_reason(error)) from None
        else:
            await _send(loop, sock, outgoing)
            return TlsSocket(sock, tls, incoming, outgoing)
        received = await loop.sock_recv(sock, _RECEIVED_BYTES_MAX)
        if not received:
            raise ConnectionResetError("closed during the TLS handshake")
        incoming.write(received)


async def _send(loop: asyncio.AbstractEventLoop, sock: socket.socket, outgoing: ssl.MemoryBIO) -> None:
    if outgoing.pending:
        await loop.sock_sendall(sock, outgoing.read())


async def _shake_hands_directly(
    sock: socket.socket, context: ssl.SSLContext, worker: Executor | None, server_hostname: str | None
) -> DirectTlsSocket:
    """Complete a handshake for which OpenSSL reads and writes the socket, as kernel TLS needs it.

    Python moves the descriptor to another socket at once, so this function closes that one if it fails.
    """
    is_server = server_hostname is None
    tls = context.wrap_socket(
        sock, server_side=is_server, do_handshake_on_connect=False, server_hostname=server_hostname
    )
    handshake = _DirectHandshake(tls, worker)
    try:
        await handshake.complete(waits_for_bytes=is_server)
        return secured(tls)
    except BaseException:
        handshake.close()
        raise


class _DirectHandshake:
    """A handshake in progress of a socket that OpenSSL reads and writes."""

    def __init__(self, tls: ssl.SSLSocket, worker: Executor | None) -> None:
        self._tls = tls
        self._worker = worker
        self._step: Future[None] | None = None
        """The last step of the worker, which may outlive the task that has submitted it."""
        self._loop = asyncio.get_running_loop()

    async def complete(self, *, waits_for_bytes: bool) -> None:
        """Take all steps, the first one after bytes have arrived or before. Raises OSError."""
        has_received = False
        while True:
            if waits_for_bytes:
                await self._ready(self._loop.add_reader, self._loop.remove_reader)
                if not has_received and not socket.socket.recv(self._tls, 1, socket.MSG_PEEK):
                    raise NothingReceived("closed before the TLS handshake")
                has_received = True
            try:
                await self._take_step()
            except ssl.SSLWantReadError:
                waits_for_bytes = True
            except ssl.SSLWantWriteError:
                waits_for_bytes = False
                await self._ready(self._loop.add_writer, self._loop.remove_writer)
            except ssl.SSLEOFError:
                raise ConnectionResetError("closed during the TLS handshake") from None
            except ssl.SSLError as error:
                with suppress(OSError):  # unread bytes would make `close` a reset, which overtakes the alert
                    socket.socket.recv(self._tls, _RECEIVED_BYTES_MAX)
                raise HandshakeFailed(_reason(error)) from None
            else:
                return

    async def _take_step(self) -> None:
        if self._worker is None:
            self._tls.do_handshake()
        else:
            self._step = self._worker.submit(self._tls.do_handshake)
            await asyncio.wrap_future(self._step)

    async def _ready(
        self, add: Callable[[int, Callable[[], None]], None], remove: Callable[[int], bool]
    ) -> None:
        """Wait until the socket is readable, or writable."""
        ready = asyncio.Event()
        add(self._tls.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            remove(self._tls.fileno())

    def close(self) -> None:
        """Close the socket once the worker no longer uses its descriptor, which others may get then."""
        if self._step is None:
            self._tls.close()
        else:
            self._step.add_done_callback(lambda _step: self._tls.close())


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    return error.reason or str(error)
