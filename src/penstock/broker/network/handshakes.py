"""The TLS handshakes that a server has in progress, with limits on their number and time."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.tls.handshake import NothingReceived, shake_hands

if TYPE_CHECKING:
    from penstock.broker.network.stats import ServerStats
    from penstock.broker.tls.listeners import ListenerTls
    from penstock.broker.tls.secured_socket import SecuredSocket

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 10.0
"""The default of the clients' `socket.connection.setup.timeout.ms`: after it, they have given up."""

HANDSHAKES_MAX: Final = 2000
"""The most handshakes in progress. Another one ends the oldest, because an honest one takes milliseconds."""


class Handshake(NamedTuple):
    """An accepted connection that does not speak Kafka's protocol yet, and who waits for it."""

    sock: socket.socket
    peer: str
    listener_name: str
    tls: ListenerTls
    opened: Callable[[SecuredSocket, str], None]
    """Called with the socket and the principal."""
    lost: Callable[[], None]


class Handshakes:
    """The handshakes of one server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, worker: Executor, stats: ServerStats) -> None:
        self._loop = loop
        self._worker = worker
        self._stats = stats
        self._tasks: dict[asyncio.Task[None], str] = {}
        """The tasks with the names of their listeners, the oldest first."""

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, handshake: Handshake) -> None:
        """Begin a handshake. It calls ``opened`` or ``lost``."""
        if len(self._tasks) >= HANDSHAKES_MAX:
            self._end(next(iter(self._tasks)))
        task = self._loop.create_task(self._complete(handshake))
        self._tasks[task] = handshake.listener_name
        task.add_done_callback(lambda done: self._ended(done, handshake))

    def end(self, listener_names: set[str]) -> None:
        """End the handshakes on these listeners."""
        for task, name in list(self._tasks.items()):
            if name in listener_names:
                self._end(task)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        task.cancel()

    def _ended(self, task: asyncio.Task[None], handshake: Handshake) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():  # perhaps before it ran, so that it cannot close the socket itself
            self._fail(handshake, handshake.sock, "ended for another one, or because the listener closes")

    async def _complete(self, handshake: Handshake) -> None:
        tls = handshake.tls
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                secured = await shake_hands(handshake.sock, tls.context, self._worker)
        except NothingReceived:
            self._close(handshake, handshake.sock)
        except OSError as error:  # TimeoutError, too
            reason = str(error) or f"not completed within {HANDSHAKE_TIMEOUT_S:g} s"
            self._fail(handshake, handshake.sock, reason)
        else:
            self._open(handshake, secured)

    def _open(self, handshake: Handshake, secured: SecuredSocket) -> None:
        try:
            principal = handshake.tls.principal_of(secured.certificate)
        except ValueError as error:  # no rule matches the certificate's name
            self._fail(handshake, secured, str(error))
            return
        self._stats.handshakes += 1
        handshake.opened(secured, principal)

    def _fail(self, handshake: Handshake, sock: socket.socket | SecuredSocket, reason: str) -> None:
        self._stats.failed_handshakes += 1
        log.info(
            "TLS handshake failed peer=%s listener=%s reason=%s",
            handshake.peer,
            handshake.listener_name,
            reason,
        )
        self._close(handshake, sock)

    def _close(self, handshake: Handshake, sock: socket.socket | SecuredSocket) -> None:
        sock.close()
        handshake.lost()
