"""One blocking connection to one server; responses are received in the order of the requests.

Requests may be pipelined (`send` several, then `receive` in the same order). A connection does no retries and
no routing, and belongs to one thread at a time.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from penstock.client.config import ClientConfig, ServerAddress
from penstock.client.connections.frames import ServedVersions, decode_response, encode_request
from penstock.client.errors import (
    AuthenticationFailed,
    ClientError,
    ProtocolViolation,
    RequestTimedOut,
    ServerUnreachable,
)
from penstock.client.security.security_config import tls_context
from penstock.protocol import software
from penstock.protocol.api_keys import ApiKey, api_range
from penstock.protocol.batch import Buffer
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.frames import SIZE
from penstock.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from penstock.security.sasl.clients import (
    Credentials,
    KerberosTicket,
    Login,
    LoginUnavailable,
    SaslRejected,
    converse,
)

Response = TypeVar("Response")

MAX_RESPONSE_BYTES: Final = 1 << 30
"""The largest response that is accepted, in bytes.

A fetch may exceed ``fetch.max.bytes`` by one batch only, so a larger size means that the other side is no
Kafka server.
"""

_HTTP: Final = int.from_bytes(b"HTTP")
"""The size that the client reads if an HTTP server answers."""

_PART_OF_SESSION: Final = 0.9
"""When to authenticate again: Kafka's clients do so after 0.85 to 0.95 of the session.

