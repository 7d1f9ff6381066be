"""Links over TCP, with or without TLS: raw sockets on the event loop's callbacks.

A frame is received into its own memory with as few copies as possible: the first bytes arrive in a small
buffer, and once the size is known, the rest is received directly into its final place. Memory without
references is reused for the next large frame, because new pages would cost as much as receiving.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from penstock.broker.peers.link import Buffer, Link, LinkEnd
from penstock.broker.tls.handshake import shake_hands
from penstock.broker.tls.secured_socket import SecuredSocket

FRAME_BYTES_MAX: Final = 1 << 30
"""No Kafka node answers with a larger frame."""
_SIZE: Final = Struct(">i")
_START_BYTES: Final = 16 * 1024
_REUSED_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest memory that is kept for the next large frame."""
_READS_PER_TURN: Final = 8
_BUFFERS_PER_SEND: Final = 512  # below IOV_MAX everywhere


class TcpDial:
    """The dialer of TCP links. ``receive_buffer_bytes`` is SO_RCVBUF; -1 leaves it to the kernel.

    With ``tls``, each link begins with a handshake by the context that it returns.
    """

    def __init__(
        self, receive_buffer_bytes: int = -1, *, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        self._receive_buffer_bytes = receive_buffer_bytes
        self._tls = tls

    async def __call__(self, host: str, port: int, end: LinkEnd) -> Link:
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        for family, kind, protocol, _, address in await _addresses(loop, host, port):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if self._receive_buffer_bytes > 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
                await loop.sock_connect(sock, address)
                if self._tls is None:
                    return TcpLink(loop, sock, end)
                return TcpLink(loop, await shake_hands(sock, self._tls(), server_hostname=host), end)
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
        raise failure or OSError(f"{host} has no address")


class TcpLink:
    """One connected socket."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket | SecuredSocket, end: LinkEnd
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._tls = sock if isinstance(sock, SecuredSocket) else None
        self._end = end
        self._fd = sock.fileno()
        self._start = memoryview(bytearray(_START_BYTES))
        self._started = 0
        self._frame: memoryview | None = None
        self._memory: bytearray | None = None
        """The memory of the last large frame."""
        self._received = 0
        self._unsent: deque[memoryview] = deque()
        self._writing = False
        self._closed = False
        loop.add_reader(self._fd, self._on_readable)
        self._receive_the_rest()

    def send(self, frame: Sequence[Buffer]) -> None:
        if self._closed:
            return
        self._unsent.extend(memoryview(piece) for piece in frame if len(piece))
        if not self._writing:
            self._flush()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._loop.remove_writer(self._fd)
        self._unsent.clear()
        self._socket.close()

    def _flush(self) -> None:
        unsent = self._unsent
        try:
            while unsent:
                pieces = list(unsent)[:_BUFFERS_PER_SEND] if len(unsent) > 1 else (unsent[0],)
                sent = self._socket.sendmsg(pieces)
                while unsent and sent >= len(unsent[0]):
                    sent -= len(unsent.popleft())
                if sent:
                    unsent[0] = unsent[0][sent:]
        except BlockingIOError:
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._fd, self._flush)
            return
        except OSError as error:
            self._loop.call_soon(self._lose, str(error))
            return
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)

    def _on_readable(self) -> None:
        try:
            for _ in range(_READS_PER_TURN):
                if self._closed or not self._receive():
                    break
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(str(error))
            return
        self._receive_the_rest()

    def _receive_the_rest(self) -> None:
        """Go on with bytes that TLS has received and the selector does not see."""
        if self._tls is not None and self._tls.has_more and not self._closed:
            self._loop.call_soon(self._on_readable)

    def _receive(self) -> bool:
        """Read once; return whether more may be available, as after a full read. Raises OSError."""
        if self._frame is not None:
            wanted = len(self._frame) - self._received
            count = self._socket.recv_into(self._frame[self._received :])
            self._received += count
            if count == wanted:
                frame, self._frame = self._frame, None
                self._end.frame_received(frame)
        else:
            wanted = len(self._start) - self._started
            count = self._socket.recv_into(self._start[self._started :])
            self._started += count
            self._take_frames()
        if count == 0:
            self._lose("closed by the other side")
        return count == wanted and not self._closed

    def _take_frames(self) -> None:
        """Pass on the whole frames among the first bytes, and allocate memory for an incomplete one."""
        position, started = 0, self._started
        while started - position >= _SIZE.size and not self._closed:
            (size,) = _SIZE.unpack_from(self._start, position)
            if not 0 <= size <= FRAME_BYTES_MAX:
                self._lose(f"announced a frame of {size} bytes, expected 0 to {FRAME_BYTES_MAX}")
                return
            begin = position + _SIZE.size
            frame = self._place_for(size)
            here = min(size, started - begin)
            frame[:here] = self._start[begin : begin + here]
            position = begin + here
            if here < size:
                self._frame, self._received = frame, here
                break
            self._end.frame_received(frame)
        rest = started - position
        self._start[:rest] = bytes(self._start[position:started])
        self._started = rest

    def _place_for(self, size: int) -> memoryview:
        """Return ``size`` bytes of memory that have no other references."""
        if not _START_BYTES < size <= _REUSED_BYTES_MAX:
            return memoryview(bytearray(size))
        memory = self._memory
        if memory is None or len(memory) < size or _is_referred_to(memory):
            memory = self._memory = bytearray(size)
        return memoryview(memory)[:size]

    def _lose(self, reason: str) -> None:
        if not self._closed:
            self.close()
            self._end.link_lost(reason)


def _is_referred_to(memory: bytearray) -> bool:
    """Whether views of the memory exist: then its size cannot change."""
    try:
        memory.append(memory.pop())
    except BufferError:
        return True
    return False


async def _addresses(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]]:
    """Resolve the name; an IPv4 address needs no thread for a lookup."""
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, kind, protocol, name, address) for family, kind, protocol, name, address in found]  # type: ignore[misc]
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
