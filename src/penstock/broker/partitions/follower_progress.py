"""Track one follower's progress as its leader sees it, from its fetches alone."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = -1
"""An offset that is not known yet, or a broker epoch that its sender does not know."""


class FollowerProgress:
    """The progress of one follower, and the time at which it was last caught up.

    A follower is caught up at a moment if it fetches at the leader's end offset of that moment, or has
    reached that offset since. So a follower that is always slightly behind a busy leader counts as in sync.
    Times are milliseconds of a monotonic clock.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_start_offset = UNKNOWN
        self.log_end_offset = UNKNOWN
        self.last_fetch_end_offset = UNKNOWN
        """The leader's end offset at the follower's last fetch."""
        self.last_fetch_ms: float = 0
        self.last_caught_up_ms: float = 0
        self.broker_epoch: int | None = None
        """The broker epoch of its last fetch (KIP-903); None before the first."""

    def fetched(
        self,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: float,
    ) -> None:
        """Take note of a fetch: the follower's log has all records below `fetch_offset`."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_end_offset = max(self.last_fetch_end_offset, leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def was_caught_up(self, at_ms: float) -> None:
        """Take note that the follower had all records and fetched at `at_ms`."""
        self.last_caught_up_ms = max(self.last_caught_up_ms, at_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, at_ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_time_max_ms: int) -> bool:
        """Whether it is at the leader's end, or was at most `replica.lag.time.max.ms` ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def reset(self, leader_end_offset: int, now_ms: float, *, is_new_leader: bool, in_isr: bool) -> None:
        """Begin a new leader epoch. A follower in the ISR gets time to catch up; others hold nothing back."""
        since_ms = now_ms if in_isr else float("-inf")
        self.last_caught_up_ms = since_ms
        if is_new_leader:
            self.log_start_offset = self.log_end_offset = self.last_fetch_end_offset = UNKNOWN
            self.last_fetch_ms = float("-inf")
            self.broker_epoch = None
        else:
            self.last_fetch_end_offset = leader_end_offset
            self.last_fetch_ms = since_ms
