"""Keeps the state of a log's idempotent and transactional producers (KIP-98).

For each producer id, the state holds its epoch, its last five batches (so that a retry gets the first
result), and the start of its open transaction. An append is validated against it before the write (`stage`),
and recorded after it (`apply`); recovery replays batches through the same path without validation. Open
transactions hold back the last stable offset until their marker has been appended and replicated.

Only the thread that appends uses this state.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.protocol.batch import BatchHeader, Buffer
from penstock.protocol.records import EndTxnMarker, decode_batch, decode_end_txn_marker
from penstock.storage.disk.files import FileSystem
from penstock.storage.errors import InvalidProducerEpoch, InvalidTransactionState
from penstock.storage.names import TopicPartition
from penstock.storage.producers.producer_entry import (
    NO_OFFSET,
    BatchMetadata,
    CompletedTransaction,
    ProducerEntry,
)
from penstock.storage.producers.snapshot_files import ProducerSnapshots
from penstock.storage.producers.staged_append import Origin, StagedAppend
from penstock.storage.producers.verification import NOT_REQUIRED, Verification


class ProducerState:
    """The producers of one log, the transactions open on it, and the snapshots of both on disk."""

    def __init__(self, directory: Path, log_name: TopicPartition, files: FileSystem) -> None:
        self._log_name = log_name
        self.producers: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}  # first offset → producer id, in offset order
        self._unreplicated: dict[int, int] = {}  # first offset → offset of the marker
        self.verifications: dict[int, Verification] = {}
        """Verifications by producer id, while a transaction's first batch waits for them (KIP-890)."""
        self.snapshots = ProducerSnapshots(directory, files)
        self.end_offset = 0  # the state covers all records below

    # --- appends

    def continued_by(self, header: BatchHeader) -> ProducerEntry | None:
        """The producer's entry if a client's batch follows its last one and changes nothing else about it.

        Most batches do: their epoch is the last seen, their sequence the next, and they belong to the open
        transaction, or to none if none is open. After the write, `ProducerEntry.append` adds such a batch.
        Returns None for all others, which `duplicate_of` and `stage` must look at.
        """
        entry = self.producers.get(header.producer_id)
        if (
            entry is None
            or not entry.batches
            or entry.epoch != header.producer_epoch
            or entry.batches[-1].last_sequence + 1 != header.base_sequence
            or (entry.txn_first_offset != NO_OFFSET) != header.is_transactional
            or header.is_control
            or self.verifications
        ):
            return None
        return entry

    def duplicate_of(self, headers: Iterable[BatchHeader]) -> BatchMetadata | None:
        """The batch that one of `headers` repeats, if its producer sent it as one of its last five."""
        for header in headers:
            if header.producer_id >= 0 and (entry := self.producers.get(header.producer_id)):
                duplicate = entry.duplicate_of(header)
                if duplicate is not None:
                    return duplicate
        return None

    def stage(
        self,
        records: Buffer,
        headers: Iterable[BatchHeader],
        offset: int,
        origin: Origin,
        transaction_version: int = 0,
        verification: Verification | None = NOT_REQUIRED,
    ) -> dict[int, StagedAppend]:
        """Validate the batches of idempotent producers in order, and return staged appends by producer id.

        The first batch will get `offset`. `verification` comes from `begin_verification`. Raises a LogError
        if a batch is invalid.
        """
        staged: dict[int, StagedAppend] = {}
        position = 0
        for header in headers:
            if header.producer_id >= 0:
                if header.is_control:
                    record = next(decode_batch(records, position))
                    pending = self._pending(staged, header, origin)
                    pending.add_marker(header, offset, decode_end_txn_marker(record), transaction_version)
                else:
                    if header.is_transactional and origin is not Origin.REPLICATION:
                        self._check_verified(header, verification)
                    self._pending(staged, header, origin).add_data(header, offset)
                if header.is_transactional and self.verifications:
                    self._end_verification(header)
            offset += header.last_offset_delta + 1
            position += header.size_bytes
        assert position == len(records), "the headers do not describe all of the records"
        return staged

    def _pending(self, staged: dict[int, StagedAppend], header: BatchHeader, origin: Origin) -> StagedAppend:
        """The pending change of this batch's producer; created in `staged` for its first batch."""
        producer_id = header.producer_id
        pending = staged.get(producer_id)
        if pending is None:
            current = self.producers.get(producer_id) or ProducerEntry(producer_id)
            verification = self.verifications.get(producer_id)
            pending = staged[producer_id] = StagedAppend(current, origin, self._log_name, verification)
        return pending

    def apply(self, pending: StagedAppend) -> None:
        """Add a staged append to the state; the caller then passes its ended transactions to `complete`."""
        entry = self.producers.get(pending.producer_id)
        if entry is None:
            entry = self.producers[pending.producer_id] = ProducerEntry(pending.producer_id)
        if entry.epoch != pending.epoch:
            entry.epoch = pending.epoch
            entry.batches.clear()
        entry.extend(pending.batches)
        entry.coordinator_epoch = pending.coordinator_epoch
        entry.last_timestamp = pending.last_timestamp
        entry.txn_first_offset = pending.txn_first_offset
        for first_offset in pending.started:
            is_in_order = not self._ongoing or first_offset > next(reversed(self._ongoing))
            self._ongoing[first_offset] = pending.producer_id
            if not is_in_order:  # batches of several producers were appended at once
                self._ongoing = dict(sorted(self._ongoing.items()))

    def replay(self, header: BatchHeader, marker: EndTxnMarker | None) -> list[CompletedTransaction]:
        """Add one batch from the log. Returns the transactions that it ended, for the caller to complete."""
        assert header.last_offset >= self.end_offset, f"offset {header.last_offset} was replayed before"
        completed: list[CompletedTransaction] = []
        if header.producer_id >= 0 and (marker is not None or not header.is_control):
            pending = self._pending({}, header, Origin.REPLICATION)
            if marker is None:
                pending.add_data(header, header.base_offset)
            else:
                pending.add_marker(header, header.base_offset, marker)
            self.apply(pending)
            completed = pending.completed
        self.end_offset = header.next_offset
        return completed

    def complete(self, completed: CompletedTransaction) -> int:
        """Close a transaction. Returns the resulting last stable offset, for the transaction index."""
        self._ongoing.pop(completed.first_offset, None)
        self._unreplicated[completed.first_offset] = completed.last_offset
        return next(iter(self._ongoing), completed.last_offset + 1)

    # --- verification

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> Verification | None:
        """Start the coordinator check that precedes the append of a transactional batch.

        Returns the verification to pass to `stage`, or None if the transaction is already open in this log.
        Raises InvalidProducerEpoch.
        """
        if self.is_open(producer_id, epoch):
            return None
        self._check_not_fenced(producer_id, epoch)
        verification = self.verifications.get(producer_id)
        if verification is None:
            verification = Verification(epoch, sequence, supports_epoch_bump, now_ms)
            self.verifications[producer_id] = verification
        verification.lower_sequence(epoch, sequence)
        return verification

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether this producer has an open transaction of this epoch in this log."""
        entry = self.producers.get(producer_id)
        return entry is not None and entry.txn_first_offset != NO_OFFSET and entry.epoch == epoch

    def _check_not_fenced(self, producer_id: int, epoch: int) -> None:
        entry = self.producers.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"{self._log_name}, producer id {producer_id}: epoch {epoch} is older than the last seen "
                f"{entry.epoch}"
            )

    def _check_verified(self, header: BatchHeader, verification: Verification | None) -> None:
        """Refuse to begin a transaction that its coordinator does not know, as it would never end.

        Raises InvalidProducerEpoch, InvalidTransactionState.
        """
        if verification is NOT_REQUIRED or self.is_open(header.producer_id, header.producer_epoch):
            return
        self._check_not_fenced(header.producer_id, header.producer_epoch)
        if verification is None or self.verifications.get(header.producer_id) is not verification:
            raise InvalidTransactionState(
                f"{self._log_name}, producer id {header.producer_id}: not part of an ongoing transaction"
            )

    def _end_verification(self, header: BatchHeader) -> None:
        """Discard the verification, as the transaction is now open or over: a later answer must not apply.

        With transactions version 2, a marker of the epoch being verified belongs to the transaction before,
        so the verification stays.
        """
        verification = self.verifications.get(header.producer_id)
        if verification is None:
            return
        is_of_next = verification.supports_epoch_bump and header.producer_epoch == verification.epoch
        if not (header.is_control and is_of_next):
            del self.verifications[header.producer_id]

    # --- transactions

    @property
    def open_offsets(self) -> Iterable[int]:
        """The first offsets of the transactions that have no marker yet, in order."""
        return self._ongoing

    def is_opened_at(self, offset: int) -> bool:
        """Whether a transaction that has no marker yet begins at `offset`."""
        return offset in self._ongoing

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest transaction that has no marker yet."""
        return next(iter(self._ongoing), None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of the oldest transaction that is open or whose marker is not replicated yet."""
        if not self._unreplicated:
            return self.first_undecided_offset
        unstable = [first for first, last in self._unreplicated.items() if last >= high_watermark]
        if (undecided := self.first_undecided_offset) is not None:
            unstable.append(undecided)
        return min(unstable, default=None)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Drop the transactions whose markers are now replicated."""
        assert high_watermark <= self.end_offset, f"{high_watermark} is above the log end {self.end_offset}"
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in self._unreplicated.items() if last >= high_watermark
            }

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers idle for `expiration_ms` (`producer.id.expiration.ms`), and verifications as old.

        Returns the number of producers removed.
        """
        expired = [
            entry.producer_id
            for entry in self.producers.values()
            if entry.txn_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        for producer_id, verification in list(self.verifications.items()):
            if now_ms - verification.started_ms >= expiration_ms:
                del self.verifications[producer_id]
        return len(expired)

    # --- snapshots

    def take_snapshot(self) -> None:
        """Write a snapshot at `end_offset`, unless it exists; the next flush makes it durable."""
        self.snapshots.write(self.end_offset, (entry.to_snapshot() for entry in self.producers.values()))

    def load(self, first_offset: int, log_end_offset: int, now_ms: int, expiration_ms: int) -> None:
        """Load the newest snapshot; the caller then replays from `end_offset` on.

        `first_offset` is where the first segment begins. Unlike Apache Kafka, a snapshot at or below the log
        start offset counts too: a producer whose records were deleted may send its last batch again.
        """
        self.forget()
        self.end_offset = first_offset
        found = self.snapshots.newest(first_offset, log_end_offset)
        if found is not None:
            self.end_offset, entries = found
            self._take(map(ProducerEntry.from_snapshot, entries))
            self.remove_expired(now_ms, expiration_ms)

    def _take(self, entries: Iterable[ProducerEntry]) -> None:
        self.producers = {entry.producer_id: entry for entry in entries}
        open_transactions = sorted(
            (entry.txn_first_offset, entry.producer_id)
            for entry in self.producers.values()
            if entry.txn_first_offset != NO_OFFSET
        )
        self._ongoing = dict(open_transactions)

    def forget(self) -> None:
        """Drop the state in memory; the snapshots stay."""
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.verifications.clear()
        self.end_offset = 0
