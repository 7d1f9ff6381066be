"""A worker's place in its group, as metrics show it."""

from __future__ import annotations

from typing import NamedTuple


class MembershipState(NamedTuple):
    """The last rebalance that a worker has completed.

    ``generation`` is -1 before the first. ``joined_s`` is the time of the monotonic clock, or None.
    """

    generation: int
    is_leader: bool
    rebalances: int
    joined_s: float | None
