"""Who voted when: the quorum's control records in the log, each in force from where it was written (KIP-853).

A change of voters counts as soon as it is in a replica's log, committed or not, and not any more when it is
truncated; a snapshot needs those in force at its end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, NamedTuple, TypeVar

from penstock.consensus.voters import VoterSet

T = TypeVar("T")

BOOTSTRAP_OFFSET = -1
"""Of what formatting left in the snapshot of nothing: no leader has written it to the log yet."""


class Entry(NamedTuple, Generic[T]):
    offset: int
    value: T


class ControlHistory:
    """The voters and the ``kraft.version`` by offset; up to the first record the static voters hold."""

    def __init__(self, static_voters: VoterSet) -> None:
        self.static_voters = static_voters
        self._voters: list[Entry[VoterSet]] = []
        self._versions: list[Entry[int]] = []

    @property
    def voters(self) -> VoterSet:
        """Those in force at the log's end."""
        return self._voters[-1].value if self._voters else self.static_voters

    @property
    def voters_offset(self) -> int | None:
        """Where they were written; None for static voters, `BOOTSTRAP_OFFSET` for formatting's."""
        return self._voters[-1].offset if self._voters else None

    @property
    def kraft_version(self) -> int:
        return self._versions[-1].value if self._versions else 0

    @property
    def former_voters(self) -> VoterSet:
        """Those before the newest record of voters."""
        return self._voters[-2].value if len(self._voters) > 1 else self.static_voters

    def voters_at(self, offset: int) -> VoterSet | None:
        """Those in force at an offset; None where the log says nothing of them."""
        return _at(self._voters, offset)

    def kraft_version_at(self, offset: int) -> int:
        return _at(self._versions, offset) or 0

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        _add(self._voters, offset, voters)

    def add_kraft_version(self, offset: int, version: int) -> None:
        _add(self._versions, offset, version)

    def truncate_to(self, end_offset: int) -> None:
        """Forget what was written at or above an offset."""
        for entries in (self._voters, self._versions):
            del entries[bisect_left(entries, end_offset, key=lambda entry: entry.offset) :]

    def forget_before(self, start_offset: int) -> None:
        """Forget what was not in force any more when the records below an offset had been written.

        What is written from there on may still be truncated.
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
