"""`/inserts-stream`: a client sends rows, one per line, and receives an acknowledgement of each written row.

Reading and acknowledging run concurrently, since a client may send all its rows before it reads anything. The
acknowledgements that it has not read yet take no memory but two numbers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio import to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.server import media
from penstock.sql.server.asked import json_object

LINE_BYTES_MAX: Final = 8 << 20
INSERT_TYPES: Final = (media.DELIMITED, media.JSON)
_ACKS_A_PIECE: Final = 1000

Insert = Callable[..., int]


class Lines:
    """The lines of a request's body, in batches of those that arrived together."""

    def __init__(self, request: Request) -> None:
        self._parts = request.stream()
        self._rest = b""
        self._has_all = False

    async def first(self) -> bytes:
        """The first line. Raises EngineError, ClientDisconnect."""
        while b"\n" not in self._rest and await self._more():
            pass
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """Yield the other lines. Raises EngineError, ClientDisconnect."""
        while True:
            *lines, rest = self._rest.split(b"\n")
            self._rest = b"" if self._has_all else rest
            if self._has_all:
                lines.append(rest)
            if found := [line for line in lines if line.strip()]:
                yield found
            if (self._has_all or not await self._more()) and not self._rest.strip():
                return

    async def _more(self) -> bool:
        if len(self._rest) > LINE_BYTES_MAX:
            raise EngineError(
                f"found a line of more than {LINE_BYTES_MAX} bytes, expected one row", ErrorCode.BAD_REQUEST
            )
        async for part in self._parts:
            self._rest += part
            return True
        self._has_all = True
        return False


@dataclass
class _Progress:
    """The progress of the inserts: ``inserted`` rows were written; ``error`` is that of the next row."""

    inserted: int = 0
    error: EngineError | None = None
    has_all: bool = False


class InsertsResponse(Response):
    """An answer that inserts rows while it is sent."""

    def __init__(self, lines: Lines, insert: Insert, media_type: str) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._lines = lines
        self._insert = insert
        self._is_array = media_type == media.JSON
        self._progress = _Progress()
        self._has_arrived = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        # Clients wait for the head of the answer before they send rows.
        await send({"type": "http.response.body", "body": b"[" if self._is_array else b"", "more_body": True})
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._take_rows)
                await self._acknowledge(send)
                group.cancel_scope.cancel()
        except* ClientDisconnect:
            pass  # the rows that arrived were inserted

    async def _take_rows(self) -> None:
        try:
            async for lines in self._lines.batches():
                await to_thread.run_sync(self._insert_all, lines)
                self._notify()
                if self._progress.error is not None:
                    return
        except EngineError as error:
            self._progress.error = error
        self._progress.has_all = True
        self._notify()

    def _insert_all(self, lines: list[bytes]) -> None:
        rows: list[dict[str, Any]] = []
        wrong: EngineError | None = None
        for line in lines:
            try:
                rows.append(_row(line))
            except EngineError as error:
                wrong = error
                break
        try:
            self._progress.inserted += self._insert(*rows)
            self._progress.error = wrong
        except EngineError as error:
            self._progress.inserted += error.inserted
            self._progress.error = error

    def _notify(self) -> None:
        self._has_arrived.set()

    async def _acknowledge(self, send: Send) -> None:
        acknowledged = 0
        while True:
            await self._has_arrived.wait()
            self._has_arrived = anyio.Event()
            has_ended = self._progress.has_all or self._progress.error is not None
            while acknowledged < self._progress.inserted:
                end = min(self._progress.inserted, acknowledged + _ACKS_A_PIECE)
                piece = "".join(
                    self._element(number, f'{{"status":"ok","seq":{number}}}')
                    for number in range(acknowledged, end)
                )
                acknowledged = end
                await send({"type": "http.response.body", "body": piece.encode(), "more_body": True})
            if has_ended:
                await send(
                    {"type": "http.response.body", "body": self._end(acknowledged), "more_body": False}
                )
                return

    def _end(self, acknowledged: int) -> bytes:
        error, end = self._progress.error, "]" if self._is_array else ""
        if error is None:
            return end.encode()
        shown = {**error.to_json(), "status": "error", "seq": acknowledged}
        return f"{self._element(acknowledged, json.dumps(shown, ensure_ascii=False))}{end}".encode()

    def _element(self, number: int, text: str) -> str:
        if not self._is_array:
            return f"{text}\n"
        return f",{text}" if number else text


def _row(line: bytes) -> dict[str, Any]:
    """Parse one row. Raises EngineError."""
    try:
        return json_object(line, exact=True)
    except EngineError as error:
        raise EngineError(f"Invalid JSON in inserts stream: {error.message}", error.code) from None
