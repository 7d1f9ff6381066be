"""Find where a follower truncates its log so that it is a prefix of its leader's (KIP-101, KIP-279, KIP-595).

Pure. If the epoch of the follower's last record ended earlier in the leader's log, the leader answers with
its largest epoch not above that one, and with the offset where it ended. Step by step both reach the last
record that they share.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.storage.partition.leader_epochs import (
    UNDEFINED_EPOCH,
    UNDEFINED_OFFSET,
    EpochEntry,
    LeaderEpochs,
)


class FetchPosition(NamedTuple):
    """The offset to fetch from, and the epoch of the record before it (-1 if unknown)."""

    offset: int
    last_epoch: int


def first_position(epochs: LeaderEpochs, log_end_offset: int, high_watermark: int) -> FetchPosition:
    """The position where a follower starts to fetch from a leader.

    Records below the high watermark are certain; above it the epochs decide. A log without epochs has an old
    format and must first be truncated to the high watermark.
    """
    if epochs.latest == UNDEFINED_EPOCH:
        return FetchPosition(high_watermark, UNDEFINED_EPOCH)
    return FetchPosition(log_end_offset, epochs.latest)


def truncation_offset(
    epochs: LeaderEpochs, log_end_offset: int, fetch_offset: int, leader: EpochEntry
) -> int:
    """The offset to truncate to, given `leader`: the leader's diverging epoch and its end offset there.

    If the follower has no record of that epoch, its log is truncated to the end of the epoch before, and it
    fetches again from there.
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
