"""What a log remembers of its idempotent and transactional producers (KIP-98).

For each producer id: its epoch, its last five batches (so that a retry is answered with the first result),
and where its open transaction begins. An append is judged against it before it is written (`stage`), and
noted after (`apply`); recovery replays batches through the same path, unjudged. Open transactions hold back
the last stable offset until their marker has been appended and replicated.

Belongs to the thread that appends.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.protocol.batch import BatchHeader, Buffer
from penstock.protocol.records import EndTxnMarker, decode_batch, decode_end_txn_marker
from penstock.storage.errors import InvalidProducerEpoch, InvalidTransactionState
from penstock.storage.files import FileSystem
from penstock.storage.names import TopicPartition
from penstock.storage.producer_entry import NO_OFFSET, BatchMetadata, CompletedTransaction, ProducerEntry
from penstock.storage.producer_snapshots import ProducerSnapshots
from penstock.storage.staged_append import Origin, StagedAppend
from penstock.storage.verification import NOT_REQUIRED, Verification

BATCHES_RETAINED: Final = 5


class ProducerState:
    """The producers of one log, the transactions open on it, and the snapshots of both on disk."""

    def __init__(self, directory: Path, log_name: TopicPartition, files: FileSystem) -> None:
        self._log_name = log_name
        self.producers: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}  # first offset → producer id, in offset order
        self._unreplicated: dict[int, int] = {}  # first offset → offset of the marker
        self.verifications: dict[int, Verification] = {}
        """By producer id, while its transaction's first batch awaits the coordinator's word (KIP-890)."""
        self.snapshots = ProducerSnapshots(directory, files)
        self.end_offset = 0  # the state is that of all records below

    # --- appends

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
        """Judge the batches of idempotent producers, in order, the first to get `offset`; by producer id.

        `verification` is what the caller has got from `begin_verification`. Raises a LogError.
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
        return staged

    def _pending(self, staged: dict[int, StagedAppend], header: BatchHeader, origin: Origin) -> StagedAppend:
        """The pending change of this batch's producer, begun in `staged` where it is the request's first."""
        producer_id = header.producer_id
        pending = staged.get(producer_id)
        if pending is None:
            current = self.producers.get(producer_id) or ProducerEntry(producer_id)
            verification = self.verifications.get(producer_id)
            pending = staged[producer_id] = StagedAppend(current, origin, self._log_name, verification)
        return pending

    def apply(self, pending: StagedAppend) -> None:
        """Make a staged append part of the state; its completed transactions follow with `complete`."""
        entry = self.producers.get(pending.producer_id)
        if entry is None:
            entry = self.producers[pending.producer_id] = ProducerEntry(pending.producer_id)
        if entry.epoch != pending.epoch:
            entry.epoch = pending.epoch
            entry.batches.clear()
        entry.batches.extend(pending.batches)
        del entry.batches[:-BATCHES_RETAINED]
        entry.coordinator_epoch = pending.coordinator_epoch
        entry.last_timestamp = pending.last_timestamp
        entry.txn_first_offset = pending.txn_first_offset
        for first_offset in pending.started:
            is_in_order = not self._ongoing or first_offset > next(reversed(self._ongoing))
            self._ongoing[first_offset] = pending.producer_id
            if not is_in_order:  # where batches of several producers are appended at once
                self._ongoing = dict(sorted(self._ongoing.items()))

    def replay(self, header: BatchHeader, marker: EndTxnMarker | None) -> list[CompletedTransaction]:
        """Take in one batch found in the log; the transactions that it ended are the caller's to complete."""
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
        """Close a transaction. Returns the last stable offset then, for the transaction index."""
        self._ongoing.pop(completed.first_offset, None)
        self._unreplicated[completed.first_offset] = completed.last_offset
        return next(iter(self._ongoing), completed.last_offset + 1)

    # --- verification

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> Verification | None:
        """Before a transactional batch is appended: what to ask the coordinator for, to be given to `stage`.

        None where the transaction is open here already. Raises InvalidProducerEpoch.
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
        """Whether this producer has a transaction in this log, in this epoch."""
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
        """No transaction begins behind its coordinator's back: nobody would end it."""
        if verification is NOT_REQUIRED or self.is_open(header.producer_id, header.producer_epoch):
            return
        self._check_not_fenced(header.producer_id, header.producer_epoch)
        if verification is None or self.verifications.get(header.producer_id) is not verification:
            raise InvalidTransactionState(
                f"{self._log_name}, producer id {header.producer_id}: not part of an ongoing transaction"
            )

    def _end_verification(self, header: BatchHeader) -> None:
        """The transaction is open or over now; a later word of the coordinator is about none of these.

        But a marker of the epoch that is being verified is that of the transaction before (version 2).
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
        """Where the transactions begin that have no marker yet, in order."""
        return self._ongoing

    def is_opened_at(self, offset: int) -> bool:
        """Whether a transaction that has no marker yet begins there."""
        return offset in self._ongoing

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest transaction begins that has no marker yet."""
        return next(iter(self._ongoing), None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is open, or whose marker is not replicated yet."""
        if not self._unreplicated:
            return self.first_undecided_offset
        unstable = [first for first, last in self._unreplicated.items() if last >= high_watermark]
        if (undecided := self.first_undecided_offset) is not None:
            unstable.append(undecided)
        return min(unstable, default=None)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget the transactions whose markers are replicated now."""
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in self._unreplicated.items() if last >= high_watermark
            }

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers idle for `producer.id.expiration.ms`, and verifications as old.

        Returns how many producers.
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
        """Write the state at `end_offset`, unless it is there; the next flush makes it durable."""
        self.snapshots.write(self.end_offset, (entry.to_snapshot() for entry in self.producers.values()))

    def load(self, log_start_offset: int, log_end_offset: int, now_ms: int, expiration_ms: int) -> None:
        """Become the newest snapshot in (start, end]; `end_offset` tells what remains to be replayed."""
        self.forget()
        self.end_offset = log_start_offset
        found = self.snapshots.newest(log_start_offset, log_end_offset)
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
