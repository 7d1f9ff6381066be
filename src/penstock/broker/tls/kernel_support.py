"""Find out whether the kernel can encrypt connections with TLS (kernel TLS), and whether it does for one.

The kernel needs its module `tls`, and OpenSSL must be built to give it the keys of a connection. OpenSSL does
so for the ciphers that the kernel knows, AES-GCM above all, if the context has OP_ENABLE_KTLS.
"""

from __future__ import annotations

import errno
import socket
import ssl
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from penstock.security.tls.contexts import server_context
from penstock.security.tls.stores import Stores

OP_ENABLE_KTLS: Final = 1 << 3
"""The option of OpenSSL's contexts that Python names from 3.12."""

_TCP_ULP: Final = 31
_SOL_TLS: Final = 282
_TLS_TX: Final = 1
_VERSIONS: Final = frozenset({0x0303, 0x0304})  # TLS 1.2 and 1.3

_PROBE_TIMEOUT_S: Final = 5.0


def is_offloaded(sock: socket.socket) -> bool:
    """Whether the kernel encrypts what is written to this socket."""
    try:
        version, cipher = struct.unpack("HH", sock.getsockopt(_SOL_TLS, _TLS_TX, 4))  # no room for the keys
    except (OSError, struct.error):
        return False
    return version in _VERSIONS and cipher != 0


def kernel_tls_obstacle(stores: Stores) -> str | None:
    """Return why the kernel does not encrypt for a listener with these stores; None if it does.

    A handshake between two sockets of this process shows it. Blocks for some milliseconds.
    """
    try:
        with _connected() as (server, _client):
            server.setsockopt(socket.IPPROTO_TCP, _TCP_ULP, b"tls")
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOPROTOOPT}:
            return "the kernel's module tls is missing; after 'modprobe tls', a restarted node uses it"
        return f"the kernel refuses it: {error.strerror or error}"
    try:
        offloads = _offloads(stores)
    except OSError as error:
        return f"a trial handshake fails: {error.strerror or error}"
    return None if offloads else "OpenSSL is built without it, or the kernel lacks the listener's ciphers"


def _offloads(stores: Stores) -> bool:
    """Whether a connection to a listener with these stores is offloaded. Raises OSError."""
    serving = server_context(replace(stores.settings, client_auth="none"), stores)
    serving.options |= OP_ENABLE_KTLS
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    calling.check_hostname = False
    calling.verify_mode = ssl.CERT_NONE
    with (
        _connected() as (server, client),
        serving.wrap_socket(server, server_side=True, do_handshake_on_connect=False) as server_tls,
        calling.wrap_socket(client, do_handshake_on_connect=False) as client_tls,
        ThreadPoolExecutor(1) as worker,
    ):
        shaken = worker.submit(client_tls.do_handshake)
        server_tls.do_handshake()
        shaken.result()
        return is_offloaded(server_tls)


@contextmanager
def _connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A pair of connected sockets with time limits. Raises OSError."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(_PROBE_TIMEOUT_S)
        client = socket.create_connection(listening.getsockname(), _PROBE_TIMEOUT_S)
        with client:
            server, _ = listening.accept()
            with server:
                server.settimeout(_PROBE_TIMEOUT_S)
                yield server, client
