"""Run an iterator in a thread of its own, at most a fixed size ahead of its consumer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def read_ahead(items: Iterator[T], size_of: Callable[[T], int], max_ahead: int) -> Generator[T, None, None]:
    """Yield the items of ``items`` in their order; its errors are raised at their place in that order.

    The thread pauses while items with a total size of ``max_ahead`` are buffered (one is always allowed). It
    ends when the returned generator is closed: then the thread closes ``items`` after its current step.
    """
    ahead = _Ahead(items, size_of, max_ahead)
    threading.Thread(target=ahead.run, name="penstock-read-ahead", daemon=True).start()
    try:
        while (found := ahead.take()) is not None:
            yield found[0]
    finally:
        ahead.stop()


class _Ahead(Generic[T]):
    def __init__(self, items: Iterator[T], size_of: Callable[[T], int], max_ahead: int) -> None:
        self._items = items
        self._size_of = size_of
        self._max_ahead = max_ahead
        self._changed = threading.Condition()
        self._waiting: deque[T] = deque()
        self._size = 0
        self._error: BaseException | None = None
        self._ended = False
        self._stopped = False

    def run(self) -> None:
        """Run in the thread: buffer the items."""
        error: BaseException | None = None
        try:
            for item in self._items:
                if not self._put(item):
                    break
        except BaseException as problem:
            error = problem
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
            with self._changed:
                self._error = error
                self._ended = True
                self._changed.notify()

    def _put(self, item: T) -> bool:
        with self._changed:
            while self._waiting and self._size >= self._max_ahead and not self._stopped:
                self._changed.wait()
            if self._stopped:
                return False
            self._waiting.append(item)
            self._size += self._size_of(item)
            self._changed.notify()
            return True

    def take(self) -> tuple[T] | None:
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
            if self._waiting:
                item = self._waiting.popleft()
                self._size -= self._size_of(item)
                self._changed.notify()
                return (item,)
            if self._error is not None:
                raise self._error
            return None

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify()
