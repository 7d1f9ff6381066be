"""The listeners: they accept connections, limit their number and close idle ones."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from penstock.broker.network.acceptor import Acceptor
from penstock.broker.network.buffers import BufferPool, RequestMemory
from penstock.broker.network.connection import Connection, Reply
from penstock.broker.network.handshakes import Handshake, Handshakes
from penstock.broker.network.outbox import FileRange
from penstock.broker.network.stats import ServerStats
from penstock.broker.network.turns import line_of
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.quotas.connections import ConnectionLimits, ConnectionQuotas
from penstock.broker.tls.listeners import ListenerTls
from penstock.broker.tls.secured_socket import SecuredSocket
from penstock.metadata.configs import Listener
from penstock.security.permissions import ANONYMOUS

log = logging.getLogger(__name__)

BACKLOG = 511
ACCEPT_PAUSE_S = 0.1

NOT_SENT_YET_BYTES_MAX = 96 * 1024
"""The limit on the bytes that the kernel accepts before it can send them.

Without it, the kernel would accept megabytes and send them piece by piece as acknowledgements arrive, on the
processor that handles those: often the client's. The limit must exceed the largest segment, 64 KiB on the
loopback: MSG_MORE holds back anything smaller, and the connection would wait for it."""


@dataclass(frozen=True)
class ServerLimits:
    """Kafka's limits on connections and requests, with Kafka's names."""

    socket_request_max_bytes: int = 104857600
    queued_max_request_bytes: int = -1
    connections_max_idle_ms: int = 600000
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    socket_send_buffer_bytes: int = -1
    socket_receive_buffer_bytes: int = -1
    socket_listen_backlog_size: int = BACKLOG


HandleRequest = Callable[[Connection, memoryview], Reply]


class Server:
    """The server accepts connections on all listeners, and owns the buffers and limits that they share.

    ``handler_of`` returns the request handler for the name of a listener, and ``tls_of`` its TLS or None.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler_of: Callable[[str], HandleRequest],
        limits: ServerLimits,
        after_turn: Callable[[], None],
        reload: Callable[[FileRange, Callable[[str | None], None]], None],
        tls_of: Callable[[str], ListenerTls | None],
        tls_worker: Executor,
        opened: Callable[[Connection], None],
        client_quotas: ClientQuotas,
        connection_quotas: Iterable[ConnectionQuotas],
        *,
        bind: Callable[[Listener, ServerLimits], socket.socket] | None = None,
        sendfile: Callable[[int, int, int, int], int] = os.sendfile,
    ) -> None:
        self.loop = loop
        line = line_of(loop)
        self.wait_in_line = line.wait
        self.turn_deadline_ns = line.deadline_ns
        self.after_turn = after_turn
        self.reload = reload
        """Have a worker read a slice into memory again, then call back with an error text or None."""
        self.limits = limits
        self.frame_bytes_max = limits.socket_request_max_bytes
        self.buffers = BufferPool()
        self.request_memory = RequestMemory(limits.queued_max_request_bytes)
        self.connections: dict[int, Connection] = {}
        self.stats = ServerStats()
        self.client_quotas = client_quotas
        self.sendfile = sendfile
        self._bind = bind or bound_socket
        self._handler_of = handler_of
        self._tls_of = tls_of
        self._opened = opened
        """Called with each connection before its first request."""
        self._handshakes = Handshakes(loop, tls_worker, self.stats)
        self._quotas = {name: quotas for quotas in connection_quotas for name in quotas.listeners}
        self._acceptors: list[Acceptor] = []
        self._open_names: set[str] = set()
        """The names of the listeners that accept connections, now or once the limit allows more."""
        self._idle_timer: asyncio.TimerHandle | None = None

    def bind(self, listeners: list[Listener]) -> dict[str, tuple[str, int]]:
        """Bind all listeners and return their real addresses by name.

        The kernel refuses connections until `accept`, as Apache Kafka does: clients then ask other brokers or
        try again, instead of waiting for an answer while this node recovers. Raises OSError.
        """
        bound: dict[str, tuple[str, int]] = {}
        for listener in listeners:
            sock = self._bind(listener, self.limits)
            self._acceptors.append(
                Acceptor(
                    self.loop,
                    sock,
                    listener.name,
                    self._quotas[listener.name],
                    self.stats,
                    self._welcome,
                    self._accept_failed,
                )
            )
            host, port = sock.getsockname()[:2]
            bound[listener.name] = (host, port)
        return bound

    @property
    def is_accepting(self) -> bool:
        """Whether all listeners accept connections, now or once the limit allows more."""
        return bool(self._acceptors) and self._open_names.issuperset(each.name for each in self._acceptors)

    def accept(self, names: Iterable[str]) -> None:
        """Start to accept connections on these listeners. Raises OSError, with the address in its text."""
        opened = set(names) - self._open_names
        for acceptor in self._acceptors:
            if acceptor.name in opened:
                acceptor.open(self.limits.socket_listen_backlog_size)
        self._open_names |= opened
        if self._idle_timer is None:
            self._schedule_idle_check()

    def close(self, names: Iterable[str] | None = None) -> None:
        """Stop listening, and close every connection after a last attempt to send complete responses.

        ``names`` restricts this to some listeners; the others and their shared parts stay open.
        """
        closing = {acceptor.name for acceptor in self._acceptors} if names is None else set(names)
        self._open_names -= closing
        for acceptor in self._acceptors:
            if acceptor.name in closing:
                acceptor.close()
        self._acceptors = [acceptor for acceptor in self._acceptors if acceptor.name not in closing]
        self._handshakes.end(closing)
        for connection in list(self.connections.values()):
            if connection.listener_name in closing:
                connection.close("shutting down")
        if not self._acceptors and self._idle_timer is not None:
            self._idle_timer.cancel()

    def reconfigure(self, limits: ServerLimits) -> None:
        """Use other limits. Listeners that wait for a connection to close may accept more now."""
        self.limits = limits
        self._resume_accepting()

    def connection_closed(self, connection: Connection) -> None:
        del self.connections[connection.fd]
        self._forget(connection.listener_name, connection.client_host)

    def _forget(self, listener_name: str, ip: str) -> None:
        """Count one connection of this listener and address less."""
        self._quotas[listener_name].close(listener_name, ip)
        self._resume_accepting()

    def _resume_accepting(self) -> None:
        for acceptor in self._acceptors:
            acceptor.resume()

    def _accept_failed(self) -> None:
        for acceptor in self._acceptors:
            acceptor.pause()
        self.loop.call_later(ACCEPT_PAUSE_S, self._resume_accepting)

    def _welcome(self, sock: socket.socket, peer: tuple[str, int], listener_name: str) -> None:
        ip = peer[0]
        try:
            _prepare(sock, self.limits)
        except OSError:
            sock.close()
            self._forget(listener_name, ip)
            return
        self.stats.accepted += 1
        self._displace_client(listener_name)
        tls = self._tls_of(listener_name)
        if tls is None:
            self._open(sock, peer, listener_name, ANONYMOUS)
            return
        self._handshakes.begin(
            Handshake(
                sock,
                f"{ip}:{peer[1]}",
                listener_name,
                tls,
                lambda secured, principal: self._open(secured, peer, listener_name, principal),
                lambda: self._forget(listener_name, ip),
            )
        )

    def _displace_client(self, listener_name: str) -> None:
        """Close the client that was idle the longest, if a broker took the last connection allowed."""
        quotas = self._quotas[listener_name]
        if quotas.is_protected(listener_name) and quotas.is_exceeded:
            clients = [
                connection
                for connection in self.connections.values()
                if connection.listener_name in quotas.listeners
                and not quotas.is_protected(connection.listener_name)
            ]
            if clients:
                idle = min(clients, key=lambda connection: connection.last_active_s)
                idle.close("a broker needs the connection: max.connections is reached", logging.INFO)

    def _open(
        self, sock: socket.socket | SecuredSocket, peer: tuple[str, int], listener_name: str, principal: str
    ) -> None:
        handler = self._handler_of(listener_name)
        connection = Connection(self, sock, peer, listener_name, handler, principal)
        self.connections[connection.fd] = connection
        self._opened(connection)

    def _schedule_idle_check(self) -> None:
        idle_ms = self.limits.connections_max_idle_ms
        if idle_ms > 0:
            self._idle_timer = self.loop.call_later(
                min(max(idle_ms / 4000, 0.05), 10.0), self._close_idle_connections
            )

    def _close_idle_connections(self) -> None:
        deadline_s = self.loop.time() - self.limits.connections_max_idle_ms / 1000
        for connection in list(self.connections.values()):
            if connection.last_active_s < deadline_s and not connection.waits_for_reply:
                self.stats.idle_closed += 1
                connection.close("idle for longer than connections.max.idle.ms")
        self._schedule_idle_check()


def bound_socket(listener: Listener, limits: ServerLimits) -> socket.socket:
    """Return a socket that is bound and does not listen yet. Raises OSError with the address in its text."""
    host = listener.host or "0.0.0.0"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if family == socket.AF_INET and not host.replace(".", "").isdigit():
            family, _, _, _, address = socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM)[0]
            host = str(address[0])
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(f"cannot listen on {listener.host}:{listener.port}: {error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if limits.socket_receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.socket_receive_buffer_bytes)
        sock.bind((host, listener.port))
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise OSError(f"cannot listen on {listener.host}:{listener.port}: {error.strerror}") from error
    return sock


def _prepare(sock: socket.socket, limits: ServerLimits) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, NOT_SENT_YET_BYTES_MAX)
    if limits.socket_send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.socket_send_buffer_bytes)
