"""What a log remembers of its idempotent and transactional producers (KIP-98).

For each producer id: its epoch, its last five batches (so that a retry is answered with the first result),
and where its open transaction begins. An append is judged against it before it is written (`stage`), and
noted after (`apply`); recovery replays batches through the same path, unjudged. Open transactions hold back
the last stable offset until their marker has been appended and replicated.

Belongs to the thread that appends. Snapshots are written by it too; their sync is the flush's.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from penstock.protocol.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    decrement_sequence,
)
from penstock.protocol.records import EndTxnMarker, decode_batch, decode_end_txn_marker
from penstock.storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from penstock.storage.files import FileSystem
from penstock.storage.names import (
    DELETED_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TopicPartition,
    offset_file_name,
    offset_of_file,
)
from penstock.storage.producer_snapshot import SnapshotCorrupt, SnapshotEntry, decode, encode
from penstock.storage.verification import NOT_REQUIRED, Verification

logger = logging.getLogger(__name__)

BATCHES_RETAINED: Final = 5
_MAX_SEQUENCE: Final = 0x7FFFFFFF
_NO_OFFSET: Final = -1
_NO_COORDINATOR_EPOCH: Final = -1
_MAX_EPOCH: Final = 0x7FFF
_TRANSACTIONS_V2: Final = 2


class Origin(Enum):
    """Who appends, and so what is checked: sequences of clients only, epochs of all but replicas."""

    CLIENT = auto()
    COORDINATOR = auto()
    REPLICATION = auto()


class BatchMetadata(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "txn_first_offset")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = _NO_COORDINATOR_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.txn_first_offset = _NO_OFFSET
        self.batches: list[BatchMetadata] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """The retained batch that `header` repeats."""
        if header.producer_epoch == self.epoch:
            last_sequence = header.last_sequence
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                    return batch
        return None

    def to_snapshot(self) -> SnapshotEntry:
        last = self.batches[-1] if self.batches else BatchMetadata(NO_SEQUENCE, _NO_OFFSET, 0, NO_TIMESTAMP)
        return SnapshotEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.txn_first_offset,
        )

    @classmethod
    def from_snapshot(cls, snapshot: SnapshotEntry) -> ProducerEntry:
        entry = cls(snapshot.producer_id)
        entry.epoch = snapshot.epoch
        entry.coordinator_epoch = snapshot.coordinator_epoch
        entry.last_timestamp = snapshot.timestamp
        entry.txn_first_offset = max(snapshot.txn_first_offset, _NO_OFFSET)
        if snapshot.last_offset >= 0:
            entry.batches.append(
                BatchMetadata(
                    snapshot.last_sequence, snapshot.last_offset, snapshot.offset_delta, snapshot.timestamp
                )
            )
        return entry


class StagedAppend:
    """What one append would change of one producer's entry, and the checks that it passes on the way."""

    def __init__(
        self,
        current: ProducerEntry,
        origin: Origin,
        log_name: TopicPartition,
        verification: Verification | None = None,
    ) -> None:
        self.producer_id = current.producer_id
        self.epoch = current.epoch
        self.coordinator_epoch = current.coordinator_epoch
        self.last_timestamp = current.last_timestamp
        self.txn_first_offset = current.txn_first_offset
        self.batches: list[BatchMetadata] = []
        self.started: list[int] = []
        self.completed: list[CompletedTransaction] = []
        self._current = current
        self._origin = origin
        self._log_name = log_name
        self._verification = verification

    def add_data(self, header: BatchHeader, first_offset: int) -> None:
        self._check_epoch(header.producer_epoch, first_offset)
        if self._origin is Origin.CLIENT:
            self._check_sequence(header, first_offset)
        self._move_to_epoch(header.producer_epoch)
        last_offset = first_offset + header.last_offset_delta
        self.batches.append(
            BatchMetadata(header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp)
        )
        self.last_timestamp = header.max_timestamp
        if header.is_transactional:
            if self.txn_first_offset == _NO_OFFSET:
                self.txn_first_offset = first_offset
                self.started.append(first_offset)
        elif self.txn_first_offset != _NO_OFFSET and self._origin is not Origin.REPLICATION:
            raise InvalidTransactionState(
                f"{self._where(first_offset)}: a batch outside of its open transaction, which began at "
                f"offset {self.txn_first_offset}"
            )

    def add_marker(
        self, header: BatchHeader, offset: int, marker: EndTxnMarker, transaction_version: int = 0
    ) -> None:
        if transaction_version >= _TRANSACTIONS_V2:
            self._check_bumped_epoch(header.producer_epoch, offset)
        else:
            self._check_epoch(header.producer_epoch, offset)
        if marker.coordinator_epoch < self.coordinator_epoch and self._origin is not Origin.REPLICATION:
            raise TransactionCoordinatorFenced(
                f"{self._where(offset)}: coordinator epoch {marker.coordinator_epoch} is older than "
                f"{self.coordinator_epoch}"
            )
        if self.txn_first_offset != _NO_OFFSET:
            self.completed.append(
                CompletedTransaction(self.producer_id, self.txn_first_offset, offset, not marker.committed)
            )
        self._move_to_epoch(header.producer_epoch)
        self.coordinator_epoch = marker.coordinator_epoch
        self.txn_first_offset = _NO_OFFSET
        self.last_timestamp = header.max_timestamp

    def _move_to_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def _check_epoch(self, epoch: int, offset: int) -> None:
        if epoch < self.epoch and self._origin is not Origin.REPLICATION:
            raise InvalidProducerEpoch(
                f"{self._where(offset)}: epoch {epoch} is older than the last seen {self.epoch}"
            )

    def _check_bumped_epoch(self, epoch: int, offset: int) -> None:
        """The marker of a transaction of version 2 has a higher epoch than its records (KIP-1228).

        So one that comes late can't end the transaction that began meanwhile. One of the same epoch is a
        retry if nothing is open; at the highest epoch there is none above it to take.
        """
        if epoch > self.epoch or self._origin is Origin.REPLICATION:
            return
        if epoch == self.epoch and (self.txn_first_offset == _NO_OFFSET or epoch == _MAX_EPOCH):
            return
        raise InvalidProducerEpoch(
            f"{self._where(offset)}: a marker of epoch {epoch}, which is not above the last seen {self.epoch}"
        )

    def _check_sequence(self, header: BatchHeader, offset: int) -> None:
        """Sequences go on where the last batch ended; a new epoch begins at 0.

        A producer without state may begin anywhere, since its records may have been deleted; in transactions
        of version 2 it can't have been, their epoch is new. While a batch waits to be verified none with a
        higher sequence may overtake it.
        """
        sequence = header.base_sequence
        if (verification := self._verification) is not None:
            lowest = verification.lowest_sequence
            if verification.supports_epoch_bump and not self._current.batches:
                lowest = 0
            if sequence > lowest:
                raise OutOfOrderSequence(
                    f"{self._where(offset)}: sequence {sequence} comes before {lowest}, which is awaited"
                )
        if header.producer_epoch != self.epoch:
            if sequence != 0 and self.epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequence(
                    f"{self._where(offset)}: sequence {sequence} begins epoch {header.producer_epoch} "
                    f"(last seen epoch {self.epoch}), expected 0"
                )
            return
        current = self._current
        if current.epoch == NO_PRODUCER_EPOCH:
            return
        if self.batches:
            last = self.batches[-1].last_sequence
        else:
            last = current.last_sequence if header.producer_epoch == current.epoch else NO_SEQUENCE
        if sequence != last + 1 and not (sequence == 0 and last == _MAX_SEQUENCE):
            raise OutOfOrderSequence(
                f"{self._where(offset)}: sequence {sequence} does not follow the last one, {last}"
            )

    def _where(self, offset: int) -> str:
        return f"{self._log_name}, offset {offset}, producer id {self.producer_id}"


