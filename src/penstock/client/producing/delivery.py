"""The order in which one partition's batches are sent, acknowledged and resent, without I/O.

An idempotent producer (KIP-98) has up to five batches of a partition in flight. The broker accepts them only
in the order of their sequence numbers, so when one fails, those sent after it fail as well. The queue keeps
failed batches in order and resends them with their old numbers once nothing of this partition is in flight.
Without idempotence the broker makes no such check, so only one batch is in flight at a time and retries never
reorder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.client.batches import number

NO_SEQUENCE: Final = -1


@dataclass(slots=True, eq=False)
class PendingBatch:
    """One record batch to deliver: its bytes in ``data``; after ``deadline`` (monotonic s) delivery fails.

    ``number`` counts the batches that the producer was given before it. Parts of a batch share its number.
    """

    data: bytearray
    count: int
    deadline: float
    base_sequence: int = NO_SEQUENCE
    number: int = 0


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """A producer's transaction; `is_version_2` if the cluster has finalized the newer protocol (KIP-890)."""

    transactional_id: str
    identity: ProducerIdentity
    is_version_2: bool


class PartitionQueue:
    """The batches of one partition between `add` and `acknowledge`."""

    def __init__(self, identity: ProducerIdentity | None, max_in_flight: int) -> None:
        self._identity = identity
        self._max_in_flight = max_in_flight if identity is not None else 1
        self._waiting: deque[PendingBatch] = deque()
        self._in_flight: deque[PendingBatch] = deque()
        self._failed: deque[PendingBatch] = deque()
        self._next_sequence = 0

    def __len__(self) -> int:
        """The number of batches that are not acknowledged yet."""
        return len(self._waiting) + len(self._in_flight) + len(self._failed)

    def add(self, batch: PendingBatch) -> None:
        self._waiting.append(batch)

    @property
    def next_size(self) -> int | None:
        """Bytes of the batch that `take` would return; None if nothing may be sent now."""
        if self._failed:
            return None if self._in_flight else len(self._failed[0].data)
        if not self._waiting or len(self._in_flight) >= self._max_in_flight:
            return None
        return len(self._waiting[0].data)

    def take(self) -> PendingBatch:
        """Number the next batch, mark it as in flight, and return it."""
        if self._failed:
            self._waiting.extendleft(reversed(self._failed))
            self._failed.clear()
        batch = self._waiting.popleft()
        if self._identity is not None and batch.base_sequence == NO_SEQUENCE:
            self._number(batch, self._next_sequence)
            self._next_sequence = (self._next_sequence + batch.count) & 0x7FFFFFFF
        self._in_flight.append(batch)
        return batch

    def acknowledge(self, batch: PendingBatch) -> None:
        self._in_flight.remove(batch)

    def fail(self, batch: PendingBatch) -> None:
        """Keep a batch whose attempt failed, to resend it in its place."""
        self._in_flight.remove(batch)
        self._failed.append(batch)

    @property
    def is_resending(self) -> bool:
        """Whether a batch waits to be resent; the broker refuses later ones as out of order until then."""
        return bool(self._failed)

    @property
    def earliest_deadline(self) -> float | None:
        heads = [batches[0].deadline for batches in (self._failed, self._in_flight, self._waiting) if batches]
        return min(heads, default=None)

    def replace(self, batch: PendingBatch, parts: Iterable[PendingBatch]) -> None:
        """Send ``parts``, which hold the same records, in place of a batch that was too large."""
        self._in_flight.remove(batch)
        sequence = batch.base_sequence
        for part in parts:
            if self._identity is not None:
                self._number(part, sequence)
                sequence = (sequence + part.count) & 0x7FFFFFFF
            self._failed.append(part)

    def _number(self, batch: PendingBatch, sequence: int) -> None:
        assert self._identity is not None
        batch.base_sequence = sequence
        number(batch.data, self._identity.producer_id, self._identity.producer_epoch, sequence)
