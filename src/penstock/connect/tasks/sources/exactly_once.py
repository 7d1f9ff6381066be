"""A source task whose records and offsets share transactions: nothing is lost or sent twice (KIP-618)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError
from penstock.connect.connector.source import RecordMetadata, SourceTask
from penstock.connect.data.records import Offset, Partition, SourceRecord
from penstock.connect.errors import ConnectError
from penstock.connect.stores import ConnectorOffsets, KeyValue, OffsetWriter
from penstock.connect.tasks.metrics import TaskMetrics
from penstock.connect.tasks.parts import TaskParts
from penstock.connect.tasks.sending.delivery import Delivery, OutgoingRecord
from penstock.connect.tasks.sending.transactions import transaction_error
from penstock.connect.tasks.sources.boundaries import Boundary, Ending
from penstock.connect.tasks.sources.source_work import SourceContext, SourceWork
from penstock.connect.tasks.sources.topic_creation import TopicCreation
from penstock.connect.tasks.tolerance import Attempt, Tolerance

log = logging.getLogger(__name__)

_Settled = tuple[SourceRecord, RecordMetadata | None]


class PendingOffsets(Protocol):
    """The offsets of records in the open transaction."""

    @property
    def topic(self) -> str:
        """The topic that gets them."""
        ...

    def add(self, partition: Partition, offset: Offset) -> None:
        """Note how far a partition was read. Raises DataError for an invalid partition."""

    def take(self) -> Mapping[TopicPartition, Sequence[KeyValue]]:
        """Return the records to write; `done` or `failed` follows. Raises ConnectError."""

    def done(self) -> None:
        """Note that the records are committed."""

    def failed(self) -> None:
        """Note that the records are not committed."""


class TransactionSender(Protocol):
    """Sends records in transactions, as `transactions.TransactionalSender` does."""

    def interrupt(self) -> None: ...

    @property
    def is_open(self) -> bool: ...

    def fence(self) -> None: ...

    def send(self, record: OutgoingRecord, delivery: Delivery) -> None: ...

    def push(self) -> None: ...

    def commit(self, offsets: Mapping[TopicPartition, Sequence[KeyValue]]) -> None: ...

    def abort(self) -> None: ...

    def close(self, *, abort: bool = True) -> None: ...


class StoredPendingOffsets:
    """Pending offsets for the connector's store."""

    def __init__(self, offsets: ConnectorOffsets) -> None:
        self._offsets = offsets
        self._writer = OffsetWriter(offsets)
        self._taken: Mapping[bytes, bytes | None] = {}

    @property
    def topic(self) -> str:
        return self._offsets.topic

    def add(self, partition: Partition, offset: Offset) -> None:
        self._writer.add(partition, offset)

    def take(self) -> Mapping[TopicPartition, Sequence[KeyValue]]:
        self._taken = self._writer.begin()
        self._offsets.before_commit(self._taken)
        return self._offsets.placed(self._taken)

    def done(self) -> None:
        self._writer.done()
        self._offsets.after_commit(self._taken)

    def failed(self) -> None:
        self._writer.failed()


class _Delivery:
    """Takes the place of one record; an error ends the whole transaction."""

    __slots__ = ("_record", "_settled")

    def __init__(self, settled: list[_Settled], record: SourceRecord) -> None:
        self._settled = settled
        self._record = record

    def acknowledged(self, topic: str, partition: int, offset: int, timestamp_ms: int) -> None:
        self._settled.append((self._record, RecordMetadata(topic, partition, offset, timestamp_ms)))

    def failed(self, error: Exception) -> None: ...


