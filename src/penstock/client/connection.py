"""One blocking connection to one server: frames out, frames in, in the order they were asked.

Requests may be pipelined (`send` several, then `receive` in the same order). Not here: retries, routing,
and more than one thread: a connection belongs to one thread at a time.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from penstock.client.config import ClientConfig, ServerAddress
from penstock.client.errors import ProtocolViolation, RequestTimedOut, ServerUnreachable
from penstock.client.frames import SIZE, ServedVersions, decode_response, encode_request
from penstock.protocol.api_keys import ApiKey, api_range
from penstock.protocol.batch import Buffer
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

Response = TypeVar("Response")

# A fetch may exceed fetch.max.bytes by one batch; anything larger than this is no Kafka server talking.
MAX_RESPONSE_BYTES: Final = 1 << 30
_MAX_BUFFERS_PER_SEND: Final = 512  # below IOV_MAX everywhere


class _Pending(NamedTuple):
    key: ApiKey
    version: int
    correlation_id: int
    deadline: float


class Connection:
    """Open with `connect`; ``server`` names the other side in errors."""

    def __init__(self, sock: socket.socket, server: str, config: ClientConfig) -> None:
        self.server = server
        self._socket = sock
        self._config = config
        self._pending: deque[_Pending] = deque()
        self._next_correlation_id = 0
        self._versions: ServedVersions | None = None

    @classmethod
    def connect(cls, address: ServerAddress, config: ClientConfig) -> Connection:
        """Connect and agree on versions. Raises ServerUnreachable, UnsupportedByServer."""
        try:
            sock = socket.create_connection(address, config.connect_timeout_ms / 1000)
        except OSError as error:
            raise ServerUnreachable(f"cannot connect to {address}: {error}") from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = cls(sock, str(address), config)
        try:
            connection._negotiate()
        except BaseException:
            connection.close()
            raise
        return connection

    def _negotiate(self) -> None:
        """ApiVersions, newest version first; an older server answers in version 0 what it does serve."""
        newest = api_range(ApiKey.API_VERSIONS)[1]
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version="0.1.0")
        self.send(request, version=newest)
        response = self.receive(ApiVersionsResponse)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            served = ServedVersions(response, self.server)
            version = served.choose(ApiKey.API_VERSIONS) if served.serves(ApiKey.API_VERSIONS) else 0
            self.send(request, version=version)
            response = self.receive(ApiVersionsResponse)
        if response.error_code:
            raise ProtocolViolation(f"{self.server} refused ApiVersions with error {response.error_code}")
        self._versions = ServedVersions(response, self.server)

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def version_of(self, key: ApiKey) -> int:
        """The version that requests of this API are sent in."""
        return self._agreed.choose(key)

    def finalized(self, feature: str) -> int:
        """The level of a cluster feature when this connection was made; 0 where there is none."""
        return self._agreed.finalized(feature)

    @property
    def _agreed(self) -> ServedVersions:
        if self._versions is None:
            raise ProtocolViolation(f"versions are not agreed with {self.server} yet")
        return self._versions

    def call(self, request: Message, response_type: type[Response], *, newest: int | None = None) -> Response:
        """One request and its response; ``newest`` bounds the version. Only with nothing else in flight."""
        if self._pending:
            raise ProtocolViolation(
                f"{len(self._pending)} responses of {self.server} are still to be received"
            )
        self.send(request, newest=newest)
        return self.receive(response_type)

    def send(
        self,
        request: Message,
        *,
        version: int | None = None,
        newest: int | None = None,
        answered: bool = True,
    ) -> None:
        """Send; ``answered=False`` for a produce with acks=0, which no response follows."""
        key = ApiKey(request.ID)
        if version is None:
            version = self.version_of(key)
            if newest is not None:
                version = min(version, newest)
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        buffers = encode_request(request, version, correlation_id, self._config.client_id)
        deadline = time.monotonic() + self._config.request_timeout_ms / 1000
        try:
            self._send_all(buffers, deadline)
        except OSError as error:
            self.close()
            raise self._failure(error, f"sending {key.name}") from error
        if answered:
            self._pending.append(_Pending(key, version, correlation_id, deadline))

    def receive(self, response_type: type[Response]) -> Response:
        """The response to the oldest request in flight."""
        pending = self._pending.popleft()
        try:
            frame = self._receive_frame(pending.deadline)
        except OSError as error:
            self.close()
            raise self._failure(error, f"waiting for the response to {pending.key.name}") from error
        try:
            response = decode_response(
                pending.key, _response_version(pending, frame), pending.correlation_id, frame, self.server
            )
        except ProtocolViolation:
            self.close()
            raise
        if not isinstance(response, response_type):
            raise TypeError(
                f"{pending.key.name} is answered by {type(response).__name__}, not {response_type}"
            )
        return response

    def readable(self, timeout_s: float = 0.0) -> bool:
        """Whether a response, or the end of the connection, can be received without waiting."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))

    @property
    def overdue(self) -> bool:
        """Whether the oldest request in flight has waited longer than ``request.timeout.ms``."""
        return bool(self._pending) and time.monotonic() > self._pending[0].deadline

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._pending.clear()
        self._socket.close()

    def _send_all(self, buffers: Sequence[Buffer], deadline: float) -> None:
        views = deque(memoryview(buffer) for buffer in buffers if len(buffer))
        while views:
            self._socket.settimeout(_remaining_s(deadline))
            sent = self._socket.sendmsg(list(views)[:_MAX_BUFFERS_PER_SEND])
            while views and sent >= len(views[0]):
                sent -= len(views.popleft())
            if sent:
                views[0] = views[0][sent:]

    def _receive_frame(self, deadline: float) -> memoryview:
        (size,) = SIZE.unpack(self._receive_exactly(SIZE.size, deadline))
        if not 0 <= size <= MAX_RESPONSE_BYTES:
            self.close()
            raise ProtocolViolation(
                f"{self.server} announced a response of {size} bytes, expected 0 to {MAX_RESPONSE_BYTES}"
            )
        return self._receive_exactly(size, deadline)

    def _receive_exactly(self, size: int, deadline: float) -> memoryview:
        view = memoryview(bytearray(size))
        position = 0
        while position < size:
            self._socket.settimeout(_remaining_s(deadline))
            received = self._socket.recv_into(view[position:])
            if not received:
                raise ConnectionResetError("the server closed the connection")
            position += received
        return view

    def _failure(self, error: OSError, doing: str) -> ServerUnreachable:
        if isinstance(error, TimeoutError):
            return RequestTimedOut(
                f"{self.server} did not complete within {self._config.request_timeout_ms} ms: {doing}"
            )
        return ServerUnreachable(f"connection to {self.server} broke while {doing}: {error}")


def _remaining_s(deadline: float) -> float:
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    return remaining_s


def _response_version(pending: _Pending, frame: memoryview) -> int:
    """A server that does not know our ApiVersions version answers in version 0 (KIP-511)."""
    is_refusal = (
        pending.key == ApiKey.API_VERSIONS
        and len(frame) >= 6
        and int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
    )
    return 0 if is_refusal else pending.version
