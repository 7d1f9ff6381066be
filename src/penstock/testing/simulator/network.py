"""A simulated network: connections with TCP's guarantees, over links that fail in every way.

The receiver gets what the other side sent in order, complete, and later; or the connection ends. Lost packets
are retransmitted, so loss appears as delay, also for the data behind them. A link may be blocked in one
direction: data then waits until the link is open again, or until the sender times out. When a process dies,
its host notifies the other side; when a host loses power, there is no notification.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, cast

from penstock.broker.peers.tcp import TcpLink

if TYPE_CHECKING:
    from penstock.broker.peers import Link, LinkEnd
    from penstock.testing.simulator.loop import Machine, VirtualLoop

FIRST_FD: Final = 1 << 20
"""Above all descriptors of the kernel."""
IN_FLIGHT_BYTES_MAX: Final = 192 * 1024
RETRANSMIT_S: Final = 0.2
RETRANSMIT_MAX_S: Final = 2.0
GIVE_UP_S: Final = 60.0
"""Kernels retransmit for a quarter of an hour; no timeout in the simulation is that long."""


class LinkWeather:
    """The current state of the network. `rng` decides what happens to each packet."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.latency_s = 0.0005
        self.jitter_s = 0.0005
        self.loss = 0.0
        """The probability that a packet has to be retransmitted."""
        self.blocked: dict[tuple[str, str], None] = {}
        """(from host, to host): no packet passes."""
        self.slow: dict[tuple[str, str], float] = {}
        """Additional seconds in one direction."""

    def delay_s(self, source: str, target: str) -> float:
        delay_s = self.latency_s + self.rng.random() * self.jitter_s + self.slow.get((source, target), 0.0)
        retransmit_s = RETRANSMIT_S
        while self.loss and self.rng.random() < self.loss:
            delay_s += retransmit_s
            retransmit_s *= 2
        return delay_s


class Network:
    """All hosts and their listening sockets."""

    def __init__(self, loop: VirtualLoop, rng: Random) -> None:
        self.loop = loop
        self.weather = LinkWeather(rng)
        self.listening: dict[tuple[str, int], ListeningSocket] = {}
        self.down: dict[str, None] = {}
        """Hosts without power."""
        self.connections: dict[VirtualSocket, None] = {}
        self._next_fd = FIRST_FD
        self._next_port = 40_000

    def new_fd(self) -> int:
        self._next_fd += 1
        return self._next_fd

    def bind(self, host: str, port: int) -> ListeningSocket:
        if (host, port) in self.listening:
            raise OSError(
                errno.EADDRINUSE, f"cannot listen on {host}:{port}: {os.strerror(errno.EADDRINUSE)}"
            )
        return ListeningSocket(self, host, port)

    async def connect(self, host: str, port: int) -> VirtualSocket:
        """Connect from the current machine. Raises OSError."""
        machine, weather = self.loop.current, self.weather
        pause_s, waited_s = 1.0, 0.0
        while True:
            there, back = (machine.host, host), (host, machine.host)
            delay_s = weather.delay_s(*there) + weather.delay_s(*back)
            await asyncio.sleep(delay_s)
            if host not in self.down and there not in weather.blocked and back not in weather.blocked:
                break
            await asyncio.sleep(pause_s)
            waited_s += pause_s
            pause_s *= 2
            if waited_s > GIVE_UP_S:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        listening = self.listening.get((host, port))
        if listening is None or listening.machine.dead:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self._next_port += 1
        here = VirtualSocket(self, machine, (machine.host, self._next_port))
        other = VirtualSocket(self, listening.machine, (host, port))
        here.other, other.other = other, here
        listening.arrived(other)
        return here

    def dial(self) -> VirtualDial:
        return VirtualDial(self)

    def process_died(self, machine: Machine) -> None:
        """End a dead process's connections, as its host does: sent data arrives, then the stream ends."""
        for listening in [found for found in self.listening.values() if found.machine is machine]:
            listening.close()
        for connection in [found for found in self.connections if found.machine is machine]:
            connection.close()

    def power_lost(self, machine: Machine) -> None:
        """Cut a host's power: peers are not notified, and get no answers until it is up again."""
        self.down[machine.host] = None
        for connection in [found for found in self.connections if found.machine is machine]:
            connection.vanish()
        for listening in [found for found in self.listening.values() if found.machine is machine]:
            listening.close()

    def power_is_back(self, host: str) -> None:
        self.down.pop(host, None)

    def cut(self, connection: VirtualSocket) -> None:
        """Reset a connection at both sides, as a middlebox does that lost its state."""
        connection.reset()
        if connection.other is not None:
            connection.other.reset()


