"""HTTP/2 without TLS beside HTTP/1.1 on one port (RFC 9113, 3.3); a connection's first bytes decide.

h2 implements the protocol without I/O. This module moves its bytes, manages its windows, and runs uvicorn's
application once for each stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from penstock.web.certificates import with_certificate
from penstock.web.http1 import BoundedHttp1Protocol

log = logging.getLogger(__name__)

Message = dict[str, Any]

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_STREAMS_MAX: Final = 100
_HEADERS_BYTES_MAX: Final = 64 << 10
_WINDOW_BYTES: Final = 256 << 10
"""The bytes that a client may send ahead of the application on one stream.

The connection's window covers all streams, so that one stream never blocks the others.
"""

_SETTINGS: Final = {
    SettingCodes.MAX_CONCURRENT_STREAMS: _STREAMS_MAX,
    SettingCodes.MAX_HEADER_LIST_SIZE: _HEADERS_BYTES_MAX,
    SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW_BYTES,
}
_FRAMES_A_WRITE: Final = 8
_LAST_WORDS_S: Final = 2.0
_NOT_FOR_HTTP2: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
"""Headers of HTTP/1.1 that HTTP/2 forbids (8.2.2)."""


class EitherProtocol(asyncio.Protocol):
    """A new connection until its protocol is known."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._config = config
        self._state = server_state
        self._app_state = app_state
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._state.connections.add(self)  # type: ignore[arg-type]
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._config.timeout_keep_alive, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._state.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < len(_PREFACE) and _PREFACE.startswith(self._received):
            return
        self.connection_lost(None)
        kind = Http2Protocol if self._received.startswith(_PREFACE) else BoundedHttp1Protocol
        protocol = kind(config=self._config, server_state=self._state, app_state=self._app_state)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._received)

    def shutdown(self) -> None:
        self._transport.close()


