"""Represents a pending check with the coordinator that a partition belongs to a transaction (KIP-890).

If a transaction began in a partition without its coordinator knowing, it would never end there and would
block `read_committed` readers forever. So the coordinator is asked before the first batch is appended. Each
request is distinguished from earlier ones by the identity of its object: an answer that arrives after the
transaction's marker no longer allows the append.
"""

from __future__ import annotations

from typing import Final


class Verification:
    """One producer's pending verification in one log; objects are compared by identity."""

    __slots__ = ("epoch", "lowest_sequence", "started_ms", "supports_epoch_bump")

    def __init__(self, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Lowest sequence of the waiting batches; if the coordinator rejects one, none after it may pass."""
        self.supports_epoch_bump = supports_epoch_bump
        """Whether the client uses transactions version 2, in which each transaction has its own epoch."""
        self.started_ms = now_ms

    def lower_sequence(self, epoch: int, sequence: int) -> None:
        """Include another batch that waits: of a new epoch, which restarts sequences, or of this one."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.lowest_sequence = sequence


NOT_REQUIRED: Final = Verification(-1, -1, False, 0)
"""Passed for appends without check: by replicas, or if `transaction.partition.verification.enable=false`."""
