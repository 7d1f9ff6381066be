"""The interface of the replicated log that the state machine uses, and checks of log positions.

These calls do not wait for the disk: work that must be durable, or may take long, is requested by effects
(`consensus.effects`).
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from penstock.consensus.history import ControlHistory
from penstock.consensus.voters import VoterSet


class OffsetAndEpoch(NamedTuple):
    """The end of a log or of an epoch in it: the offset after the last record, and that record's epoch."""

    offset: int
    epoch: int

    def reaches(self, other: OffsetAndEpoch) -> bool:
        """Whether this log is "at least as up to date" in Raft's sense.

        Its last epoch is later, or it is the same and the log is at least as long.
        """
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


class SnapshotId(NamedTuple):
    """The id of a snapshot, which replaces all records below ``end_offset``; the last one is of ``epoch``."""

    end_offset: int
    epoch: int


BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)
"""The snapshot that formatting writes. It is never replicated, as the first leader copies it to the log."""


class RaftLog(Protocol):
    """The log of one replica. When a call returns, its writes are visible, but not necessarily durable."""

    history: ControlHistory
    """The voters and versions, always as of `end_offset`."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the newest record, or of the snapshot that precedes the log; 0 without both."""

    @property
    def earliest_snapshot(self) -> SnapshotId | None: ...

    @property
    def latest_snapshot(self) -> SnapshotId | None: ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch at or below ``epoch`` that has records, and its end offset.

        For an epoch later than all in the log, this is the end of the log.
        """

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Read whole batches from ``offset`` on: at least one, if there is one."""

    def begin_epoch(
        self,
        epoch: int,
        leader_id: int,
        voter_ids: tuple[int, ...],
        granting_ids: tuple[int, ...],
        kraft_version: int | None,
        voters: VoterSet | None,
    ) -> None:
        """Append a leader's first batch: a LeaderChange, and the version and voters if they are given."""

    def append_voters(self, epoch: int, kraft_version: int | None, voters: VoterSet | None) -> int:
        """Append control records as the leader. Returns the offset of the last one."""

    def append_fetched(self, records: bytes) -> bool:
        """Append records from the leader unchanged, up to the first damaged batch.

        Returns False if there is no space now; the records may then be appended in part.
        """

    def snapshot_piece(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int] | None:
        """Read bytes of a snapshot's file. Returns them and the file's size; None if it does not exist."""

    def receive_snapshot(self, snapshot: SnapshotId) -> bool:
        """Begin to receive a snapshot from the leader, and abandon any other that is being received.

        Returns False if this replica already has the snapshot.
        """

    @property
    def receiving_snapshot(self) -> tuple[SnapshotId, int] | None:
        """The snapshot that is being received, and the number of bytes received so far."""

    def receive_snapshot_piece(self, data: bytes) -> None: ...


class Diverging(NamedTuple):
    """The follower's log diverges from the leader's; `end` is the epoch in which it does, and its end."""

    end: OffsetAndEpoch


class NeedsSnapshot(NamedTuple):
    """The leader's log no longer contains the follower's position, so it needs the snapshot."""

    snapshot: SnapshotId


def check_position(log: RaftLog, offset: int, epoch: int) -> Diverging | NeedsSnapshot | None:
    """Check the position of a follower at ``offset`` whose last record is of ``epoch``.

    Returns None if it can fetch records from there, otherwise the reason why not.
    """
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
    """The offset up to which this log may agree with a leader that responded `Diverging`."""
    if end.epoch == 0:
        return min(end.offset, log.end_offset)
    local = log.end_offset_for_epoch(end.epoch)
    return min(local.offset, end.offset) if local.epoch == end.epoch else local.offset
