"""A TCP proxy for a node's listener that can stop either direction, slow it down, or end all connections.

Stopped data is kept, as by a network that loses every packet: connections stay open on both sides and
deliver the data once the network recovers. `wire_proxy.py` is the proxy that parses frames.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Self

CHUNK_BYTES = 1 << 16


class Direction(Enum):
    """A direction, as the node behind the proxy sees it."""

    IN = "in"  # requests of others do not reach the node
    OUT = "out"  # its responses do not reach the others


class OneWayProxy:
    """A proxy on a port of its own, which the node advertises as its address; a context manager."""

    def __init__(self, target: Callable[[], tuple[str, int]]) -> None:
        self._target = target
        self._open = {direction: threading.Event() for direction in Direction}
        self._delay_s = dict.fromkeys(Direction, 0.0)
        self.heal()
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def stop(self, *directions: Direction) -> None:
        """Stop all data in this direction until `heal`."""
        for direction in directions:
            self._open[direction].clear()

    def delay(self, direction: Direction, delay_s: float) -> None:
        """Delay each piece of data by this long."""
        self._delay_s[direction] = delay_s

    def heal(self) -> None:
        for direction in Direction:
            self._delay_s[direction] = 0.0
            self._open[direction].set()

    def drop_connections(self) -> None:
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.heal()
        self.drop_connections()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._connect, args=(caller,), daemon=True).start()

    def _connect(self, caller: socket.socket) -> None:
        self._open[Direction.IN].wait()
        try:
            node = socket.create_connection(self._target(), 5)
        except OSError:
            caller.close()  # the node is down
            return
        node.settimeout(None)
        for one in (caller, node):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._sockets |= {caller, node}
        for source, sink, direction in ((caller, node, Direction.IN), (node, caller, Direction.OUT)):
            threading.Thread(target=self._pass, args=(source, sink, direction), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, direction: Direction) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if self._delay_s[direction]:
                    time.sleep(self._delay_s[direction])
                self._open[direction].wait()
                sink.sendall(data)
        # For the other side, the end of a connection is data too.
        self._open[direction].wait()
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            with self._lock:
                self._sockets.discard(one)
