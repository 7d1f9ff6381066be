"""uvicorn's HTTP/1.1 with limits: the head of a request has a maximum size and a timeout."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.web.certificates import with_certificate

_HEAD_BYTES_MAX: Final = 64 << 10
_HEAD_S: Final = 30.0
"""The time from the first byte of a request to the end of its headers."""


class BoundedHttp1Protocol(HttpToolsProtocol):
    """A connection that is closed if a request's head is too large or too slow."""

    _is_in_head = False
    _head_bytes = 0
    _head_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self.app_state = with_certificate(self.app_state, transport)
        super().connection_made(_HeadsWithBodies(transport, self.loop))  # type: ignore[arg-type]  # as good as one

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_in_head or self.transport.is_closing():
            return
        # Most heads are complete by now and need no timer.
        if self._head_deadline is None:
            self._head_deadline = self.loop.call_later(_HEAD_S, self.transport.close)
        self._head_bytes += len(data)
        if self._head_bytes > _HEAD_BYTES_MAX:
            self._end_head()
            self.send_400_response(f"The headers have more than {_HEAD_BYTES_MAX} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def _end_head(self) -> None:
        self._is_in_head = False
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None


class _HeadsWithBodies:
    """A transport that writes the head of an answer with the next data, or at the end of the loop's turn.

    uvicorn writes them one by one, which takes two packets and two system calls for an answer of a few bytes.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._write_head)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._write_head()
        self._transport.close()

    def _write_head(self) -> None:
        if self._head:
            self.write(b"")
