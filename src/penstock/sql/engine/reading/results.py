"""The results of queries: rows that arrive while the query runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from penstock.sql.analysis.plan import Limit, Plan
from penstock.sql.catalog import Role
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.language.types import SqlType
from penstock.views import ViewError

QUEUED_ROWS_MAX: Final = 10_000
"""Limit on the rows that a query queues; when it is reached, the query waits for its reader."""
QUEUED_BYTES_MAX: Final = 1 << 20
"""The same limit in bytes, so that a few large rows can't take much memory."""
_VALUE_BYTES: Final = 32


class ResultColumn(NamedTuple):
    name: str
    type: SqlType
    is_key: bool


class Tombstone(tuple[Any, ...]):
    """A deleted row of a table: the values of its key, and None for all other columns."""

    __slots__ = ()


Row = tuple[Any, ...]


class QueryClosed(Exception):
    """Raised when a row is put into a result that was closed."""


class QueryResult(ABC):
    """The rows of a SELECT or a PRINT. Any thread may call `close`; one at a time may call `rows`."""

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
        """Whether there are no more rows."""
        return self._closed.is_set()

    def rows(self, timeout_s: float | None = None) -> Iterator[Row]:
        """Yield rows until there are no more, or, with a timeout, until none has arrived for so long.

        Afterwards `is_finished` says whether the caller may ask for more. A row is a tuple of values as
        described in `penstock.sql.evaluation`, or a `Tombstone`. Raises EngineError if the query failed.
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
        """The next row; None if none arrives in time, or if there are no more and the result is closed."""

    def close(self) -> None:
        """End the query. Calling it again does nothing."""
        with self._closing:
            if self._closed.is_set():
                return
            self._closed.set()
        self.on_close()


def columns_of(plan: Plan) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(each.name, each.type, each.role is Role.KEY) for each in plan.root.schema)


def limit_of(plan: Plan) -> int | None:
    return plan.root.rows if isinstance(plan.root, Limit) else None


def failure(error: BaseException) -> EngineError:
    """The EngineError that reports why a query failed."""
    if isinstance(error, EngineError):
        return error
    is_wrong = isinstance(error, ViewError) and not error.retriable
    code = ErrorCode.BAD_STATEMENT if is_wrong else ErrorCode.SERVER_ERROR
    return EngineError(f"Unable to execute the query: {error}", code)


def _nothing() -> None:
    """Do nothing; the default of callbacks."""


class PulledRows(QueryResult):
    """Rows that are computed when they are read."""

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
    """Rows that another thread produces: it calls `put` while this `has_room`, then `finish` or `fail`.

    ``on_room`` is called when there is room again after `has_room` has returned false. ``on_arrival`` is
    called when a row arrives in the empty queue, and at the end. Any thread may call both, and no lock is
    held then.
    """

    def __init__(
        self, query_id: str, columns: tuple[ResultColumn, ...], *, is_push: bool, limit: int | None, text: str
    ) -> None:
        super().__init__(query_id, columns, is_push=is_push, limit=limit, text=text)
        self.on_room: Callable[[], None] = _nothing
        self.on_arrival: Callable[[], None] = _nothing
        self._queue: deque[tuple[Row, int]] = deque()
        self._queued_bytes = 0
        self._is_waited_for = False
        self._has_ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def queued(self) -> int:
        """The number of rows that wait for the reader."""
        return len(self._queue)

    def has_room(self) -> bool:
        """Whether the queue is below its limits. Rows that are put into a full queue are kept, too."""
        with self._changed:
            is_full = len(self._queue) >= QUEUED_ROWS_MAX or self._queued_bytes >= QUEUED_BYTES_MAX
            self._is_waited_for = is_full
            return not is_full

    def _next(self, timeout_s: float | None) -> Row | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._has_ended or self.is_finished, timeout_s)
            if self.is_finished:
                return None
            row, size = self._queue.popleft() if self._queue else (None, 0)
            self._queued_bytes -= size
            fill = max(len(self._queue) / QUEUED_ROWS_MAX, self._queued_bytes / QUEUED_BYTES_MAX)
            has_room_again = self._is_waited_for and fill <= 0.5
            self._is_waited_for = self._is_waited_for and not has_room_again
            is_over = row is None and self._has_ended
        if has_room_again:
            self.on_room()
        if is_over and self._error is not None:
            raise self._error
        if is_over:
            self.close()
        return row

    def put(self, row: Row) -> None:
        """Add a row to the queue. Raises QueryClosed if the result was closed."""
        if self.is_finished:
            raise QueryClosed
        size = _size(row)
        with self._changed:
            is_first = not self._queue
            self._queue.append((row, size))
            self._queued_bytes += size
            self._changed.notify()
        if is_first:
            self.on_arrival()

    def finish(self) -> None:
        """End the result after the rows in the queue."""
        self._end()

    def fail(self, error: BaseException) -> None:
        """End the result with an error, which the reader gets after the rows in the queue."""
        self._error = error
        self._end()

    def close(self) -> None:
        super().close()
        with self._changed:
            self._queue.clear()
            self._changed.notify_all()
        self.on_arrival()

    def _end(self) -> None:
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        self.on_arrival()


def _size(value: Any) -> int:
    """The approximate size of a value in bytes."""
    match value:
        case str() | bytes():
            return _VALUE_BYTES + len(value)
        case tuple() | list():
            return _VALUE_BYTES + sum(map(_size, value))
        case dict():
            return _VALUE_BYTES + sum(_size(name) + _size(each) for name, each in value.items())
    return _VALUE_BYTES
