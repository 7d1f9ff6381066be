"""Where a follower cuts its log so that it is a beginning of its leader's (KIP-101, KIP-279, KIP-595).

Pure. A leader that finds the follower's last record in an epoch that ended earlier says so: the largest epoch
not above, and where that ended there. Step by step both come to the last record they share.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.storage.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEntry, LeaderEpochs


class FetchPosition(NamedTuple):
    """Where to fetch from, and in which epoch the record before was written, -1 where that is unknown."""

    offset: int
    last_epoch: int


def first_position(epochs: LeaderEpochs, log_end_offset: int, high_watermark: int) -> FetchPosition:
    """Where a follower begins with a leader.

    Below the high watermark there is nothing to doubt; above it the epochs tell. A log that knows of none is
    of an old format, and has to be cut to the high watermark first.
    """
    if epochs.latest == UNDEFINED_EPOCH:
        return FetchPosition(high_watermark, UNDEFINED_EPOCH)
    return FetchPosition(log_end_offset, epochs.latest)


def truncation_offset(
    epochs: LeaderEpochs, log_end_offset: int, fetch_offset: int, leader: EpochEntry
) -> int:
    """Where to cut, as the leader's diverging epoch tells: `leader` is that epoch and where it ended there.

    An epoch that the follower has no record of is passed over: it is cut to the end of the one before, and
    asked again from there.
    """
    if leader.start_offset == UNDEFINED_OFFSET:
        return min(fetch_offset, log_end_offset)
    if leader.epoch == UNDEFINED_EPOCH:
        return min(leader.start_offset, log_end_offset)
    here = epochs.end_offset_for(leader.epoch, log_end_offset)
    if here.start_offset == UNDEFINED_OFFSET:
        return min(leader.start_offset, log_end_offset)
    if here.epoch != leader.epoch:
        return min(here.start_offset, log_end_offset)
    return min(here.start_offset, leader.start_offset, log_end_offset)
