"""Keeps the voters and ``kraft.version`` by offset: the quorum's control records in the log (KIP-853).

Each record is in force from its own offset on. A change of voters applies as soon as it is in a replica's
log, committed or not, until it is truncated. A snapshot needs the voters in force at its end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, NamedTuple, TypeVar

from penstock.consensus.voters import VoterSet

T = TypeVar("T")

BOOTSTRAP_OFFSET = -1
"""Offset of the voters in the bootstrap snapshot, before a leader has written them to the log."""


class Entry(NamedTuple, Generic[T]):
    offset: int
    value: T


class ControlHistory:
    """The voters and the ``kraft.version`` by offset; before the first record, the static voters apply."""

    def __init__(self, static_voters: VoterSet) -> None:
        self.static_voters = static_voters
        self._voters: list[Entry[VoterSet]] = []
        self._versions: list[Entry[int]] = []

    @property
    def voters(self) -> VoterSet:
        """The voters in force at the end of the log."""
        return self._voters[-1].value if self._voters else self.static_voters

    @property
    def voters_offset(self) -> int | None:
        """The offset of the voters' record; None for static voters, `BOOTSTRAP_OFFSET` after formatting."""
        return self._voters[-1].offset if self._voters else None

    @property
    def kraft_version(self) -> int:
        return self._versions[-1].value if self._versions else 0

    @property
    def former_voters(self) -> VoterSet:
        """The voters before the newest record of voters."""
        return self._voters[-2].value if len(self._voters) > 1 else self.static_voters

    def voters_at(self, offset: int) -> VoterSet | None:
        """The voters in force at an offset, or None if the log has no record of them up to there."""
        return _at(self._voters, offset)

    def kraft_version_at(self, offset: int) -> int:
        return _at(self._versions, offset) or 0

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        _add(self._voters, offset, voters)

    def add_kraft_version(self, offset: int, version: int) -> None:
        _add(self._versions, offset, version)

    def truncate_to(self, end_offset: int) -> None:
        """Drop the records at or above an offset."""
        for entries in (self._voters, self._versions):
            del entries[bisect_left(entries, end_offset, key=lambda entry: entry.offset) :]

    def forget_before(self, start_offset: int) -> None:
        """Drop the records that were already superseded below an offset.

        The record in force there stays, because later records may still be truncated.
        """
        for entries in (self._voters, self._versions):
            at = bisect_left(entries, start_offset, key=lambda entry: entry.offset)
            del entries[: max(0, at - 1)]

    def clear(self) -> None:
        self._voters.clear()
        self._versions.clear()


def _at(entries: list[Entry[T]], offset: int) -> T | None:
    at = bisect_right(entries, offset, key=lambda entry: entry.offset)
    return entries[at - 1].value if at else None


def _add(entries: list[Entry[T]], offset: int, value: T) -> None:
    assert not entries or entries[-1].offset < offset, "the log is read in order"
    entries.append(Entry(offset, value))
