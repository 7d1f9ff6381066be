"""The word of a transaction's coordinator that a partition belongs to it, while a log waits for it (KIP-890).

A transaction that begins in a partition behind its coordinator's back would never end there and hold back
`read_committed` readers for good. So before its first batch is appended the coordinator is asked, and what
was asked for is told from any earlier question by its identity: an answer that comes after the transaction's
marker no longer lets the batch in.
"""

from __future__ import annotations

from typing import Final


class Verification:
    """One producer's pending question in one log. Compared by identity."""

    __slots__ = ("epoch", "lowest_sequence", "started_ms", "supports_epoch_bump")

    def __init__(self, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Of the batches that wait: when the coordinator has an error for one, none behind it may pass."""
        self.supports_epoch_bump = supports_epoch_bump
        """The client speaks transactions version 2: each transaction has an epoch of its own."""
        self.started_ms = now_ms

    def lower_sequence(self, epoch: int, sequence: int) -> None:
        """Another batch asks too: of a new epoch, which numbers anew, or of this one."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.lowest_sequence = sequence


NOT_REQUIRED: Final = Verification(-1, -1, False, 0)
"""For appends that need no word: of replicas, and with `transaction.partition.verification.enable=false`."""