class ListeningSocket:
    """A bound socket with the part of `socket.socket` that servers use. It refuses until `listen`."""

    def __init__(self, network: Network, host: str, port: int) -> None:
        self.machine = network.loop.current
        self._network = network
        self._address = (host, port)
        self._fd = network.new_fd()
        network.loop.sockets[self._fd] = self
        self._backlog: deque[VirtualSocket] = deque()
        self._reader: events.Handle | None = None

    def fileno(self) -> int:
        return self._fd

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def listen(self, backlog: int) -> None:
        self._network.listening[self._address] = self

    def arrived(self, connection: VirtualSocket) -> None:
        self._backlog.append(connection)
        self._wake()

    def accept(self) -> tuple[VirtualSocket, tuple[str, int]]:
        if not self._backlog:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        connection = self._backlog.popleft()
        assert connection.other is not None
        return connection, connection.other.address

    def close(self) -> None:
        if self._network.listening.get(self._address) is self:
            del self._network.listening[self._address]
        self._network.loop.sockets.pop(self._fd, None)
        self._reader = None
        while self._backlog:
            self._backlog.popleft().close()

    def watch(self, reader: events.Handle | None = None, writer: events.Handle | None = None) -> None:
        self._reader = reader or self._reader
        self._wake()

    def unwatch_reader(self) -> bool:
        watched, self._reader = self._reader is not None, None
        return watched

    def unwatch_writer(self) -> bool:
        return False

    def send_file(self, fd: int, position: int, count: int) -> int:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    def _wake(self) -> None:
        if self._reader is not None and self._backlog:
            self._network.loop.call_soon(self._readable, context=self._reader._context)  # type: ignore[attr-defined]

    def _readable(self) -> None:
        if self._reader is not None and self._backlog:
            self._reader._callback(*self._reader._args)  # type: ignore[attr-defined]


