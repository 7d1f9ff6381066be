"""What the state machine asks of the replicated log, and what it does to it.

These calls do not wait for the disk: what has to be durable, and what may take long, are effects
(`consensus.effects`).
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from penstock.consensus.history import ControlHistory
from penstock.consensus.voters import VoterSet


class OffsetAndEpoch(NamedTuple):
    """Where a log ends, or an epoch in it: the offset after the last record, and that record's epoch."""

    offset: int
    epoch: int

    def reaches(self, other: OffsetAndEpoch) -> bool:
        """Raft's "at least as up to date": a later last epoch, or the same one and as long a log."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


class SnapshotId(NamedTuple):
    """A snapshot stands for all records below ``end_offset``, the last of them written in ``epoch``."""

    end_offset: int
    epoch: int


BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)
"""What formatting leaves: it is never replicated, since the first leader writes its content to the log."""


class RaftLog(Protocol):
    """One replica's log. What is written has happened when a call returns, in memory at least."""

    history: ControlHistory
    """Always as of `end_offset`."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """Of the newest record, or of the snapshot the log goes on from; 0 for neither."""

    @property
    def earliest_snapshot(self) -> SnapshotId | None: ...

    @property
    def latest_snapshot(self) -> SnapshotId | None: ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch at or below ``epoch`` that has records, and where it ended; the log's end for a
        later one than any."""

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from ``offset`` on: at least one, if there is one."""

    def begin_epoch(
        self,
        epoch: int,
        leader_id: int,
        voter_ids: tuple[int, ...],
        granting_ids: tuple[int, ...],
        kraft_version: int | None,
        voters: VoterSet | None,
    ) -> None:
        """Append a leader's first batch: LeaderChange, and the version and voters where they are given."""

    def append_voters(self, epoch: int, kraft_version: int | None, voters: VoterSet | None) -> int:
        """Append control records as the leader; the offset of the last one."""

    def append_fetched(self, records: bytes) -> bool:
        """Append what a leader sent, as it is; what is damaged of it is left out, with all that follows.

        False if there is no room now; then it may be appended in part.
        """

    def snapshot_piece(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Bytes of a snapshot's file and its whole size; None where there is no such snapshot."""

    def receive_snapshot(self, snapshot: SnapshotId) -> bool:
        """Begin to take in a snapshot from the leader, in place of any other that was begun; False if it is
        here already."""

    @property
    def receiving_snapshot(self) -> tuple[SnapshotId, int] | None:
        """The snapshot that is being taken in, and how many bytes of it are here."""

    def receive_snapshot_piece(self, data: bytes) -> None: ...


class Diverging(NamedTuple):
    """The follower's log does not go on from the leader's: the epoch in which they part, and its end."""

    end: OffsetAndEpoch


class NeedsSnapshot(NamedTuple):
    """The leader has no log any more where the follower is."""

    snapshot: SnapshotId


def check_position(log: RaftLog, offset: int, epoch: int) -> Diverging | NeedsSnapshot | None:
    """Why a follower at ``offset``, whose last record is of ``epoch``, cannot be given what follows."""
    if log.start_offset == offset == 0:
        return None
    earliest = log.earliest_snapshot
    if earliest is not None and (
        offset < log.start_offset
        or (offset == log.start_offset and epoch != earliest.epoch)
        or epoch < earliest.epoch
    ):
        assert log.latest_snapshot is not None
        return NeedsSnapshot(log.latest_snapshot)
    end = log.end_offset_for_epoch(epoch)
    if end.epoch != epoch or end.offset < offset:
        return Diverging(end)
    return None


def truncation_offset(log: RaftLog, end: OffsetAndEpoch) -> int:
    """Up to where this log agrees at most with a leader that answered `Diverging`."""
    if end.epoch == 0:
        return min(end.offset, log.end_offset)
    local = log.end_offset_for_epoch(end.epoch)
    return min(local.offset, end.offset) if local.epoch == end.epoch else local.offset
