"""Which partitions of a follower's session there is anything to tell about.

A follower fetches all that a leader leads in one session, and each answer is about few of them. So one that
the follower has to its end is looked at again only when there is news of it; the partition tells the sessions
that watch it. What a fetch of everything would have noted at each partition, that the follower was caught up
then, is noted when the next append ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.purgatory import WaitList

if TYPE_CHECKING:
    from penstock.broker.fetch_session import FetchTarget
    from penstock.broker.replication.replicated_partition import ReplicatedPartition


class SessionNews:
    """One session's. Belongs to the event loop."""

    __slots__ = (
        "_watched",
        "answered_ms",
        "broker_id",
        "followed_ms",
        "fresh",
        "last_fetch_ms",
        "times_told",
        "waiters",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.fresh: dict[FetchTarget, None] = {}
        """What is to be looked at with the next answer."""
        self.times_told = 0
        """How often there was something to hear at once; a fetch that is being read looks at it."""
        self.last_fetch_ms: float = 0
        """By a clock that never goes back."""
        self.answered_ms = float("-inf")
        self.followed_ms = float("-inf")
        """When the last answer left that the follower has asked on after: until then at least it took this
        node for the leader. When a fetch came says less: it may have lain here while this node stood still.
        """
        self.waiters = WaitList()
        """The session's fetch, while it waits."""
        self._watched: dict[FetchTarget, ReplicatedPartition] = {}

    def fetched(self, now_ms: float) -> None:
        """The follower asks on."""
        self.last_fetch_ms = now_ms
        self.followed_ms = self.answered_ms

    def watch(self, target: FetchTarget, partition: ReplicatedPartition) -> None:
        """Hear of the partition's news from now on."""
        known = self._watched.get(target)
        if known is not partition:
            if known is not None:
                known.watchers.pop(target, None)
            self._watched[target] = partition
            partition.watchers[target] = self

    def forget(self, target: FetchTarget) -> None:
        """The follower does not ask for it any more."""
        self.fresh.pop(target, None)
        partition = self._watched.pop(target, None)
        if partition is not None:
            partition.watchers.pop(target, None)

    def close(self) -> None:
        """The session is over."""
        for target in list(self._watched):
            self.forget(target)

    def appended(self, target: FetchTarget, partition: ReplicatedPartition, size_bytes: int) -> None:
        """The leader has appended so many bytes."""
        self.times_told += 1
        if target not in self.fresh:
            self.fresh[target] = None
            if partition.leading is not None:
                follower = partition.leading.followers.get(self.broker_id)
                if follower is not None:
                    follower.was_caught_up(self.last_fetch_ms)
        if self.waiters.waiting:
            self.waiters.grown(size_bytes)

    def changed(self, target: FetchTarget) -> None:
        """Something happened that the follower has to hear at once."""
        self.times_told += 1
        self.fresh[target] = None
        self.waiters.changed()
