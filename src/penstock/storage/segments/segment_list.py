"""The immutable list of a log's segments in offset order. A change makes a new list.

Readers in other threads keep the list that they began with.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from penstock.storage.segments.segment import Segment


class Segments:
    __slots__ = ("_base_offsets", "_items")

    def __init__(self, items: Iterable[Segment]) -> None:
        self._items = tuple(items)
        self._base_offsets = [segment.base_offset for segment in self._items]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def active(self) -> Segment:
        return self._items[-1]

    @property
    def first(self) -> Segment:
        return self._items[0]

    @property
    def base_offsets(self) -> list[int]:
        return self._base_offsets

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that holds `offset`, or would hold it, and all segments after it."""
        return self._items[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def between(self, start: int, end: int) -> tuple[Segment, ...]:
        """The segments that hold, or would hold, the offsets in [start, end); none if the range is empty."""
        if start >= end:
            return ()
        return tuple(segment for segment in self.from_offset(start) if segment.base_offset < end)

    def with_roll(self, segment: Segment) -> Segments:
        assert segment.base_offset > self.active.base_offset, f"{segment} does not follow {self.active}"
        return Segments((*self._items, segment))

    def with_replaced(self, replaced: Sequence[Segment], segment: Segment) -> Segments:
        """The list with `segment` in place of those it was made from, which are adjacent."""
        at = self._items.index(replaced[0])
        end = at + len(replaced)
        assert segment.base_offset == replaced[0].base_offset, f"{segment} replaces {replaced[0]}"
        assert self._items[at:end] == tuple(replaced), f"{replaced} are not adjacent, so others would be lost"
        return Segments((*self._items[:at], segment, *self._items[end:]))

    def without(self, removed: Iterable[Segment]) -> Segments:
        gone = set(removed)
        return Segments(segment for segment in self._items if segment not in gone)
