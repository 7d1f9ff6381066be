"""What the metadata quorum tells the rest of the node: records that are committed, and who leads.

All methods are called on the loop, one after the other, and none while another runs; they return soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from penstock.consensus.log import SnapshotId as SnapshotId
from penstock.protocol.messages import Message


class CommittedBatch(NamedTuple):
    """One batch of the metadata log: all of it is there, or nothing."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    """Of its newest record."""
    size_bytes: int
    records: Sequence[Message]
    """None in a batch of the quorum's own control records. Records of types that this release does not know
    are left out, with a line in the log."""


class FrozenState(NamedTuple):
    """A listener's committed state at one offset, to be written as a snapshot while the listener goes on."""

    records: Callable[[], Iterable[Message]]
    """Called in a worker thread."""
    metadata_version: int


class QuorumListener(Protocol):
    """Follows the metadata log. A new one starts from nothing: it gets the newest snapshot, then the log."""

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """The next batches, in order and without a gap; each exactly once."""

    def handle_snapshot(self, snapshot_id: SnapshotId, records: Sequence[Message]) -> None:
        """Replaces everything before: the state is now what these records say.

        The first call, if there is a snapshot, or a later one if this node fell so far behind that the log
        no longer has what it missed.
        """

    def handle_leader_change(self, leader_id: int | None, epoch: int) -> None:
        """The leader of an epoch, None while it isn't known.

        For this node itself it comes once `handle_commit` has brought all records of earlier epochs and this
        epoch is sure to go on from them: the state at that moment is that of the log's end.
        """

    def handle_failure(self, reason: str) -> None:
        """The metadata log cannot be written here: nothing pending will be committed by this node."""

    def freeze(self) -> FrozenState | None:
        """The state as of the last `handle_commit`, for a snapshot; None where there must be none now."""
