"""Answers that go on: pieces of a reading to one client, as fast as it takes them, until either has ended.

A thread waits for the next ones; while a client takes none, nothing waits but its own request, and what
makes rows is held by the result's queue. A client that has gone away ends its query.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

import anyio
from anyio import CapacityLimiter, to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.sql.server.reading import Reading

#: Of rows that are waited for at once, by a thread each.
_STREAMS_MAX: Final = 512


class Streams:
    """What is being read. At the end of the server all of it ends properly."""

    def __init__(self) -> None:
        self.limiter = CapacityLimiter(_STREAMS_MAX)
        self._open: set[Reading] = set()
        self._lock = threading.Lock()
        self.is_closed = False

    def opened(self, reading: Reading) -> None:
        with self._lock:
            self._open.add(reading)
            is_closed = self.is_closed
        if is_closed:
            reading.close()

    def closed(self, reading: Reading) -> None:
        with self._lock:
            self._open.discard(reading)
        reading.close()

    def close(self) -> None:
        """Those that are open, and all that will be."""
        with self._lock:
            self.is_closed = True
            readings = list(self._open)
        for reading in readings:
            reading.close()


class StreamedResponse(Response):
    """The pieces of a reading that `Streams.opened` knows."""

    def __init__(self, reading: Reading, streams: Streams) -> None:
        super().__init__(media_type=reading.media_type)
        del self.headers["content-length"]
        self._reading = reading
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, receive)
                await self._send(send)
                group.cancel_scope.cancel()
        except asyncio.CancelledError:
            if not self._streams.is_closed:
                raise
            # The server ends, and this client has not read what was left for it.
        finally:
            # Nothing waits for it: this may be the task's last breath.
            asyncio.get_running_loop().run_in_executor(None, self._streams.closed, self._reading)

    async def _watch(self, receive: Receive) -> None:
        """What is left of the request says nothing; then the client is gone."""
        while (await receive())["type"] != "http.disconnect":
            pass
        await to_thread.run_sync(self._reading.close)

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        pieces: list[bytes] | None = [self._reading.begin()]
        while pieces is not None:
            for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            pieces = await to_thread.run_sync(self._reading.next_pieces, limiter=self._streams.limiter)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
