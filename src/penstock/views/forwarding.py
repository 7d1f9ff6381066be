"""Forwarding: GET requests from one view node to another, over HTTP/1.1 with persistent connections."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import h11

_CONNECT_S: Final = 1.0
_READ_BYTES: Final = 1 << 16
_KEPT_MAX: Final = 64

Header = tuple[str, str]


class Unreachable(ConnectionError):
    """The other node did not answer; it is unknown whether it is up."""


class Response(NamedTuple):
    status: int
    body: bytes


class _Link:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host
        self._http = h11.Connection(h11.CLIENT)

    async def get(self, target: str, headers: list[Header]) -> Response:
        sent = [("host", self._host), *headers]
        request = self._http.send(h11.Request(method="GET", target=target, headers=sent))
        self._writer.write((request or b"") + (self._http.send(h11.EndOfMessage()) or b""))
        await self._writer.drain()
        status, body = 0, bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await self._reader.read(_READ_BYTES)
                if not data and not status:
                    raise ConnectionResetError("closed before the response")
                self._http.receive_data(data)
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return Response(status, bytes(body))
            else:
                raise ConnectionResetError(f"unexpected {type(event).__name__}")

    def reusable(self) -> bool:
        """Prepare the connection for the next request; return False if the server does not keep it open."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return not self._writer.is_closing()
        return False

    def close(self) -> None:
        self._writer.close()


class Forwarder:
    """A client for requests to other nodes, which belongs to one event loop.

    Args:
        tls: the context for nodes with HTTPS. With it, nodes without HTTPS are not asked: they are no nodes
            of this application, and would see the credentials.
        credentials: headers that identify this node to the others.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, credentials: Sequence[Header] = ()) -> None:
        self._tls = tls
        self._credentials = list(credentials)
        self._kept: dict[str, deque[_Link]] = {}

    async def get(self, endpoint: str, target: str, headers: list[Header], timeout_s: float) -> Response:
        """Send a GET request; ``target`` is the encoded path and query. Raises Unreachable."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._get(endpoint, target, [*headers, *self._credentials])
        except (OSError, TimeoutError, h11.ProtocolError) as error:
            raise Unreachable(f"{endpoint}: {error or type(error).__name__}") from error

    async def _get(self, endpoint: str, target: str, headers: list[Header]) -> Response:
        kept = self._kept.setdefault(endpoint, deque())
        while kept:
            link = kept.pop()
            try:
                return await self._on(link, kept, target, headers)
            except (OSError, h11.ProtocolError):
                continue  # the server closed the idle connection
        return await self._on(await self._connect(endpoint), kept, target, headers)

    async def _connect(self, endpoint: str) -> _Link:
        address = urlsplit(endpoint)
        is_https = address.scheme == "https"
        if is_https != (self._tls is not None):
            expected = "http" if self._tls is None else "https"
            raise ConnectionRefusedError(f"expected {expected}, as this node has it")
        port = address.port or (443 if is_https else 80)
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(address.hostname, port, ssl=self._tls)
        return _Link(reader, writer, address.netloc)

    async def _on(self, link: _Link, kept: deque[_Link], target: str, headers: list[Header]) -> Response:
        try:
            response = await link.get(target, headers)
        except BaseException:
            link.close()
            raise
        if len(kept) < _KEPT_MAX and link.reusable():
            kept.append(link)
        else:
            link.close()
        return response

    def close(self) -> None:
        for kept in self._kept.values():
            for link in kept:
                link.close()
        self._kept.clear()