class VirtualSocket:
    """One side of a connection, with the part of `socket.socket` that connections use."""

    def __init__(self, network: Network, machine: Machine, address: tuple[str, int]) -> None:
        self.machine = machine
        self.address = address
        self.other: VirtualSocket | None = None
        self._network = network
        self._loop = network.loop
        self._fd = network.new_fd()
        network.loop.sockets[self._fd] = self
        network.connections[self] = None
        self._received: deque[memoryview] = deque()
        self._failure: OSError | None = None
        self._ended = False
        self._closed = False
        self._on_the_way: deque[tuple[float, bytes | None]] = deque()
        """Data in flight to the other side, with its arrival times; None for the end of the stream."""
        self._ends_by_reset = False
        self._in_flight_bytes = 0
        self._arrival: asyncio.TimerHandle | None = None
        self._arrives_s = 0.0
        self._blocked_for_s = 0.0
        self._reader: events.Handle | None = None
        self._writer: events.Handle | None = None
        self._reader_is_due = self._writer_is_due = False

    # what a program calls

    def fileno(self) -> int:
        return -1 if self._closed else self._fd

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Do nothing: there is no kernel to tune."""

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0) -> int:
        if self._failure is not None:
            raise self._failure
        room = IN_FLIGHT_BYTES_MAX - self._in_flight_bytes
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        size = min(len(data), room)
        self._transmit(bytes(data[:size]))
        return size

    def sendmsg(self, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        return self.send(b"".join(pieces))

    def recv_into(self, buffer: memoryview) -> int:
        if not self._received:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                return 0
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        size = 0
        while self._received and size < len(buffer):
            piece = self._received[0]
            count = min(len(piece), len(buffer) - size)
            buffer[size : size + count] = piece[:count]
            size += count
            if count == len(piece):
                self._received.popleft()
            else:
                self._received[0] = piece[count:]
        return size

    def close(self) -> None:
        """Close the socket: sent data still arrives, but unread data resets the connection, as in TCP."""
        if self._closed:
            return
        if self._received:
            self._ends_by_reset = True
            self._on_the_way.clear()
        if self._failure is None:
            self._put(None)
        self._forget()

    # what the network does

    def reset(self) -> None:
        """Handle a reset by the other side."""
        self._failure = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        self._on_the_way.clear()
        self._received.clear()
        self._network.connections.pop(self, None)
        self._wake()

    def vanish(self) -> None:
        """Remove the socket of a host without power, which sends nothing more."""
        self._on_the_way.clear()
        self._forget()

    def _forget(self) -> None:
        self._closed = True
        self._received.clear()
        self._reader = self._writer = None
        self._loop.sockets.pop(self._fd, None)
        self._network.connections.pop(self, None)

    def _transmit(self, data: bytes) -> None:
        if len(data) > 1 and self._network.weather.rng.random() < 0.02:
            cut = self._network.weather.rng.randrange(1, len(data))
            self._put(data[:cut])
            self._put(data[cut:])
        else:
            self._put(data)

    def _put(self, data: bytes | None) -> None:
        assert self.other is not None
        delay_s = self._network.weather.delay_s(self.machine.host, self.other.machine.host)
        self._arrives_s = max(self._arrives_s, self._loop.now_s + delay_s)
        self._on_the_way.append((self._arrives_s, data))
        self._in_flight_bytes += len(data or b"")
        self._schedule()

    def _schedule(self) -> None:
        if self._arrival is None and self._on_the_way:
            self._arrival = self._loop.at(self._on_the_way[0][0], self._arrive)

    def _arrive(self) -> None:
        """Deliver the data that is due to the other side, unless the link is blocked."""
        self._arrival = None
        other, network = self.other, self._network
        assert other is not None
        if not self._on_the_way:
            return
        link = (self.machine.host, other.machine.host)
        if link in network.weather.blocked or other.machine.host in network.down:
            self._wait_for_link()
            return
        self._blocked_for_s = 0.0
        if other._closed:
            self._answer_from_nobody()
            return
        while self._on_the_way and self._on_the_way[0][0] <= self._loop.now_s:
            data = self._on_the_way.popleft()[1]
            if data is None and self._ends_by_reset:
                other.reset()
            elif data is None:
                other._ended = True
            else:
                self._in_flight_bytes -= len(data)
                self._loop.note(data)
                if other._failure is None:
                    other._received.append(memoryview(data))
        other._wake()
        self._wake()
        self._schedule()

    def _wait_for_link(self) -> None:
        pause_s = min(max(RETRANSMIT_S, self._blocked_for_s), RETRANSMIT_MAX_S)
        self._blocked_for_s += pause_s
        if self._blocked_for_s > GIVE_UP_S:
            self._on_the_way.clear()
            self._failure = TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            self._wake()
            return
        self._arrives_s = max(self._arrives_s, self._loop.now_s + pause_s)
        self._arrival = self._loop.at(self._loop.now_s + pause_s, self._arrive)

    def _answer_from_nobody(self) -> None:
        """Reset the connection, since the other process is gone; a mere end of the stream needs no reset."""
        only_end = all(data is None for _, data in self._on_the_way)
        self._on_the_way.clear()
        self._in_flight_bytes = 0
        if not only_end and not self._closed:
            self.reset()

    # Readiness, reported as a level, as a selector does

    def watch(self, reader: events.Handle | None = None, writer: events.Handle | None = None) -> None:
        self._reader = reader or self._reader
        self._writer = writer or self._writer
        self._wake()

    def unwatch_reader(self) -> bool:
        watched, self._reader = self._reader is not None, None
        return watched

    def unwatch_writer(self) -> bool:
        watched, self._writer = self._writer is not None, None
        return watched

    @property
    def _is_readable(self) -> bool:
        return bool(self._received) or self._ended or self._failure is not None

    @property
    def _is_writable(self) -> bool:
        return self._in_flight_bytes < IN_FLIGHT_BYTES_MAX or self._failure is not None

    def _wake(self) -> None:
        if (
            self._reader is not None
            and not self._reader_is_due
            and (self._received or self._ended or self._failure is not None)
        ):
            self._reader_is_due = True
            self._loop.call_soon(self._read, context=self._reader._context)  # type: ignore[attr-defined]
        if self._writer is not None and not self._writer_is_due and self._is_writable:
            self._writer_is_due = True
            self._loop.call_soon(self._write, context=self._writer._context)  # type: ignore[attr-defined]

    def _read(self) -> None:
        self._reader_is_due = False
        if self._reader is not None and self._is_readable:
            self._reader._callback(*self._reader._args)  # type: ignore[attr-defined]
            self._wake()

    def _write(self) -> None:
        self._writer_is_due = False
        if self._writer is not None and self._is_writable:
            self._writer._callback(*self._writer._args)  # type: ignore[attr-defined]
            self._wake()

    # slices of files

    def send_file(self, fd: int, position: int, count: int) -> int:
        """Send from a file, like `os.sendfile`."""
        room = IN_FLIGHT_BYTES_MAX - self._in_flight_bytes
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data = os.pread(fd, min(count, room), position)
        return self.send(data) if data else 0


class VirtualDial:
    """Opens links to other nodes: the real `TcpLink` on a simulated socket."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def _dial(self, host: str, port: int, end: LinkEnd) -> Link:
        connection = await self._network.connect(host, port)
        return TcpLink(self._network.loop, cast("socket.socket", connection), end)

    def __call__(self, host: str, port: int, end: LinkEnd) -> Awaitable[Link]:
        return self._dial(host, port, end)
