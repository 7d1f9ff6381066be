"""A TCP proxy that parses Kafka's frames: it delays, repeats and holds requests, and cuts connections.

    with WireProxy(node.bootstrap_servers) as proxy:
        proxy.plan(ApiKey.END_TXN, Fate.HOLD)
        …                                       # the client gives up and repeats it over another connection
        proxy.release()                         # now the first one arrives

Real clients connect to the addresses in Metadata: start the node with the proxy's in `advertised.listeners`,
and set `target` once the node runs.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, Self

LONGEST_DELAY_S = 0.02


class Fate(Enum):
    """The fate of a request."""

    PASS = auto()
    DELAY = auto()
    REPEAT = auto()  # sent twice; the client gets the first response
    HOLD = auto()  # held, like all later requests on this connection, until `release`
    CUT_BEFORE = auto()  # the connection ends and the node never receives the request
    CUT_AFTER = auto()  # the node answers, `when_cut` is called, the connection ends instead of the answer


class Request(NamedTuple):
    """The start of a request's header."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str = ""


class WireProxy:
    """A proxy on a port of its own; `decide` chooses the fate of each request without a planned one."""

    def __init__(self, target: str = "", decide: Callable[[Request], Fate] = lambda _: Fate.PASS) -> None:
        self.target = target
        self.decide = decide
        self.when_cut: Callable[[], None] = lambda: None
        self.met: list[tuple[Request, Fate]] = []  # the fate of each request, without PASS
        self._planned: list[tuple[int, Fate]] = []
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pipes: list[_Pipe] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def plan(self, api_key: int, fate: Fate) -> None:
        """Apply `fate` to the next request of this API."""
        with self._lock:
            self._planned.append((api_key, fate))

    def release(self) -> None:
        """Forward the held requests and hold no more; return once the node has answered them."""
        self._released.set()
        for pipe in self._pipes:
            if pipe.held is not None:
                assert pipe.held_is_answered.wait(60), "the node never answered what was held"

    def fate_of(self, request: Request) -> Fate:
        with self._lock:
            planned = next((plan for plan in self._planned if plan[0] == request.api_key), None)
            if planned is not None:
                self._planned.remove(planned)
            fate = planned[1] if planned is not None else self.decide(request)
            if fate is not Fate.PASS:
                self.met.append((request, fate))
            return fate

    def wait_for_release(self) -> None:
        assert self._released.wait(60), "nobody released what was held"

    def close(self) -> None:
        self._released.set()
        self._listener.close()
        for pipe in self._pipes:
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            host, port = self.target.rsplit(":", 1)
            try:
                node = socket.create_connection((host, int(port)), 5)
            except OSError:
                client.close()  # the node is down
                continue
            node.settimeout(None)
            self._pipes.append(_Pipe(self, client, node))


class _Pipe:
    """One connection. When the client closes it, its sent requests still reach the node."""

    def __init__(self, proxy: WireProxy, client: socket.socket, node: socket.socket) -> None:
        self.held: int | None = None  # a correlation id
        self.held_is_answered = threading.Event()
        self._proxy = proxy
        self._client = client
        self._node = node
        self._unwanted: list[int] = []  # correlation ids whose next response is that of a repetition
        self._cut_at: int | None = None
        for socket_ in (client, node):
            socket_.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for work in (self._forward_requests, self._forward_responses):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        for end in (self._client, self._node):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _forward_requests(self) -> None:
        with contextlib.suppress(OSError):
            while frame := _receive_frame(self._client):
                self._forward(frame)
        with contextlib.suppress(OSError):
            self._node.shutdown(socket.SHUT_WR)

    def _forward(self, frame: bytes) -> None:
        request = _request(frame)
        fate = self._proxy.fate_of(request)
        if fate is Fate.CUT_BEFORE:
            self.close()
            return
        if fate is Fate.DELAY:
            time.sleep(LONGEST_DELAY_S * (request.correlation_id % 7) / 7)
        elif fate is Fate.HOLD:
            self.held = request.correlation_id
            self._proxy.wait_for_release()
        elif fate is Fate.CUT_AFTER:
            self._cut_at = request.correlation_id
        elif fate is Fate.REPEAT:
            self._unwanted.append(request.correlation_id)
            self._node.sendall(frame)
        self._node.sendall(frame)

    def _forward_responses(self) -> None:
        answered: set[int] = set()
        with contextlib.suppress(OSError):
            while frame := _receive_frame(self._node):
                (correlation_id,) = struct.unpack_from(">i", frame, 4)
                if correlation_id == self._cut_at:
                    self._proxy.when_cut()
                    break
                if correlation_id in self._unwanted and correlation_id in answered:
                    self._unwanted.remove(correlation_id)
                    continue
                answered.add(correlation_id)
                if correlation_id == self.held:
                    self.held_is_answered.set()
                with contextlib.suppress(OSError):  # the client may have closed the connection
                    self._client.sendall(frame)
        self.close()


def _request(frame: bytes) -> Request:
    api_key, version, correlation_id, length = struct.unpack_from(">hhih", frame, 4)
    client_id = frame[14 : 14 + max(length, 0)].decode()
    return Request(api_key, version, correlation_id, client_id)


def _receive_frame(socket_: socket.socket) -> bytes:
    """A frame with its length, or nothing at the end."""
    size_bytes = _receive(socket_, 4)
    if len(size_bytes) < 4:
        return b""
    (size,) = struct.unpack(">i", size_bytes)
    body = _receive(socket_, size)
    return size_bytes + body if len(body) == size else b""


def _receive(socket_: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = socket_.recv(size - len(received))
        if not chunk:
            break
        received += chunk
    return bytes(received)
