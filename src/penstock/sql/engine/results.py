"""The rows of a query, as they come."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from penstock.sql.catalog import Role
from penstock.sql.engine.errors import EngineError, ErrorCode
from penstock.sql.plan import Limit, Plan
from penstock.sql.types import SqlType
from penstock.views import ViewError

#: What a query holds of rows that were not taken yet, before it waits for its reader.
QUEUED_ROWS_MAX: Final = 10_000
QUEUED_BYTES_MAX: Final = 1 << 20
_VALUE_BYTES: Final = 32


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


def columns_of(plan: Plan) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(each.name, each.type, each.role is Role.KEY) for each in plan.root.schema)


def limit_of(plan: Plan) -> int | None:
    return plan.root.rows if isinstance(plan.root, Limit) else None


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
    """Rows that a thread makes: it calls `put` while this `has_room`, and at last `finish` or `fail`.

    ``on_room`` is called when there is room again for one who has found none; ``on_news`` when rows come
    behind the last one that was taken, and at the end. Both by any thread, and with nothing locked.
    """

    def __init__(
        self, query_id: str, columns: tuple[ResultColumn, ...], *, is_push: bool, limit: int | None, text: str
    ) -> None:
        super().__init__(query_id, columns, is_push=is_push, limit=limit, text=text)
        self.on_room: Callable[[], None] = _nothing
        self.on_news: Callable[[], None] = _nothing
        self._queue: deque[tuple[Row, int]] = deque()
        self._queued_bytes = 0
        self._is_waited_for = False
        self._has_ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def queued(self) -> int:
        """Rows that nobody has taken yet."""
        return len(self._queue)

    def has_room(self) -> bool:
        """Whether the reader is not too far behind. Rows that are put all the same are kept, too."""
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
        """Raises QueryClosed."""
        if self.is_finished:
            raise QueryClosed
        size = _size(row)
        with self._changed:
            is_news = not self._queue
            self._queue.append((row, size))
            self._queued_bytes += size
            self._changed.notify()
        if is_news:
            self.on_news()

    def finish(self) -> None:
        """There are no more rows behind those in the queue."""
        self._end()

    def fail(self, error: BaseException) -> None:
        """The reader gets it behind the rows that came before."""
        self._error = error
        self._end()

    def close(self) -> None:
        super().close()
        with self._changed:
            self._queue.clear()
            self._changed.notify_all()
        self.on_news()

    def _end(self) -> None:
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        self.on_news()


def _size(value: Any) -> int:
    """About how many bytes a value takes."""
    match value:
        case str() | bytes():
            return _VALUE_BYTES + len(value)
        case tuple() | list():
            return _VALUE_BYTES + sum(map(_size, value))
        case dict():
            return _VALUE_BYTES + sum(_size(name) + _size(each) for name, each in value.items())
    return _VALUE_BYTES
