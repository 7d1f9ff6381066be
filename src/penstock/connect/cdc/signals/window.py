"""The rows of a chunk that wait for the stream, without those that the stream has changed. Pure.

A chunk is read at some moment, and its rows are written later, between two transactions of the stream. A
row that the stream changes in between is left out: the stream's record is newer.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class ChunkWindow(Generic[R]):
    """The rows in the order in which they were read. Several may have the same key."""

    def __init__(self) -> None:
        self._rows: dict[int, R] = {}
        self._places: dict[Hashable, list[int]] = {}
        self._added = 0

    def add(self, key: Hashable | None, row: R) -> None:
        """Add a row; rows without a key are never left out."""
        if key is not None:
            self._places.setdefault(key, []).append(self._added)
        self._rows[self._added] = row
        self._added += 1

    def discard(self, key: Hashable) -> bool:
        """Leave out the rows with a key; returns whether there was one."""
        places = self._places.pop(key, ())
        for place in places:
            self._rows.pop(place, None)
        return bool(places)

    def discard_one(self, key: Hashable) -> bool:
        """Leave out the oldest row with a key; returns whether there was one."""
        places = self._places.get(key)
        if not places:
            return False
        return self._rows.pop(places.pop(0), None) is not None

    def clear(self) -> None:
        """Leave out all rows."""
        self._rows.clear()
        self._places.clear()

    def take(self) -> R:
        """Remove the oldest row."""
        return self._rows.pop(next(iter(self._rows)))

    def __len__(self) -> int:
        return len(self._rows)


def window_key(values: Sequence[Any]) -> Hashable:
    """The key of a window for the values of a record's key, which may be lists or maps."""
    return tuple(each if isinstance(each, Hashable) else repr(each) for each in values)
