"""The rows of a query, encoded in pieces that are ready to be sent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.reading.results import QueryResult, QueuedRows
from penstock.sql.language.utf8 import utf8
from penstock.sql.server.row_formats import RowFormat

log = logging.getLogger(__name__)

_WAIT_S: Final = 1.0
"""The interval at which a thread that waits for rows checks whether the client still wants them."""
_PIECES_CHARACTERS: Final = 16 << 10
"""Limit on the rows that are encoded at once, because other clients wait meanwhile."""


class RowReading:
    """The reading of one query's result. The last piece reports a failure, unless `start` raises it.

    ``media_type`` is the content type of all pieces together. ``is_notified`` says whether `on_arrival`
    reports new rows; otherwise the caller's thread computes them, which takes time. ``reader`` is the
    principal of the client.
    """

    def __init__(self, result: QueryResult, form: RowFormat, reader: str = "") -> None:
        self.query_id = result.query_id
        self.reader = reader
        self.media_type = form.media_type
        self.is_notified = isinstance(result, QueuedRows)
        self._result = result
        self._form = form
        self._first: list[bytes] | None = []
        self._has_ended = False
        self._failure: EngineError | None = None
        self.rows = 0
        """Rows read so far."""

    def start(self) -> None:
        """Wait for the first rows of a query that ends by itself. Raises EngineError if it is refused."""
        while not self._result.is_push and self._first == []:
            self._first = self._next_pieces(_WAIT_S)

    def whole(self) -> bytes | None:
        """The whole body if `start` has read the query to its end, else None."""
        return b"".join([self.begin(), *(self._first or ())]) if self._has_ended else None

    def on_arrival(self, notify: Callable[[], None]) -> None:
        """Register a callback that any thread may call when pieces arrive after there were none."""
        if isinstance(self._result, QueuedRows):
            self._result.on_arrival = notify

    def begin(self) -> bytes:
        """The start of the body, before all pieces."""
        return self._form.begin().encode()

    def next_pieces(self) -> list[bytes] | None:
        """The pieces that have arrived, possibly none; None after the last ones."""
        if self._first:
            first, self._first = self._first, []
            return first
        if self._has_ended:
            return None
        try:
            return self._next_pieces(0.0)
        except EngineError as error:
            log.warning("query failed query=%s error=%s", self._result.query_id, error)
            self._has_ended = True
            return [f"{self._form.error(error)}{self._form.end()}".encode()]

    def _next_pieces(self, wait_s: float) -> list[bytes] | None:
        """Read and encode rows. Raises EngineError if the query failed before any of them."""
        if self._failure is not None:
            raise self._failure
        found: list[str] = []
        try:
            self._take(found, wait_s)
        except Exception as error:
            self._failure = _as_engine_error(error)
            if not found:
                raise self._failure from error
        else:
            if self._result.is_finished:
                self._has_ended = True
                found.append(self._form.end())
        pieces = found if self._form.is_sent_by_rows else ["".join(found)]
        made = [utf8(piece) for piece in pieces if piece]
        return None if self._has_ended and not made else made

    def _take(self, found: list[str], wait_s: float) -> None:
        """Read the rows that are there, and wait only for the first. The last row also shows the end."""
        size = 0
        for patience_s in (wait_s, 0.0) if wait_s else (0.0,):
            for row in self._result.rows(patience_s):
                found.append(self._form.row(row))
                self.rows += 1
                size += len(found[-1])
                if patience_s or size >= _PIECES_CHARACTERS:
                    break
            if not found or size >= _PIECES_CHARACTERS:
                return

    def close(self) -> None:
        """Close the result. Any thread may call it, and repeatedly."""
        self._result.close()


def _as_engine_error(error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    return EngineError(str(error) or repr(error), ErrorCode.SERVER_ERROR)
