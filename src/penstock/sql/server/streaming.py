"""Answers that stream: the pieces of a reading go to one client as fast as it accepts them.

While a client accepts nothing, or there are no pieces, only its own request waits; the result pauses the
producer of rows. The query ends when the client disconnects or accepts nothing for too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import Final

import anyio
from anyio import CapacityLimiter, to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.sql.server.reading import RowReading

log = logging.getLogger(__name__)

_THREADS_MAX: Final = 64
"""Limit on queries that start, or compute rows while they are read, at the same time: each needs a thread."""


class Streams:
    """The open readings of a server. When it shuts down, each answer ends in an orderly way.

    ``idle_s`` limits how long a client may leave a piece that is ready for it unread.
    """

    def __init__(self, idle_s: float) -> None:
        self.limiter = CapacityLimiter(_THREADS_MAX)
        self.idle_s = idle_s
        self._open: set[RowReading] = set()
        self._ended_rows = 0
        self._lock = threading.Lock()
        self.is_closed = False

    def opened(self, reading: RowReading) -> None:
        with self._lock:
            self._open.add(reading)
            is_closed = self.is_closed
        if is_closed:
            reading.close()

    def closed(self, reading: RowReading) -> None:
        with self._lock:
            if reading in self._open:
                self._open.remove(reading)
                self._ended_rows += reading.rows
        reading.close()

    def is_read_by(self, query_id: str, reader: str) -> bool:
        """Whether a query is read by this client."""
        with self._lock:
            return any(each.query_id == query_id and each.reader == reader for each in self._open)

    @property
    def rows(self) -> int:
        """Rows of all readings so far."""
        with self._lock:
            return self._ended_rows + sum(reading.rows for reading in self._open)

    def close(self) -> None:
        """Close the readings that are open, and any that will be opened."""
        with self._lock:
            self.is_closed = True
            readings = list(self._open)
        for reading in readings:
            reading.close()


class StreamedResponse(Response):
    """The answer that sends the pieces of a reading, which was registered by `Streams.opened`."""

    def __init__(self, reading: RowReading, streams: Streams) -> None:
        super().__init__(media_type=reading.media_type)
        del self.headers["content-length"]
        self._reading = reading
        self._streams = streams
        self._has_arrived = asyncio.Event()
        self._sent = 0
        self._is_sending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, receive)
                group.start_soon(self._end_idle, group.cancel_scope)
                await self._send(send)
                group.cancel_scope.cancel()
        except asyncio.CancelledError:
            if not self._streams.is_closed:
                raise
            # The server shuts down, and this client has not read all that was ready for it.
        finally:
            # Don't await this: the task may be cancelled already.
            asyncio.get_running_loop().run_in_executor(None, self._streams.closed, self._reading)

    async def _watch(self, receive: Receive) -> None:
        """Discard the rest of the request until the client disconnects, then close the reading."""
        while (await receive())["type"] != "http.disconnect":
            pass
        await to_thread.run_sync(self._reading.close)

    async def _end_idle(self, scope: anyio.CancelScope) -> None:
        """Abort the answer, without a proper end of its body, if the client accepts nothing for too long."""
        while True:
            sent, is_sending = self._sent, self._is_sending
            await asyncio.sleep(self._streams.idle_s)
            if is_sending and self._is_sending and self._sent == sent:
                log.info("query of an idle client ended idle_s=%g", self._streams.idle_s)
                scope.cancel()
                return

    async def _send(self, send: Send) -> None:
        loop = asyncio.get_running_loop()

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed when the server shut down
                loop.call_soon_threadsafe(self._has_arrived.set)

        self._reading.on_arrival(notify)
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        pieces: list[bytes] | None = [self._reading.begin()]
        while pieces is not None:
            self._is_sending = True
            for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                self._sent += 1
            self._is_sending = False
            pieces = await self._next_pieces()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next_pieces(self) -> list[bytes] | None:
        if not self._reading.is_notified:
            return await to_thread.run_sync(self._reading.next_pieces, limiter=self._streams.limiter)
        await asyncio.sleep(0)  # let other tasks run
        while True:
            self._has_arrived.clear()
            pieces = self._reading.next_pieces()
            if pieces != []:
                return pieces
            await self._has_arrived.wait()
