"""A source task whose offsets follow its records, some of which are sent again after a crash."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from penstock.client.errors import ClientError
from penstock.connect.connector.source import RecordMetadata, SourceTask
from penstock.connect.data.records import Offset, Partition, SourceRecord
from penstock.connect.errors import ConnectError, DataError
from penstock.connect.tasks.metrics import TaskMetrics
from penstock.connect.tasks.parts import TaskParts
from penstock.connect.tasks.sending.delivery import OutgoingRecord, Sender, SenderClosed
from penstock.connect.tasks.settings import OffsetSettings
from penstock.connect.tasks.sources.source_work import SourceContext, SourceWork
from penstock.connect.tasks.sources.submitted_records import SubmittedRecord, SubmittedRecords
from penstock.connect.tasks.sources.topic_creation import TopicCreation
from penstock.connect.tasks.tolerance import Attempt, Stage, Tolerance

log = logging.getLogger(__name__)


class OffsetSink(Protocol):
    """Stores offsets, such as `stores.OffsetWriter`."""

    def add(self, partition: Partition, offset: Offset) -> None:
        """Note how far a partition was read. Raises DataError for an invalid partition."""

    def flush(self) -> bool:
        """Write the offsets; return whether there were any. Raises ConnectError; they are kept then."""


class _Delivery:
    """Takes the outcome of one record, its place or an error, on the sender's thread for the task's."""

    __slots__ = ("_outcomes", "attempt", "error", "metadata", "submitted", "topic")

    def __init__(
        self,
        outcomes: deque[_Delivery],
        attempt: Attempt[SourceRecord],
        submitted: SubmittedRecord,
        topic: str,
    ) -> None:
        self._outcomes = outcomes
        self.attempt = attempt
        self.submitted = submitted
        self.topic = topic
        self.metadata: RecordMetadata | None = None
        self.error: Exception | None = None

    def acknowledged(self, topic: str, partition: int, offset: int, timestamp_ms: int) -> None:
        self.metadata = RecordMetadata(topic, partition, offset, timestamp_ms)
        self._outcomes.append(self)

    def failed(self, error: Exception) -> None:
        self.error = error
        self._outcomes.append(self)


class AtLeastOnceWork(SourceWork):
    """Sends records through ``sender``, and stores the offsets of those that are in their topics.

    Offsets are stored every ``offset.flush.interval.ms``, before a pause and at the end.
    """

    def __init__(
        self,
        parts: TaskParts[SourceTask],
        metrics: TaskMetrics,
        tolerance: Tolerance[SourceRecord],
        context: SourceContext,
        sender: Sender,
        offsets: OffsetSink,
        settings: OffsetSettings,
        *,
        topics: TopicCreation | None = None,
        on_release: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parts, metrics, tolerance, context, topics)
        self._sender = sender
        self._offsets = offsets
        self._settings = settings
        self._on_release = on_release
        self._clock = clock
        self._next_flush_s = clock() + settings.flush_interval_ms / 1000
        self._submitted = SubmittedRecords()
        self._outcomes: deque[_Delivery] = deque()
        self._is_cancelled = False

    def prepare(self) -> None: ...

    def resume(self) -> None:
        self._next_flush_s = self._clock() + self._settings.flush_interval_ms / 1000

    def pause(self) -> None:
        self._sender.flush(self._settings.flush_timeout_ms / 1000)
        self.commit_offsets()

    def begin_step(self) -> None:
        self._take_outcomes()
        self._collect_offsets()
        if self._clock() >= self._next_flush_s:
            self.commit_offsets()
            self._next_flush_s = self._clock() + self._settings.flush_interval_ms / 1000

    def send(self, attempt: Attempt[SourceRecord], record: OutgoingRecord) -> None:
        submitted = self._submitted.submit(attempt.original)
        try:
            self._sender.send(record, _Delivery(self._outcomes, attempt, submitted, record.topic))
        except BaseException:
            self._submitted.withdraw(submitted)
            raise

    def dropped(self, record: SourceRecord) -> None:
        self.commit_record(record, None)

    def batch_sent(self) -> None: ...

    def finish(self, *, failed: bool) -> None:
        """Store the offsets of all records that arrive in time, also if the task has failed."""
        self._sender.flush(self._settings.flush_timeout_ms / 1000)
        self.commit_offsets()

    def cancel(self) -> None:
        self._is_cancelled = True
        self.tolerance.stop()
        self._sender.close()
        self._on_release()

    def release(self) -> None:
        self._sender.close()
        self._on_release()

    def _take_outcomes(self) -> None:
        """Handle what became of records since the last time. Raises ConnectError if one could not be sent."""
        while self._outcomes:
            outcome = self._outcomes.popleft()
            record = outcome.attempt.original
            self.metrics.active -= 1
            if outcome.error is None:
                self.metrics.sent += 1
                self.used_topics.add(outcome.topic)
            elif self.tolerance.tolerates and not isinstance(outcome.error, SenderClosed):
                self.tolerance.note(outcome.attempt, Stage.KAFKA_PRODUCE, AtLeastOnceWork, outcome.error)
            else:
                raise ConnectError(
                    f"Unrecoverable exception from producer send callback: {outcome.error}"
                ) from outcome.error
            self.commit_record(record, outcome.metadata)
            outcome.submitted.is_acknowledged = True

    def commit_offsets(self) -> None:
        """Store the offsets of acknowledged records; after a failure, the next commit stores them.

        A cancelled task stores none: its successor may have stored newer ones.
        """
        if self._is_cancelled:
            return
        began_s = time.monotonic()
        try:
            self._take_outcomes()
        finally:
            succeeded = self._store_offsets()
            self.metrics.count_commit(began_s, succeeded=succeeded)
            if succeeded:
                self.commit_task()

    def _collect_offsets(self) -> None:
        """Forget the acknowledged records and keep the last offset of each partition for the next commit."""
        for partition, offset in self._submitted.take():
            try:
                self._offsets.add(partition, offset)
            except DataError as error:
                log.error("an offset cannot be stored task=%s error=%s", self.parts.task_id, error)

    def _store_offsets(self) -> bool:
        self._collect_offsets()
        try:
            self._offsets.flush()
        except (ConnectError, ClientError) as error:
            log.error(
                "offsets were not stored, trying again later task=%s error=%s", self.parts.task_id, error
            )
            return False
        return True
