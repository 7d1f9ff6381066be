"""The interface by which the metadata quorum notifies the node of committed records and leader changes.

All methods are called on the loop, one at a time, and never while another one runs; they must return soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from penstock.consensus.log import SnapshotId as SnapshotId
from penstock.protocol.messages import Message


class CommittedBatch(NamedTuple):
    """One batch of the metadata log, which is committed completely or not at all."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    """The timestamp of its newest record."""
    size_bytes: int
    records: Sequence[Message]
    """Empty in a batch of the quorum's own control records. Records of types that this release does not know
    are left out, with a line in the log."""


class FrozenState(NamedTuple):
    """A copy of a listener's committed state at one offset, to be written as a snapshot."""

    records: Callable[[], Iterable[Message]]
    """Returns the records; called in a worker thread."""
    metadata_version: int


class QuorumListener(Protocol):
    """A follower of the metadata log. A new one starts empty: it gets the newest snapshot, then the log."""

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Apply the next batches. They arrive in order, without a gap, and each exactly once."""

    def handle_snapshot(self, snapshot_id: SnapshotId, records: Sequence[Message]) -> None:
        """Replace the whole state by these records.

        This is the first call, if there is a snapshot. It happens later if this node fell so far behind that
        the log does not have the next records any more.
        """

    def handle_leader_change(self, leader_id: int | None, epoch: int) -> None:
        """Take note of the leader of an epoch, None while it is unknown.

        For this node itself, the call is made once `handle_commit` has brought all records of earlier epochs
        and this epoch is certain to continue from them: the state at that moment is the state at the log's
        end.
        """

    def handle_failure(self, reason: str) -> None:
        """Take note that the metadata log cannot be written: this node will not commit any pending record."""

    def freeze(self) -> FrozenState | None:
        """Return the state as of the last `handle_commit`, for a snapshot; None if none may be taken now."""
