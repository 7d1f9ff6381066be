"""Track which partitions of a follower's session have changes to report.

A follower fetches all partitions of one leader in one session, but each answer concerns few of them. So a
partition that the follower has read to its end is read again only after a change. The partition notifies the
sessions that watch it. A fetch of all partitions would have noted for each one that the follower was caught
up then; here that is noted when the next append ends that state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.partitions.purgatory import WaitList

if TYPE_CHECKING:
    from penstock.broker.partitions.fetch_target import FetchTarget
    from penstock.broker.partitions.replicated_partition import ReplicatedPartition


class SessionChanges:
    """The changes to report in one session. It belongs to the event loop."""

    __slots__ = (
        "_watched",
        "answered_ms",
        "broker_id",
        "followed_ms",
        "fresh",
        "last_fetch_ms",
        "reported_count",
        "waiters",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.fresh: dict[FetchTarget, None] = {}
        """The partitions to read for the next answer."""
        self.reported_count = 0
        """The number of changes to report at once; a fetch that is reading compares it before and after."""
        self.last_fetch_ms: float = 0
        """The time of the last fetch, by a monotonic clock."""
        self.answered_ms = float("-inf")
        self.followed_ms = float("-inf")
        """When the latest answer was sent that the follower has followed up with another fetch. At least
        until then the follower took this node for the leader. The arrival time of a fetch proves less: it may
        have been queued here while this node stood still."""
        self.waiters = WaitList()
        """The session's fetch, while it waits."""
        self._watched: dict[FetchTarget, ReplicatedPartition] = {}

    def fetched(self, now_ms: float) -> None:
        """Take note of the follower's next fetch."""
        self.last_fetch_ms = now_ms
        self.followed_ms = self.answered_ms

    def watch(self, target: FetchTarget, partition: ReplicatedPartition) -> None:
        """Receive the partition's changes from now on."""
        known = self._watched.get(target)
        if known is not partition:
            if known is not None:
                known.watchers.pop(target, None)
            self._watched[target] = partition
            partition.watchers[target] = self

    def forget(self, target: FetchTarget) -> None:
        """Stop watching a partition that the follower no longer fetches."""
        self.fresh.pop(target, None)
        partition = self._watched.pop(target, None)
        if partition is not None:
            partition.watchers.pop(target, None)

    def close(self) -> None:
        """Stop watching all partitions: the session is over."""
        for target in list(self._watched):
            self.forget(target)

    def appended(self, target: FetchTarget, partition: ReplicatedPartition, size_bytes: int) -> None:
        """Report that the leader has appended `size_bytes` bytes."""
        self.reported_count += 1
        if target not in self.fresh:
            self.fresh[target] = None
            if partition.leading is not None:
                follower = partition.leading.followers.get(self.broker_id)
                if follower is not None:
                    follower.was_caught_up(self.last_fetch_ms)
        if self.waiters.waiting:
            self.waiters.grown(size_bytes)

    def changed(self, target: FetchTarget) -> None:
        """Report a change that the follower must learn of at once."""
        self.reported_count += 1
        self.fresh[target] = None
        self.waiters.changed()