class ProducerState:
    """The producers of one log, the transactions open on it, and the snapshots of both on disk."""

    def __init__(self, directory: Path, log_name: TopicPartition, files: FileSystem) -> None:
        self._directory = directory
        self._log_name = log_name
        self._files = files
        self.producers: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}  # first offset → producer id, in offset order
        self._unreplicated: dict[int, int] = {}  # first offset → offset of the marker
        self.verifications: dict[int, Verification] = {}
        """By producer id, while its transaction's first batch awaits the coordinator's word (KIP-890)."""
        self._unsynced: list[Path] = []
        self.end_offset = 0  # the state is that of all records below
        self._snapshot_offsets = sorted(
            offset
            for path in directory.glob("*" + PRODUCER_SNAPSHOT_SUFFIX)
            if (offset := offset_of_file(path.name)) is not None
        )

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
        return entry is not None and entry.txn_first_offset != _NO_OFFSET and entry.epoch == epoch

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
            if entry.txn_first_offset == _NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        for producer_id, verification in list(self.verifications.items()):
            if now_ms - verification.started_ms >= expiration_ms:
                del self.verifications[producer_id]
        return len(expired)

    # --- snapshots

    @property
    def snapshot_offsets(self) -> list[int]:
        return self._snapshot_offsets

    def snapshot_path(self, offset: int) -> Path:
        return self._directory / offset_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)

    def take_snapshot(self) -> None:
        """Write the state at `end_offset`, unless it is there; `sync_snapshots` makes it durable."""
        latest = self._snapshot_offsets[-1] if self._snapshot_offsets else _NO_OFFSET
        if self.end_offset <= max(latest, 0):
            return
        path = self.snapshot_path(self.end_offset)
        data = encode(entry.to_snapshot() for entry in self.producers.values())
        self._files.write_file(path, data, sync=False)
        self._snapshot_offsets.append(self.end_offset)
        self._unsynced.append(path)

    def sync_snapshots(self) -> None:
        """Make the snapshots taken so far durable. May run in a worker."""
        while self._unsynced:
            self._files.sync_path(self._unsynced[0])
            del self._unsynced[0]

    def load(self, log_start_offset: int, log_end_offset: int, now_ms: int, expiration_ms: int) -> None:
        """Become the newest sound snapshot in (start, end]; `end_offset` tells what remains to be replayed.

        Snapshots outside that range, and broken ones, are removed.
        """
        self.forget()
        for offset in list(self._snapshot_offsets):
            if not log_start_offset < offset <= log_end_offset:
                self.remove_snapshot(offset)
        self.end_offset = log_start_offset
        for offset in reversed(list(self._snapshot_offsets)):
            path = self.snapshot_path(offset)
            try:
                entries = decode(path.read_bytes())
            except SnapshotCorrupt as error:
                logger.warning("%s: producer snapshot %s is dropped: %s", self._log_name, path, error)
                self.remove_snapshot(offset)
                continue
            self._take(map(ProducerEntry.from_snapshot, entries))
            self.remove_expired(now_ms, expiration_ms)
            self.end_offset = offset
            return

    def _take(self, entries: Iterable[ProducerEntry]) -> None:
        self.producers = {entry.producer_id: entry for entry in entries}
        open_transactions = sorted(
            (entry.txn_first_offset, entry.producer_id)
            for entry in self.producers.values()
            if entry.txn_first_offset != _NO_OFFSET
        )
        self._ongoing = dict(open_transactions)

    def forget(self) -> None:
        """Drop the state in memory; the snapshots stay."""
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.verifications.clear()
        self.end_offset = 0

    def remove_stray_snapshots(self, base_offsets: list[int]) -> None:
        """Keep snapshots at segment boundaries and the newest one beyond them (KAFKA-9393)."""
        strays = [offset for offset in self._snapshot_offsets if offset not in set(base_offsets)]
        newest_base = base_offsets[-1] if base_offsets else _NO_OFFSET
        keep = strays[-1:] if strays and strays[-1] > newest_base else []
        for offset in strays:
            if offset not in keep:
                self.remove_snapshot(offset)

    def remove_snapshots_above(self, offset: int) -> None:
        for snapshot in self._snapshot_offsets[bisect_left(self._snapshot_offsets, offset + 1) :]:
            self.remove_snapshot(snapshot)

    def remove_snapshot(self, offset: int) -> None:
        if offset in self._snapshot_offsets:
            self._snapshot_offsets.remove(offset)
        self._files.remove_if_exists(self.snapshot_path(offset))

    def mark_snapshot_deleted(self, offset: int) -> list[Path]:
        """Rename the snapshot at `offset`, if any, out of the way. Returns it, for a worker to remove."""
        if offset not in self._snapshot_offsets:
            return []
        self._snapshot_offsets.remove(offset)
        path = self.snapshot_path(offset)
        renamed = path.with_name(path.name + DELETED_SUFFIX)
        try:
            self._files.rename(path, renamed)
        except FileNotFoundError:
            return []
        return [renamed]
