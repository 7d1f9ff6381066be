"""A query's rows in pieces fit to be sent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from penstock.sql.engine.errors import EngineError, ErrorCode
from penstock.sql.engine.results import QueryResult, QueuedRows
from penstock.sql.server.row_formats import RowFormat

logger = logging.getLogger(__name__)

#: Who waits for rows looks up this often, to see whether anybody still wants them.
_WAIT_S: Final = 1.0
#: Of the rows that are written together: others wait meanwhile.
_PIECES_CHARACTERS: Final = 16 << 10


class RowReading:
    """Rows of a query. What it fails with is told in its last piece, but for what `start` finds.

    ``media_type`` is what the pieces are together. ``is_told``: whether `on_news` tells of rows; otherwise
    they are computed by who asks for them, which takes its time.
    """

    def __init__(self, result: QueryResult, form: RowFormat) -> None:
        self.media_type = form.media_type
        self.is_told = isinstance(result, QueuedRows)
        self._result = result
        self._form = form
        self._first: list[bytes] | None = []
        self._has_ended = False
        self._failure: EngineError | None = None

    def start(self) -> None:
        """Wait for the first rows of a query that ends by itself: it may be refused. Raises EngineError."""
        while not self._result.is_push and self._first == []:
            self._first = self._next_pieces(_WAIT_S)

    def whole(self) -> bytes | None:
        """All there is, where `start` has seen the end of it."""
        return b"".join([self.begin(), *(self._first or ())]) if self._has_ended else None

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have somebody told, by any thread, when there is something where nothing was."""
        if isinstance(self._result, QueuedRows):
            self._result.on_news = tell

    def begin(self) -> bytes:
        """What stands before everything else."""
        return self._form.begin().encode()

    def next_pieces(self) -> list[bytes] | None:
        """What has come, which may be nothing; None behind the last ones."""
        if self._first:
            first, self._first = self._first, []
            return first
        if self._has_ended:
            return None
        try:
            return self._next_pieces(0.0)
        except EngineError as error:
            logger.warning("the query %s failed: %s", self._result.query_id, error)
            self._has_ended = True
            return [f"{self._form.error(error)}{self._form.end()}".encode()]

    def _next_pieces(self, wait_s: float) -> list[bytes] | None:
        """Raises EngineError."""
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
        made = [piece.encode() for piece in pieces if piece]
        return None if self._has_ended and not made else made

    def _take(self, found: list[str], wait_s: float) -> None:
        """Take the rows that are there; wait for the first one. The end is seen with the last of them."""
        size = 0
        for patience_s in (wait_s, 0.0) if wait_s else (0.0,):
            for row in self._result.rows(patience_s):
                found.append(self._form.row(row))
                size += len(found[-1])
                if patience_s or size >= _PIECES_CHARACTERS:
                    break
            if not found or size >= _PIECES_CHARACTERS:
                return

    def close(self) -> None:
        """Nobody reads any more. Any thread may call it, and call it again."""
        self._result.close()


def _as_engine_error(error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    return EngineError(str(error) or repr(error), ErrorCode.SERVER_ERROR)
