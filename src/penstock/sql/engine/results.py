"""The rows of a query, as they come."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from penstock.sql.engine.errors import EngineError, ErrorCode
from penstock.sql.types import SqlType
from penstock.views import ViewError

QUEUED_ROWS_MAX: Final = 10_000
_LOOK_S: Final = 0.2


class ResultColumn(NamedTuple):
    name: str
    type: SqlType
    is_key: bool


class Tombstone(tuple[Any, ...]):
    """In place of a row of a table that was deleted: the values of its key, and None for the rest."""

    __slots__ = ()


Row = tuple[Any, ...]


class QueryClosed(Exception):
    """Nobody takes rows any more."""


class QueryResult(ABC):
    """What a SELECT gives. `close` may be called by any thread, `rows` by one at a time."""

    def __init__(
        self, query_id: str, columns: tuple[ResultColumn, ...], *, is_push: bool, limit: int | None, text: str
    ) -> None:
        self.query_id = query_id
        self.columns = columns
        self.is_push = is_push
        self.text = text
        self.limit_reached = False
        self.on_close: Callable[[], None] = _nothing
        self._limit = limit
        self._taken = 0
        self._closed = threading.Event()
        self._closing = threading.Lock()

    @property
    def is_finished(self) -> bool:
        """Whether there will be no more rows."""
        return self._closed.is_set()

    def rows(self, timeout_s: float | None = None) -> Iterator[Row]:
        """Rows until there are no more; with a timeout, until none has come for so long: then `is_finished`
        tells whether to ask again. A row is a tuple of values as `penstock.sql.evaluation` has them, or a
        `Tombstone`. Raises EngineError where the query failed.
        """
        while not self._closed.is_set():
            if self._limit is not None and self._taken >= self._limit:
                self.limit_reached = True
                self.close()
                return
            try:
                row = self._next(timeout_s)
            except Exception as error:
                self.close()
                raise failure(error) from error
            if row is None:
                return
            self._taken += 1
            yield row

    @abstractmethod
    def _next(self, timeout_s: float | None) -> Row | None:
        """The next row; None where there is none in time, or none at all: the result is closed then."""

    def close(self) -> None:
        """End the query. Calling it again does nothing."""
        with self._closing:
            if self._closed.is_set():
                return
            self._closed.set()
        self.on_close()


def failure(error: BaseException) -> EngineError:
    """What a query that can't go on is answered with."""
    if isinstance(error, EngineError):
        return error
    is_wrong = isinstance(error, ViewError) and not error.retriable
    code = ErrorCode.BAD_STATEMENT if is_wrong else ErrorCode.SERVER_ERROR
    return EngineError(f"Unable to execute the query: {error}", code)


def _nothing() -> None:
    """Where nothing has to be ended."""


class PulledRows(QueryResult):
    """Rows that are computed as they are read."""

    def __init__(
        self,
        query_id: str,
        columns: tuple[ResultColumn, ...],
        found: Iterator[Row],
        *,
        limit: int | None,
        text: str,
    ) -> None:
        super().__init__(query_id, columns, is_push=False, limit=limit, text=text)
        self._found = found

    def _next(self, timeout_s: float | None) -> Row | None:
        row = next(self._found, None)
        if row is None:
            self.close()
        return row


class QueuedRows(QueryResult):
    """Rows that a thread makes: it calls `put`, and at last `finish` or `fail`."""

    def __init__(
        self, query_id: str, columns: tuple[ResultColumn, ...], *, is_push: bool, limit: int | None, text: str
    ) -> None:
        super().__init__(query_id, columns, is_push=is_push, limit=limit, text=text)
        self._queue: queue.Queue[Row] = queue.Queue(QUEUED_ROWS_MAX)
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def _next(self, timeout_s: float | None) -> Row | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._closed.is_set():
            is_last_look = self._ended.is_set()
            left_s = _LOOK_S if deadline is None else min(_LOOK_S, deadline - time.monotonic())
            try:
                return self._queue.get(block=not is_last_look, timeout=max(0.0, left_s))
            except queue.Empty:
                if is_last_look and self._error is not None:
                    raise self._error from None
                if is_last_look:
                    self.close()
                    return None
                if deadline is not None and time.monotonic() >= deadline:
                    return None
        return None

    def put(self, row: Row) -> None:
        """Waits while the reader is behind. Raises QueryClosed."""
        while not self._closed.is_set():
            try:
                self._queue.put(row, timeout=_LOOK_S)
                return
            except queue.Full:
                continue
        raise QueryClosed

    def finish(self) -> None:
        """There are no more rows behind those in the queue."""
        self._ended.set()

    def fail(self, error: BaseException) -> None:
        """The reader gets it behind the rows that came before."""
        self._error = error
        self._ended.set()
