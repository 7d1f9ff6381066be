"""One listening socket, which accepts connections as fast and as many as its listener's quotas allow."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.broker.network.stats import ServerStats
    from penstock.broker.quotas.connections import ConnectionQuotas

log = logging.getLogger(__name__)

ACCEPTS_PER_TURN: Final = 64
CLOSING_MAX: Final = 1000
"""The most connections that wait to be closed because of their address. Each has a file descriptor."""

Peer = tuple[str, int]


class Acceptor:
    """The acceptor of one socket. It passes each connection to ``welcome``.

    ``failed`` is called if the system refuses to accept.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        name: str,
        quotas: ConnectionQuotas,
        stats: ServerStats,
        welcome: Callable[[socket.socket, Peer, str], None],
        failed: Callable[[], None],
    ) -> None:
        self.listening = listening
        self.name = name
        self.quotas = quotas
        self._loop = loop
        self._stats = stats
        self._welcome = welcome
        self._failed = failed
        self._is_open = False
        self._is_accepting = False
        self._held: tuple[socket.socket, Peer] | None = None
        """The connection that came too early. No other one is accepted before it is opened."""
        self._timer: asyncio.TimerHandle | None = None
        """Until it fires, the held connection came too early."""
        self._closing: dict[socket.socket, asyncio.TimerHandle] = {}

    def open(self, backlog: int) -> None:
        """Start to accept connections. Raises OSError, with the address in its text."""
        try:
            self.listening.listen(backlog)
        except OSError as error:  # another process that had bound the same port was faster
            host, port = self.listening.getsockname()[:2]
            raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        self._is_open = True
        self.resume()

    def close(self) -> None:
        """Close the socket, and the connections that wait."""
        self._is_open = False
        self.pause()
        self.listening.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is not None:
            self._held[0].close()
            self._held = None
        for sock, timer in self._closing.items():
            timer.cancel()
            sock.close()
        self._closing.clear()

    def pause(self) -> None:
        """Leave connections in the backlog until `resume`."""
        if self._is_accepting:
            self._is_accepting = False
            self._loop.remove_reader(self.listening.fileno())

    def resume(self) -> None:
        """Accept connections again, if the quotas allow it."""
        if not self._is_open or self._timer is not None or not self.quotas.has_slot(self.name):
            return
        if self._held is not None:
            held, self._held = self._held, None
            self._admit(*held)
        if not self._is_accepting:
            self._is_accepting = True
            self._loop.add_reader(self.listening.fileno(), self._on_acceptable)

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self.quotas.has_slot(self.name):
                self.pause()  # more connections wait in the backlog, as in Kafka
                return
            try:
                sock, address = self.listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                log.error("accept failed listener=%s error=%s", self.name, error)
                self._failed()  # probably out of file descriptors, until connections close
                return
            peer = (str(address[0]).removeprefix("::ffff:"), int(address[1]))
            wait_ms = self.quotas.arrived(self.name, self._now_ms())
            if wait_ms:
                self.pause()
                self._held = (sock, peer)
                self._timer = self._loop.call_later(wait_ms / 1000, self._in_time)
                return
            self._admit(sock, peer)

    def _in_time(self) -> None:
        self._timer = None
        self.resume()

    def _admit(self, sock: socket.socket, peer: Peer) -> None:
        """Open the connection, unless its address has too many or comes too often."""
        ip = peer[0]
        wait_ms = self.quotas.address_throttle_ms(self.name, ip, self._now_ms())
        if wait_ms:
            self._close_later(sock, wait_ms)
        elif self.quotas.open(self.name, ip):
            self._welcome(sock, peer, self.name)
        else:
            self._stats.refused += 1
            limit = self.quotas.address_limit(ip)
            log.info("refused connection peer=%s reason=max.connections.per.ip limit=%d", ip, limit)
            sock.close()

    def _close_later(self, sock: socket.socket, wait_ms: int) -> None:
        """Close a connection unread, after a while in which its client does not try again."""
        if len(self._closing) >= CLOSING_MAX:
            oldest = next(iter(self._closing))
            self._closing.pop(oldest).cancel()
            oldest.close()
        self._closing[sock] = self._loop.call_later(wait_ms / 1000, self._close, sock)

    def _close(self, sock: socket.socket) -> None:
        del self._closing[sock]
        sock.close()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)