class Http2Protocol(asyncio.Protocol):
    """One connection and its streams."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        self.config = config
        self.app_state = app_state
        self._state = server_state
        self._streams: dict[int, _Stream] = {}
        self._running: set[asyncio.Task[None]] = set()
        """The tasks of all streams.

        Tasks of reset streams count until they end, so that a client gains nothing by resetting streams and
        opening new ones.
        """

        self._is_closing = False
        self._has_hung_up = False
        self._is_flushing_soon = False
        self._idle: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        # Changes to the existing settings would apply only after the client confirms them.
        self.h2.local_settings = Settings(client=False, initial_values=_SETTINGS)
        self.h2.decoder.max_header_list_size = _HEADERS_BYTES_MAX

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.app_state = with_certificate(self.app_state, transport)
        self.client = get_remote_addr(transport)
        self.server = get_local_addr(transport)
        self._state.connections.add(self)  # type: ignore[arg-type]
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(_STREAMS_MAX * _WINDOW_BYTES)
        self.flush()
        self._watch_idleness()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._is_closing = True
        self._writable.set()
        if self._idle is not None:
            self._idle.cancel()
        self._close_streams()

    def _close_streams(self) -> None:
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    def shutdown(self) -> None:
        """Let streams in progress finish, and accept no new ones."""
        self._is_closing = True
        if not self._streams:
            self._transport.close()

    def pause_writing(self) -> None:
        """Pause reading too: answers to pings and settings must not pile up if the client reads nothing."""
        self._writable.clear()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self._transport.resume_reading()

    def eof_received(self) -> None:
        return None

    def data_received(self, data: bytes) -> None:
        if self._has_hung_up:
            return
        try:
            for event in self.h2.receive_data(data):
                self._handle(event)
        except H2Error as error:
            log.info("client violated the protocol client=%s error=%s", self.client, error)
            self._hang_up()
        else:
            self.flush()

    def _hang_up(self) -> None:
        """Close the sending side, and keep reading for a while.

        Closing the socket at once would reset it, and the client might never read the reason.
        """
        self.flush()
        self._has_hung_up = self._is_closing = True
        self._close_streams()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._transport.close)

    def _handle(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._begin(event)
            case DataReceived() if event.stream_id in self._streams:
                self._streams[event.stream_id].received(event.data, event.flow_controlled_length)
            # The stream was answered already, but its data still uses the connection's window.
            case DataReceived():
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded() if event.stream_id in self._streams:
                self._streams[event.stream_id].ended()
            case StreamReset() if event.stream_id in self._streams:
                self._streams.pop(event.stream_id).close()
                self._watch_idleness()
            case WindowUpdated(stream_id=0) | RemoteSettingsChanged():
                for stream in self._streams.values():
                    stream.has_room.set()
            case WindowUpdated() if event.stream_id in self._streams:
                self._streams[event.stream_id].has_room.set()
            case ConnectionTerminated():
                self._hang_up()

    def _begin(self, event: RequestReceived) -> None:
        if self._is_closing or len(self._running) >= _STREAMS_MAX:
            # A frame received together with the request may have reset the stream already.
            with contextlib.suppress(StreamClosedError):
                self.h2.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return
        stream = _Stream(self, event.stream_id, event.headers or ())
        self._streams[event.stream_id] = stream
        self._watch_idleness()
        task = asyncio.get_running_loop().create_task(stream.run())
        for tasks in (self._running, self._state.tasks):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def finished(self, stream: _Stream) -> None:
        self._streams.pop(stream.id, None)
        self._watch_idleness()
        if self._is_closing and not self._streams:
            self._transport.close()

    def _watch_idleness(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._streams and not self._is_closing:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self.config.timeout_keep_alive, self._transport.close)

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        return self._state.default_headers

    def flush_soon(self) -> None:
        """Flush once for everything that is sent in this turn of the loop, since each row is a frame."""
        if not self._is_flushing_soon:
            self._is_flushing_soon = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._is_flushing_soon = False
        data = self.h2.data_to_send()
        if data and not self._has_hung_up and not self._transport.is_closing():
            self._transport.write(data)

    async def writable(self) -> None:
        await self._writable.wait()


class _Stream:
    """One request and its answer, as ASGI's receive and send."""

    def __init__(
        self, connection: Http2Protocol, number: int, headers: Iterable[tuple[bytes, bytes]]
    ) -> None:
        self.id = number
        self.has_room = asyncio.Event()
        self._connection = connection
        self._scope = _scope(connection, list(headers))
        self._body: deque[tuple[bytes, int]] = deque()
        self._has_all = False
        self._was_told_all = False
        self._has_changed = asyncio.Event()
        self._is_closed = False
        self._has_begun = False
        self._has_ended = False

    # Called by the connection

    def received(self, data: bytes, window_bytes: int) -> None:
        self._body.append((data, window_bytes))
        self._has_changed.set()

    def ended(self) -> None:
        self._has_all = True
        self._has_changed.set()

    def close(self) -> None:
        """End the stream: the client is gone, or no longer wants the answer."""
        self._is_closed = True
        self._forget_body()
        self._has_changed.set()
        self.has_room.set()

    def _forget_body(self) -> None:
        """Drop the unread body, and return its flow-control window to the connection."""
        while self._body:
            self._connection.h2.acknowledge_received_data(self._body.popleft()[1], self.id)

    # Called by the application

    async def run(self) -> None:
        try:
            await self._connection.config.loaded_app(self._scope, self._receive, self._send)
        except Exception:
            if not self._is_closed:
                log.exception("request failed method=%s path=%s", self._scope["method"], self._scope["path"])
        finally:
            self._end()

    def _end(self) -> None:
        if not self._is_closed:
            self._forget_body()
            try:
                if not self._has_begun:
                    self._connection.h2.send_headers(self.id, [(b":status", b"500")], end_stream=True)
                elif not self._has_ended:
                    self._connection.h2.reset_stream(self.id, ErrorCodes.INTERNAL_ERROR)
                # The rest of the body will not be read.
                if not self._has_all:
                    self._connection.h2.reset_stream(self.id, ErrorCodes.NO_ERROR)
            except ProtocolError as error:
                log.debug("stream closed before its end was sent stream=%d error=%s", self.id, error)
            self._connection.flush()
        self._connection.finished(self)

    async def _receive(self) -> Message:
        while not self._is_closed:
            if self._body:
                data, window_bytes = self._body.popleft()
                self._connection.h2.acknowledge_received_data(window_bytes, self.id)
                self._connection.flush()
                self._was_told_all = self._has_all and not self._body
                return {"type": "http.request", "body": data, "more_body": not self._was_told_all}
            if self._has_all and not self._was_told_all:
                self._was_told_all = True
                return {"type": "http.request", "body": b"", "more_body": False}
            if self._has_ended:
                break
            self._has_changed.clear()
            await self._has_changed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        """Send one ASGI message. Data for a client that is gone is dropped, as in uvicorn's own protocols."""
        if self._is_closed:
            return
        match message["type"]:
            case "http.response.start":
                sent = [(b":status", b"%d" % message["status"]), *self._connection.default_headers]
                named = ((name.lower(), value) for name, value in message.get("headers", ()))
                sent += [(name, value) for name, value in named if name not in _NOT_FOR_HTTP2]
                self._connection.h2.send_headers(self.id, sent)
                self._connection.flush()
                self._has_begun = True
            case "http.response.body":
                is_last = not message.get("more_body", False)
                data = b"" if self._scope["method"] == "HEAD" else message.get("body", b"")
                await self._send_data(data, is_last)

    async def _send_data(self, data: bytes, is_last: bool) -> None:
        """Send data as fast as the client's window and the socket allow."""
        h2 = self._connection.h2
        left = memoryview(data)
        while left and not self._is_closed:
            await self._connection.writable()
            self.has_room.clear()
            for _ in range(_FRAMES_A_WRITE):
                if self._is_closed:
                    return
                size = min(len(left), h2.local_flow_control_window(self.id), h2.max_outbound_frame_size)
                if size <= 0:
                    break
                h2.send_data(self.id, left[:size].tobytes())
                left = left[size:]
            self._connection.flush_soon()
            if left and h2.local_flow_control_window(self.id) <= 0:
                await self.has_room.wait()
        if is_last and not self._is_closed:
            h2.end_stream(self.id)
            self._has_ended = True
            self._has_changed.set()
            self._connection.flush_soon()


def _scope(connection: Http2Protocol, headers: list[tuple[bytes, bytes]]) -> Message:
    """The ASGI scope of a request; h2 has checked that each pseudo header appears once."""
    pseudo = {name: value for name, value in headers if name.startswith(b":")}
    named = [(name, value) for name, value in headers if not name.startswith(b":")]
    if b":authority" in pseudo:
        named = [(b"host", pseudo[b":authority"]), *(each for each in named if each[0] != b"host")]
    raw_path, _, query = pseudo.get(b":path", b"/").partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": connection.config.asgi_version, "spec_version": "2.3"},
        "http_version": "2",
        "method": pseudo[b":method"].decode("ascii"),
        "scheme": pseudo.get(b":scheme", b"http").decode("ascii"),
        "path": unquote(raw_path.decode("latin-1")),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": connection.config.root_path,
        "headers": named,
        "client": connection.client,
        "server": connection.server,
        "state": connection.app_state.copy(),
    }