class ExactlyOnceWork(SourceWork):
    """Sends records in transactions that end at ``boundary``, each with the offsets of its records.

    ``check`` raises if another worker has taken over the task; see `parts.ExactlyOnce`.
    """

    def __init__(
        self,
        parts: TaskParts[SourceTask],
        metrics: TaskMetrics,
        tolerance: Tolerance[SourceRecord],
        context: SourceContext,
        sender: TransactionSender,
        offsets: PendingOffsets,
        boundary: Boundary,
        *,
        topics: TopicCreation | None = None,
        check: Callable[[], None] = lambda: None,
        on_release: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(parts, metrics, tolerance, context, topics)
        self._sender = sender
        self._offsets = offsets
        self._boundary = boundary
        self._check = check
        self._on_release = on_release
        self._settled: list[_Settled] = []
        """Records that the transaction has or that were dropped since the last one, for `commit_record`."""
        self._newest: SourceRecord | None = None
        """The newest record, if its offset is not noted yet: noting each one takes long."""
        self._records = 0
        self._is_cancelled = False

    def prepare(self) -> None:
        self._check()
        if self._is_cancelled:  # a successor may run already, which this task must not fence
            raise ConnectError(f"task {self.parts.task_id} was cancelled before it had a producer")
        self._sender.fence()
        self._check()

    def resume(self) -> None:
        self._boundary.begin()

    def pause(self) -> None:
        """End the transaction: during a pause it would expire."""
        self._end(self._boundary.at_end())

    def begin_step(self) -> None: ...

    def send(self, attempt: Attempt[SourceRecord], record: OutgoingRecord) -> None:
        if record.topic == self._offsets.topic:
            # A task that waits for its offsets would wait for its own open transaction.
            raise ConnectError(
                "Source tasks may not produce to their own offsets topics when exactly-once support is"
                " enabled"
            )
        source = attempt.original
        self._sender.send(record, _Delivery(self._settled, source))
        self.used_topics.add(record.topic)
        if self._newest is not None and self._newest.source_partition is source.source_partition:
            self._newest = source
        else:
            self._note_newest()
            self._offsets.add(source.source_partition, source.source_offset)
            self._newest = source
        self._records += 1
        self._end(self._boundary.after_record(source))

    def dropped(self, record: SourceRecord) -> None:
        self._settled.append((record, None))
        self._end(self._boundary.after_record(record))

    def batch_sent(self) -> None:
        ending = self._boundary.after_batch()
        if ending is None:
            self._push()
        self._end(ending)

    def finish(self, *, failed: bool) -> None:
        if not failed:
            self._end(self._boundary.at_end())

    def cancel(self) -> None:
        self._is_cancelled = True
        self._sender.interrupt()
        self.tolerance.stop()
        self._on_release()

    def release(self) -> None:
        self._sender.close(abort=not self._is_cancelled)
        self._on_release()

    def _push(self) -> None:
        try:
            self._sender.push()
        except ClientError as error:
            raise transaction_error("Unrecoverable exception trying to send", error) from error

    def _end(self, ending: Ending | None) -> None:
        if ending is Ending.ABORT:
            self._abort()
        if ending is not None:
            self._commit()

    def _abort(self) -> None:
        log.info("aborting a transaction, as the task requests task=%s", self.parts.task_id)
        if not self._sender.is_open:
            log.warning("the aborted transaction is empty task=%s", self.parts.task_id)
            return
        self._sender.abort()
        self.metrics.active -= self._records
        self._records = 0

    def _commit(self) -> None:
        if self._is_cancelled:
            return
        began_s = time.monotonic()
        self._note_newest()
        try:
            offsets = self._offsets.take()
            if offsets or self._sender.is_open:
                self._sender.commit(offsets)
        except (ConnectError, ClientError) as error:
            self.metrics.count_commit(began_s, succeeded=False)
            self._offsets.failed()
            message = f"Failed to flush offsets and/or records for task {self.parts.task_id}"
            raise transaction_error(message, error) from error
        self._offsets.done()
        self.metrics.count_commit(began_s, succeeded=True)
        self._count()
        settled, self._settled[:] = list(self._settled), ()
        for record, metadata in settled:
            self.commit_record(record, metadata)
        self.commit_task()

    def _note_newest(self) -> None:
        newest, self._newest = self._newest, None
        if newest is not None:
            self._offsets.add(newest.source_partition, newest.source_offset)

    def _count(self) -> None:
        if self._records:
            self.metrics.transactions += 1
            self.metrics.transaction_records += self._records
        self.metrics.sent += self._records
        self.metrics.active -= self._records
        self._records = 0
