"""Choose the replica that a consumer should read from: one in its own rack (KIP-392). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.broker.partitions.leadership import Leadership


def nearest_replica(
    leading: Leadership, rack: str, own_rack: str | None, rack_of: Callable[[int], str | None], offset: int
) -> int | None:
    """The broker that a consumer in `rack` should fetch `offset` from; None if the leader will do.

    Only in-sync replicas that have the offset qualify: a lagging replica would delay its readers for as long
    as it lags. Among several, the one with the highest log end offset wins, then the one that was caught up
    most recently.
    """
    if not rack or rack == own_rack:
        return None
    near = [
        follower
        for follower in leading.followers.values()
        if follower.broker_id in leading.isr
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and rack_of(follower.broker_id) == rack
    ]
    if not near:
        return None
    best = max(near, key=lambda f: (f.log_end_offset, f.last_caught_up_ms, -f.broker_id))
    return best.broker_id