A token is due after at most 0.85 of its life, so that this needs a new one.
"""

_MAX_BUFFERS_PER_SEND: Final = 512
"""The largest number of buffers per ``sendmsg``, below IOV_MAX on every system."""

_MAX_BYTES_PER_ENCRYPTED_SEND: Final = 1 << 20
"""The most bytes per TLS write, so that the timeout of a slow server is checked in between."""


class _Pending(NamedTuple):
    key: ApiKey
    version: int
    correlation_id: int
    deadline: float


class Connection:
    """An open connection; create it with `connect`. ``server`` is the address that errors show."""

    def __init__(self, sock: socket.socket, address: ServerAddress, config: ClientConfig) -> None:
        self.server = str(address)
        self._host = address.host
        self._socket = sock
        self._config = config
        self._pending: deque[_Pending] = deque()
        self._next_correlation_id = 0
        self._versions: ServedVersions | None = None
        self._authenticate_at_s: float | None = None
        """When to authenticate again; None if the session has no end."""

    @classmethod
    def connect(cls, address: ServerAddress, config: ClientConfig) -> Connection:
        """Connect, secure the connection as configured, and negotiate API versions.

        Raises ServerUnreachable, UnsupportedByServer, AuthenticationFailed, ConfigError.
        """
        try:
            sock = socket.create_connection(address, config.connect_timeout_ms / 1000)
        except OSError as error:
            raise ServerUnreachable(f"cannot connect to {address}: {error}") from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if config.uses_tls:
            sock = _secured(sock, address, config)
        connection = cls(sock, address, config)
        try:
            connection._negotiate()
            if config.uses_sasl:
                connection._authenticate()
        except BaseException:
            connection.close()
            raise
        return connection

    def _negotiate(self) -> None:
        """Agree on API versions.

        ApiVersions is sent in its newest version first; an older server answers in version 0 with the
        versions that it serves.
        """
        newest = api_range(ApiKey.API_VERSIONS)[1]
        request = ApiVersionsRequest(
            client_software_name=software.NAME, client_software_version=software.VERSION
        )
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

    def _authenticate(self) -> None:
        """Send SaslHandshake, then SaslAuthenticate until the mechanism has finished (KIP-152).

        A session may have an end, before which the client authenticates again (KIP-368).
        """
        self._authenticate_at_s = None
        mechanism = self._config.sasl_mechanism
        assert mechanism is not None
        try:
            login = self._config.credentials(self._host)
        except LoginUnavailable as error:
            raise AuthenticationFailed(f"cannot log in at {self.server} by {mechanism}: {error}") from None
        handshake = self.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
        if handshake.error_code:
            served = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{self.server} does not support 'sasl.mechanism' {mechanism}: expected one of {served}"
            )
        conversation = converse(mechanism, login)
        began_at_s, session_ms = time.monotonic(), 0
        try:
            said = next(conversation)
            while True:
                answer = self.call(SaslAuthenticateRequest(auth_bytes=said), SaslAuthenticateResponse)
                if answer.error_code:
                    raise SaslRejected(answer.error_message or f"error code {answer.error_code}")
                session_ms = answer.session_lifetime_ms
                said = conversation.send(bytes(answer.auth_bytes))
        except StopIteration:
            if session_ms > 0:
                self._authenticate_at_s = began_at_s + session_ms / 1000 * _PART_OF_SESSION
        except SaslRejected as refusal:
            raise AuthenticationFailed(
                f"{self.server}: {_who(login)} is not authenticated by {mechanism}: {refusal}"
            ) from None

    def _authenticate_again(self) -> None:
        try:
            self._authenticate()
        except BaseException:
            self.close()
            raise

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def version_of(self, key: ApiKey) -> int:
        """The version in which requests of this API are sent."""
        return self._agreed.choose(key)

    def finalized(self, feature: str) -> int:
        """The level of a cluster feature when this connection was made; 0 if the feature is not finalized."""
        return self._agreed.finalized(feature)

    @property
    def _agreed(self) -> ServedVersions:
        if self._versions is None:
            raise ProtocolViolation(f"API versions are not negotiated with {self.server} yet")
        return self._versions

    def call(self, request: Message, response_type: type[Response], *, newest: int | None = None) -> Response:
        """Send a request and return its response; ``newest`` bounds the version.

        Raises ProtocolViolation while other requests are in flight.
        """
        if self._pending:
            raise ProtocolViolation(f"{len(self._pending)} responses of {self.server} are still in flight")
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
        """Send a request; pass ``answered=False`` for a produce with acks=0, which has no response."""
        is_due = self._authenticate_at_s is not None and time.monotonic() >= self._authenticate_at_s
        if is_due and not self._pending:
            self._authenticate_again()
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
        """Receive the response to the oldest request in flight.

        A response that arrived, at least in part, before this call is never too late.
        """
        is_late = self.overdue
        pending = self._pending.popleft()
        deadline = pending.deadline
        try:
            if is_late and self.readable():
                deadline = time.monotonic() + self._config.request_timeout_ms / 1000
            frame = self._receive_frame(deadline)
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
        if self.has_decrypted:
            return True
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))

    @property
    def overdue(self) -> bool:
        """Whether the oldest request in flight has waited longer than ``request.timeout.ms``."""
        return bool(self._pending) and time.monotonic() > self._pending[0].deadline

    @property
    def has_decrypted(self) -> bool:
        """Whether TLS holds decrypted bytes, which polling the socket would not report."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called or the connection failed."""
        return self._socket.fileno() < 0

    def close(self) -> None:
        self._pending.clear()
        self._socket.close()

    def _send_all(self, buffers: Sequence[Buffer], deadline: float) -> None:
        if isinstance(self._socket, ssl.SSLSocket):
            self._send_encrypted(self._socket, buffers, deadline)
            return
        views = deque(memoryview(buffer) for buffer in buffers if len(buffer))
        while views:
            self._socket.settimeout(_remaining_s(deadline))
            sent = self._socket.sendmsg(list(views)[:_MAX_BUFFERS_PER_SEND])
            while views and sent >= len(views[0]):
                sent -= len(views.popleft())
            if sent:
                views[0] = views[0][sent:]

    @staticmethod
    def _send_encrypted(sock: ssl.SSLSocket, buffers: Sequence[Buffer], deadline: float) -> None:
        """Send through TLS, which has no writev: buffers are joined, then copied again by the encryption."""
        view = memoryview(b"".join(buffers))
        while view:
            sock.settimeout(_remaining_s(deadline))
            view = view[sock.send(view[:_MAX_BYTES_PER_ENCRYPTED_SEND]) :]

    def _receive_frame(self, deadline: float) -> memoryview:
        (size,) = SIZE.unpack(self._receive_exactly(SIZE.size, deadline))
        if not 0 <= size <= MAX_RESPONSE_BYTES:
            self.close()
            raise ProtocolViolation(
                f"{self.server} announced a response of {size} bytes, expected 0 to {MAX_RESPONSE_BYTES}"
                + (": these bytes are 'HTTP', so this is an HTTP server" if size == _HTTP else "")
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

    def _failure(self, error: OSError, doing: str) -> ClientError:
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            # With TLS 1.3 a server verifies the client's certificate only after the handshake.
            return AuthenticationFailed(
                f"{self.server} ended the TLS connection while {doing}: {error.reason}"
            )
        if isinstance(error, TimeoutError):
            return RequestTimedOut(
                f"{self.server} timed out after {self._config.request_timeout_ms} ms while {doing}"
            )
        return ServerUnreachable(f"connection to {self.server} broke while {doing}: {error}")


def _secured(sock: socket.socket, address: ServerAddress, config: ClientConfig) -> ssl.SSLSocket:
    """Wrap the socket in TLS. Raises AuthenticationFailed, ServerUnreachable, ConfigError and closes it."""
    try:
        return tls_context(config).wrap_socket(sock, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        reason = error.verify_message or str(error)
        raise AuthenticationFailed(
            f"the certificate of {address} is not accepted: {reason}. Set 'ssl.truststore.location' "
            "to the certificates to trust"
        ) from None
    except ssl.SSLError as error:
        raise AuthenticationFailed(f"no TLS with {address}: {error.reason or error}") from None
    except OSError as error:
        raise ServerUnreachable(f"cannot connect to {address}: {error}") from error
    finally:
        # After a successful wrap this socket is detached; after a failure only this call closes it.
        sock.close()


def _who(login: Credentials) -> str:
    if isinstance(login, Login):
        return f"user {login.username!r}"
    return login.principal if isinstance(login, KerberosTicket) else "the holder of the token"


def _remaining_s(deadline: float) -> float:
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    return remaining_s


def _response_version(pending: _Pending, frame: memoryview) -> int:
    """The version of the response: 0 if the server does not know our ApiVersions version (KIP-511)."""
    is_refusal = (
        pending.key == ApiKey.API_VERSIONS
        and len(frame) >= 6
        and int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
    )
    return 0 if is_refusal else pending.version
