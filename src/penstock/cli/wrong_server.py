"""Recognize a server of another kind than the expected one, for a user who gave the wrong port.

A Kafka client would retry with such a server, and report a timeout in the end. Requests are packed by hand
here, because the import of `penstock.protocol` takes longer than this exchange.
"""

import socket
import struct
from enum import Enum, auto
from typing import Final, NamedTuple

TIMEOUT_S: Final = 3.0
"""How long to wait for a connection, and for an answer, which a server on a slow link needs."""

_API_VERSIONS: Final = 18
_METADATA: Final = 3
_BEGIN_QUORUM_EPOCH: Final = 53
_END_OF_HTTP_HEADERS: Final = b"\r\n\r\n"
"""The correlation id of the request, so that an HTTP server does not wait for the rest of a header."""

_CLIENT_ID: Final = b"penstock"
_REQUEST: Final = struct.pack(
    f">ihh4sh{len(_CLIENT_ID)}s",
    10 + len(_CLIENT_ID),
    _API_VERSIONS,
    0,  # the version that all brokers serve
    _END_OF_HTTP_HEADERS,
    len(_CLIENT_ID),
    _CLIENT_ID,
)
_RESPONSE: Final = struct.Struct(">i4s")  # size without itself, correlation id
_BODY: Final = struct.Struct(">hi")  # error code, number of APIs
_API: Final = struct.Struct(">hhh")  # key, lowest and highest version
_RESPONSE_BYTES_MAX: Final = 1 << 16
_HTTP_REQUEST: Final = b"HEAD / HTTP/1.0\r\n\r\n"


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Kind(Enum):
    """The kinds of servers that can be told apart."""

    BROKER = auto()
    CONTROLLER = auto()
    TLS = auto()
    HTTP = auto()
    UNKNOWN = auto()


class WrongServer(Exception):
    """The server is no broker; the message is a line for the user."""


_COMPLAINTS: Final = {
    Kind.CONTROLLER: "is a controller's listener, and clients connect to brokers: name a broker with "
    "--bootstrap or PENSTOCK_BOOTSTRAP",
    Kind.HTTP: "is an HTTP server, not a Kafka listener: name a broker with --bootstrap or "
    "PENSTOCK_BOOTSTRAP",
    Kind.TLS: "expects TLS: set security.protocol to SSL or SASL_SSL in the file for --command-config",
}


def connect(address: Address) -> None:
    """Connect, and close the connection. Raises OSError if nothing listens."""
    _open(address).close()


def expect_broker(address: Address, *, or_controller: bool = False) -> None:
    """Connect in plaintext, and ask which APIs are served. Raises OSError if nothing listens, WrongServer.

    A server that does not answer in time, or not in a known way, may be a broker and raises nothing.
    """
    kind = kind_at(address)
    if kind in _COMPLAINTS and not (or_controller and kind is Kind.CONTROLLER):
        raise WrongServer(f"{address} {_COMPLAINTS[kind]}")


def serves_kafka(host: str, port: int) -> bool:
    """Whether a broker or a controller listens there, where a client of an HTTP server found none."""
    try:
        return kind_at(Address(host, port)) in (Kind.BROKER, Kind.CONTROLLER)
    except OSError:
        return False


def kind_at(address: Address) -> Kind:
    """The kind of the server at an address. Raises OSError if nothing listens there."""
    with _open(address) as sock:
        try:
            sock.sendall(_REQUEST)
            head = _receive(sock, _RESPONSE.size)
            if (body_bytes := _body_bytes(head)) is not None:
                return _kind_by_apis(_receive(sock, body_bytes))
        except TimeoutError:
            return Kind.UNKNOWN
        except OSError:
            pass  # the server closed the connection, since this is not its protocol
    if _speaks_http(address):
        return Kind.HTTP
    return Kind.TLS if _speaks_tls(address) else Kind.UNKNOWN


def _open(address: Address) -> socket.socket:
    return socket.create_connection(address, TIMEOUT_S)


def _receive(sock: socket.socket, size: int) -> bytes:
    """Receive so many bytes, or fewer if the server closes the connection. Raises OSError, TimeoutError."""
    received = b""
    while len(received) < size and (more := sock.recv(size - len(received))):
        received += more
    return received


def _body_bytes(head: bytes) -> int | None:
    """The size of the response after its head; None if no Kafka response begins with these bytes."""
    if len(head) < _RESPONSE.size:
        return None
    size, correlation_id = _RESPONSE.unpack(head)
    is_response = correlation_id == _END_OF_HTTP_HEADERS and size <= _RESPONSE_BYTES_MAX
    return int(size) - len(correlation_id) if is_response else None


def _kind_by_apis(body: bytes) -> Kind:
    """The kind of a Kafka server by its ApiVersions response of version 0, without its header."""
    apis = body[_BODY.size :]
    keys = {key for key, _, _ in _API.iter_unpack(apis[: len(apis) // _API.size * _API.size])}
    if _METADATA in keys:
        return Kind.BROKER
    return Kind.CONTROLLER if _BEGIN_QUORUM_EPOCH in keys else Kind.UNKNOWN


def _speaks_http(address: Address) -> bool:
    try:
        with _open(address) as sock:
            sock.sendall(_HTTP_REQUEST)
            return _receive(sock, 5) == b"HTTP/"
    except OSError:
        return False


def _speaks_tls(address: Address) -> bool:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with _open(address) as sock, context.wrap_socket(sock):
            return True
    except OSError:
        return False
