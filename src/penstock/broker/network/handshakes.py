"""The TLS handshakes that a server has in progress, with limits on their number and time."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final, Protocol

from penstock.broker.tls.handshake import NothingReceived, shake_hands

if TYPE_CHECKING:
    from penstock.broker.network.stats import ServerStats
    from penstock.broker.tls.secured_socket import SecuredSocket

log = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S: Final = 10.0
"""The default of the clients' `socket.connection.setup.timeout.ms`: after it, they have given up."""

HANDSHAKES_MAX: Final = 2000
"""The most handshakes in progress. Another one ends the oldest, because an honest one takes milliseconds."""


class ListenerTls(Protocol):
    """The TLS of one listener."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the next handshake."""
        ...

    def principal_of(self, certificate: bytes | None) -> str:
        """Return the principal of a client by its certificate in DER; clients need not have one."""
        ...


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

    def begin(
        self,
        sock: socket.socket,
        host: str,
        listener_name: str,
        tls: ListenerTls,
        opened: Callable[[SecuredSocket, str], None],
        lost: Callable[[], None],
    ) -> None:
        """Begin a handshake. It calls ``opened`` with the socket and the principal, or ``lost``."""
        if len(self._tasks) >= HANDSHAKES_MAX:
            next(iter(self._tasks)).cancel("another one begins")
        task = self._loop.create_task(self._complete(sock, host, listener_name, tls, opened, lost))
        self._tasks[task] = listener_name
        task.add_done_callback(self._tasks.pop)

    def end(self, listener_names: set[str]) -> None:
        """End the handshakes on these listeners."""
        for task, name in list(self._tasks.items()):
            if name in listener_names:
                task.cancel("shutting down")

    async def _complete(
        self,
        sock: socket.socket,
        host: str,
        listener_name: str,
        tls: ListenerTls,
        opened: Callable[[SecuredSocket, str], None],
        lost: Callable[[], None],
    ) -> None:
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                secured = await shake_hands(sock, tls.context, self._worker)
            principal = tls.principal_of(secured.certificate)
        except NothingReceived:
            sock.close()
            lost()
        except (OSError, asyncio.CancelledError) as error:
            self._stats.failed_handshakes += 1
            reason = str(error) or f"not completed within {HANDSHAKE_TIMEOUT_S:g} s"
            log.info("TLS handshake failed peer=%s listener=%s reason=%s", host, listener_name, reason)
            sock.close()
            lost()
        else:
            self._stats.handshakes += 1
            opened(secured, principal)
