"""Applies changes to a table of all versions of rows: slowly changing dimensions of type 2.

A version is valid from its start, inclusive, to its end, exclusive; the current one has no end. Changes that
arrive late are placed where they belong: they split the version that they fall into.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from penstock.arrow.table_rows import Identity
from penstock.spark.changes.events import Events, Kind, Row


@dataclass(slots=True)
class Version:
    """A row as it was from ``start`` to ``end``; None is no end."""

    start: Any
    end: Any
    row: Row


class History:
    """The versions of the row with one key, in order; they don't overlap.

    ``same`` says whether two rows are equal in the columns whose changes make versions.
    """

    def __init__(self, versions: Iterable[Version], same: Callable[[Row, Row], bool]) -> None:
        self.versions = sorted(map(replace, versions), key=_start)  # the given ones stay as they are
        self._same = same

    def put(self, at: Any, row: Row) -> None:
        """Let the row have these cells from a time on, until its next version."""
        place = self._place(at)
        after = self.versions[place + 1] if place + 1 < len(self.versions) else None
        before = self.versions[place] if place >= 0 else None
        if before is not None and before.start == at:
            before.row = row
        else:
            end = None if after is None else after.start
            if before is not None and _covers(before, at):
                end, before.end = before.end, at
            place += 1
            self.versions.insert(place, Version(at, end, row))
        self._join(place)
        self._join(place - 1)

    def delete(self, at: Any) -> None:
        """Let the row be gone from a time on, until its next version."""
        place = self._place(at)
        if place < 0 or not _covers(self.versions[place], at):
            return
        if self.versions[place].start == at:
            del self.versions[place]
        else:
            self.versions[place].end = at

    def row_at(self, at: Any) -> Row | None:
        """Return the row as it was at a time."""
        place = self._place(at)
        found = self.versions[place] if place >= 0 else None
        return found.row if found is not None and _covers(found, at) else None

    def latest(self) -> Any:
        """Return the last time at which the row changed, or None if there is no version."""
        if not self.versions:
            return None
        last = self.versions[-1]
        return last.start if last.end is None else last.end

    def _place(self, at: Any) -> int:
        """Return the number of the last version that starts at a time or before it, or -1."""
        return bisect_right(self.versions, at, key=_start) - 1

    def _join(self, place: int) -> None:
        """Join a version and the next one if they are equal; columns without versions take the next one's."""
        if not 0 <= place < len(self.versions) - 1:
            return
        first, second = self.versions[place : place + 2]
        if first.end == second.start and self._same(first.row, second.row):
            first.end, first.row = second.end, second.row
            del self.versions[place + 1]


def _start(version: Version) -> Any:
    return version.start


def _covers(version: Version, at: Any) -> bool:
    return version.start <= at and (version.end is None or at < version.end)


def apply_to_history(
    events: Events,
    existing: dict[Identity, list[Version]],
    same: Callable[[Row, Row], bool],
    *,
    in_order: bool,
) -> dict[Identity, History]:
    """Apply changes to versions by key, and return all histories that may have changed.

    With ``in_order``, the order of changes is that of the log, and a change never begins before an earlier
    one: a clock at the source that steps back does not change the order.
    """
    histories = {key: History(versions, same) for key, versions in existing.items()}
    for number, (kind, key) in enumerate(zip(events.kinds, events.keys, strict=True)):
        at = events.sequences[number]
        if kind == Kind.TRUNCATE:
            for history in histories.values():
                history.delete(_not_before(history, at) if in_order else at)
            continue
        assert key is not None, "only a truncate has no key"
        history = histories.setdefault(key, History((), same))
        time = _not_before(history, at) if in_order else at
        if kind == Kind.DELETE:
            history.delete(time)
        else:
            history.put(time, events.row(number, history.row_at(time)))
    return histories


def _not_before(history: History, at: Any) -> Any:
    latest = history.latest()
    return at if latest is None or at > latest else latest
