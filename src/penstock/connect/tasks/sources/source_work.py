"""The loop of a source task: poll, transform, convert, send (Connect's AbstractWorkerSourceTask).

What is done with records that are sent, and with their offsets, differs between `at_least_once` and
`exactly_once`. Everything here runs on the task's thread, the methods of the user's task included.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.client.errors import ClientError
from penstock.connect.connector.connector import parsed
from penstock.connect.connector.source import OffsetReader, RecordMetadata, SourceTask, TransactionContext
from penstock.connect.data.records import Offset, Partition, SourceRecord
from penstock.connect.errors import ConnectError, RetriableError
from penstock.connect.tasks.closing import close_quietly
from penstock.connect.tasks.conversion import SourceConversion
from penstock.connect.tasks.metrics import TaskMetrics
from penstock.connect.tasks.parts import TaskParts, UsedTopics
from penstock.connect.tasks.sending.delivery import OutgoingRecord
from penstock.connect.tasks.sources.topic_creation import TopicCreation
from penstock.connect.tasks.tolerance import Attempt, Tolerance

log = logging.getLogger(__name__)

_SEND_BACKOFF_S: Final = 0.1
_IDLE_MIN_S: Final = 0.01
"""The wait after the first empty result of `poll`; it doubles with each further one."""
_IDLE_MAX_S: Final = 0.25


class SourceContext:
    """The worker, as a source task sees it."""

    def __init__(
        self, parts: TaskParts[SourceTask], reader: OffsetReader, transaction: TransactionContext | None
    ) -> None:
        self._parts = parts
        self._reader = reader
        self._transaction = transaction

    @property
    def transaction(self) -> TransactionContext | None:
        return self._transaction

    def configs(self) -> Mapping[str, str]:
        return self._parts.configs()

    def offset(self, partition: Partition) -> Offset | None:
        return self._reader.offset(partition)

    def offsets(self, partitions: Sequence[Partition]) -> list[Offset | None]:
        return self._reader.offsets(partitions)


class SourceWork(ABC):
    """The common parts of both kinds of source tasks."""

    steps_while_paused = False

    def __init__(
        self,
        parts: TaskParts[SourceTask],
        metrics: TaskMetrics,
        tolerance: Tolerance[SourceRecord],
        context: SourceContext,
        topics: TopicCreation | None = None,
    ) -> None:
        self.parts = parts
        self.metrics = metrics
        self.tolerance = tolerance
        self._conversion = SourceConversion(parts, tolerance)
        self._topics = topics
        self._context = context
        self._woken = threading.Event()
        self._is_initialized = False
        self._to_send: Sequence[SourceRecord] = ()
        self._empty_polls = 0
        self.used_topics = UsedTopics(parts.topic_used)

    # What differs between both kinds

    @abstractmethod
    def prepare(self) -> None:
        """Prepare before the user's task starts."""

    @abstractmethod
    def begin_step(self) -> None:
        """Do what is due before each step."""

    @abstractmethod
    def send(self, attempt: Attempt[SourceRecord], record: OutgoingRecord) -> None:
        """Send a record. Raises ConnectError, and ClientError if that can be retried."""

    @abstractmethod
    def dropped(self, record: SourceRecord) -> None:
        """Note that a record will not be sent: a transform or an error dropped it."""

    @abstractmethod
    def batch_sent(self) -> None:
        """Note that all records of the last poll are sent or dropped."""

    @abstractmethod
    def release(self) -> None:
        """Close what sends records and reads offsets."""

    # The steps

    def start(self) -> None:
        self.tolerance.open()
        self.prepare()
        task = self.parts.task
        self._is_initialized = True
        task.context = self._context
        task.start(parsed(task.definition, self.parts.properties))
        self.resume()

    def step(self) -> None:
        self.begin_step()
        if not self._to_send:
            self._poll()
        if self._send_records():
            self.batch_sent()
        else:
            self._woken.wait(_SEND_BACKOFF_S)

    def close(self) -> None:
        """Stop the user's task if it was started, then release everything; failures are logged."""
        if self._is_initialized:
            close_quietly("the task", self.parts.task.stop)
        close_quietly("the clients of the task", self.release)
        if self._topics is not None:
            close_quietly("the client that creates topics", self._topics.close)
        self.parts.close()
        close_quietly("the reports of errors", self.tolerance.close)

    def wake(self) -> None:
        self._woken.set()

    def request_stop(self) -> None:
        self._woken.set()

    def _poll(self) -> None:
        began_s = time.monotonic()
        try:
            self._to_send = _listed(self.parts.task, self.parts.task.poll())
        except RetriableError as error:
            log.warning("the task cannot poll, retrying task=%s error=%s", self.parts.task_id, error)
            self._to_send = ()
        if self._to_send:
            self._empty_polls = 0
            self.metrics.batches += 1
            self.metrics.batch_seconds += time.monotonic() - began_s
            self.metrics.received += len(self._to_send)
            self.metrics.active += len(self._to_send)
        else:
            # A short wait first, so that a source that pauses for a moment is not slowed down.
            self._woken.wait(min(_IDLE_MIN_S * 2**self._empty_polls, _IDLE_MAX_S))
            self._empty_polls = min(self._empty_polls + 1, 10)
        self._woken.clear()

    def _send_records(self) -> bool:
        """Send what the last poll returned; False if some records have to be sent again later."""
        for number, record in enumerate(self._to_send):
            attempt = Attempt(record)
            outgoing = self._conversion.convert(attempt)
            if outgoing is None:
                self.metrics.active -= 1
                self.dropped(record)
                continue
            try:
                if self._topics is not None:
                    self._topics.require(outgoing.topic)
                self.send(attempt, outgoing)
            except (RetriableError, ClientError) as error:
                if isinstance(error, ClientError) and not error.retriable:
                    raise ConnectError(f"Unrecoverable exception trying to send: {error}") from error
                log.warning(
                    "a record was not sent, retrying topic=%s partition=%s error=%s",
                    *(outgoing.topic, outgoing.partition, error),
                )
                self._to_send = self._to_send[number:]
                return False
        self._to_send = ()
        return True

    # For both kinds

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Tell the user's task what became of a record; its errors are logged."""
        try:
            self.parts.task.commit_record(record, metadata)
        except Exception:
            log.exception("commit_record failed task=%s", self.parts.task_id)

    def commit_task(self) -> None:
        """Tell the user's task that offsets were stored; its errors are logged."""
        try:
            self.parts.task.commit()
        except Exception:
            log.exception("commit failed task=%s", self.parts.task_id)

    # The remaining steps, which both kinds have

    @abstractmethod
    def pause(self) -> None: ...

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def finish(self, *, failed: bool) -> None: ...

    @abstractmethod
    def cancel(self) -> None: ...


def _listed(task: SourceTask, polled: Sequence[SourceRecord] | None) -> list[SourceRecord]:
    """Return the records of a poll; a single one, which is easily returned by mistake, is an error."""
    if isinstance(polled, SourceRecord):
        raise TypeError(f"{type(task).__qualname__}.poll returned a SourceRecord, expected a list of them")
    return list(polled or ())
