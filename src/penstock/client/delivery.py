"""The order in which one partition's batches are sent, acknowledged and sent again. Pure.

An idempotent producer (KIP-98) has up to five batches of a partition in flight. The broker takes them in the
order of their sequence numbers only, so when one fails, those sent after it fail as well; they are kept aside
in order and sent again, with the numbers they had, once nothing of this partition is in flight any more.
Without idempotence there is no such check, hence one batch in flight at a time: retries never reorder.
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
    """``data``: one record batch as it goes to the broker; ``deadline``: when to give up (monotonic s)."""

    data: bytearray
    count: int
    deadline: float
    base_sequence: int = NO_SEQUENCE


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a producer writes in; `is_version_2` is the protocol that the cluster has finalized (KIP-890)."""

    transactional_id: str
    identity: ProducerIdentity
    is_version_2: bool


class PartitionQueue:
    """Batches of one partition between `add` and `acknowledge`."""

    def __init__(self, identity: ProducerIdentity | None, max_in_flight: int) -> None:
        self._identity = identity
        self._max_in_flight = max_in_flight if identity is not None else 1
        self._waiting: deque[PendingBatch] = deque()
        self._in_flight: deque[PendingBatch] = deque()
        self._failed: deque[PendingBatch] = deque()
        self._next_sequence = 0

    def __len__(self) -> int:
        """Batches not acknowledged yet."""
        return len(self._waiting) + len(self._in_flight) + len(self._failed)

    def add(self, batch: PendingBatch) -> None:
        self._waiting.append(batch)

    @property
    def next_size(self) -> int | None:
        """Bytes of the batch that `take` would give; None: nothing may be sent now."""
        if self._failed:
            return None if self._in_flight else len(self._failed[0].data)
        if not self._waiting or len(self._in_flight) >= self._max_in_flight:
            return None
        return len(self._waiting[0].data)

    def take(self) -> PendingBatch:
        """The next batch to send, numbered, and in flight from now on."""
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
        """Keep a batch whose attempt failed, to be sent again in its place."""
        self._in_flight.remove(batch)
        self._failed.append(batch)

    @property
    def is_resending(self) -> bool:
        """Whether a batch waits to be sent again: then later ones are refused as out of order."""
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
