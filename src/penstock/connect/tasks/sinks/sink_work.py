"""The loop of a sink task: consume, convert, transform, put, commit (Connect's WorkerSinkTask).

Everything runs on the task's thread, the methods of the user's task included. Offsets are committed in the
consumer's group, after the task has flushed what it got before them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from penstock.client.connections.metadata import TopicPartition
from penstock.client.consuming.group_consumer import RebalanceListener
from penstock.client.consuming.partition_reader import ConsumedRecord
from penstock.client.errors import ClientError
from penstock.connect.connector.connector import parsed
from penstock.connect.connector.sink import SinkTask
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError, RetriableError
from penstock.connect.tasks.closing import close_quietly
from penstock.connect.tasks.conversion import SinkConversion
from penstock.connect.tasks.metrics import TaskMetrics
from penstock.connect.tasks.parts import TaskParts, UsedTopics
from penstock.connect.tasks.settings import OffsetSettings
from penstock.connect.tasks.sinks.errant_records import ErrantRecords
from penstock.connect.tasks.sinks.sink_context import Consumer, SinkContext
from penstock.connect.tasks.tolerance import Attempt, Tolerance

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
"""The wait before the next `put` after a RetriableError, unless the task has set a timeout."""


class SinkWork:
    """A sink task and its consumer, which ``consume`` returns. It is also the consumer's listener.

    ``reports_errors`` gives the task a reporter for records that it cannot write.
    """

    steps_while_paused = True

    def __init__(
        self,
        parts: TaskParts[SinkTask],
        metrics: TaskMetrics,
        tolerance: Tolerance[ConsumedRecord],
        consume: Callable[[RebalanceListener], Consumer],
        settings: OffsetSettings,
        *,
        reports_errors: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.parts = parts
        self.metrics = metrics
        self.tolerance = tolerance
        self._conversion = SinkConversion(parts, tolerance)
        self._errant = ErrantRecords(tolerance, self._conversion.consumed) if reports_errors else None
        self._settings = settings
        self._clock = clock
        self._consumer = consume(self)
        self._context = SinkContext(parts, self._consumer, self._errant)
        self._is_initialized = False
        self._is_cancelled = False
        self._next_commit_s = 0.0
        self._batch: list[SinkRecord] = []
        self._batch_ends: dict[TopicPartition, int] = {}
        """The offsets behind the records of the batch, those included that were dropped."""
        self._put: dict[TopicPartition, int] = {}
        """The offsets behind the records that `put` has taken."""
        self._committed: dict[TopicPartition, int] = {}
        self._must_redeliver = False
        """Whether `put` has to take the batch again; all partitions are paused until then."""
        self._used_topics = UsedTopics(parts.topic_used)

    # The steps

    def start(self) -> None:
        self.tolerance.open()
        task = self.parts.task
        task.context = self._context
        self._is_initialized = True
        task.start(parsed(task.definition, self.parts.properties))
        self._next_commit_s = self._clock() + self._settings.flush_interval_ms / 1000

    def step(self) -> None:
        now_s = self._clock()
        if self._context.must_commit or now_s >= self._next_commit_s:
            self._context.must_commit = False
            self.commit()
            self._next_commit_s = now_s + self._settings.flush_interval_ms / 1000
        self._seek()
        records = self._consumer.poll(self._patience_s(now_s))
        self.metrics.received += len(records)
        for record in records:
            self._convert(record)
        self._deliver()

    def pause(self) -> None:
        self._context.is_paused = True
        self._consumer.pause(self._consumer.assignment)
        self._context.must_commit = True

    def resume(self) -> None:
        self._context.is_paused = False
        if not self._must_redeliver:
            self._resume_all()

    def finish(self, *, failed: bool) -> None:
        """Commit what the task has written, also if it has failed."""
        self._commit(set(self._put), closing=True)

    def close(self) -> None:
        if self._is_initialized:
            close_quietly("the task", self.parts.task.stop)
        close_quietly("the consumer", self._consumer.close)
        self.parts.close()
        close_quietly("the reports of errors", self.tolerance.close)
        self.metrics.partitions = 0

    def wake(self) -> None:
        self._consumer.wake()

    def request_stop(self) -> None:
        self._consumer.stop()

    def cancel(self) -> None:
        self._is_cancelled = True
        self.tolerance.stop()

    # Records

    def _patience_s(self, now_s: float) -> float:
        patience_s = max(0.0, self._next_commit_s - now_s)
        timeout_ms, self._context.timeout_ms = self._context.timeout_ms, 0
        if timeout_ms > 0:
            return min(patience_s, timeout_ms / 1000)
        return min(patience_s, _RETRY_S) if self._must_redeliver else patience_s

    def _convert(self, consumed: ConsumedRecord) -> None:
        self._used_topics.add(consumed.topic)
        record = self._conversion.convert(Attempt(consumed))
        self._batch_ends[TopicPartition(consumed.topic, consumed.partition)] = consumed.offset + 1
        if record is not None:
            self._batch.append(record)

    def _deliver(self) -> None:
        began_s = time.monotonic()
        try:
            self.parts.task.put(list(self._batch))
            if self._errant is not None:
                self._errant.check()
        except RetriableError as error:
            log.warning("the task cannot take records, retrying task=%s error=%s", self.parts.task_id, error)
            if not self._must_redeliver:
                self._must_redeliver = True
                self._consumer.pause(self._consumer.assignment)
            return
        except Exception as error:
            raise ConnectError("Exiting WorkerSinkTask due to unrecoverable exception.") from error
        if self._batch:
            self.metrics.batches += 1
            self.metrics.batch_seconds += time.monotonic() - began_s
            self.metrics.sent += len(self._batch)
        self._put |= self._batch_ends
        self._batch_ends.clear()
        self._batch.clear()
        if self._must_redeliver:
            self._must_redeliver = False
            if not self._context.is_paused:
                self._resume_all()

    def _resume_all(self) -> None:
        self._consumer.resume(self._consumer.assignment - self._context.paused)

    def _seek(self) -> None:
        """Continue where the task wants to."""
        seeks, self._context.seeks = self._context.seeks, {}
        for tp, offset in seeks.items():
            if tp not in self._consumer.assignment:
                raise ConnectError(f"the task seeks to offset {offset} of {tp}, which is not assigned to it")
            self._consumer.seek(tp, offset)
            self._committed[tp] = self._put[tp] = offset

    # Offsets

    @property
    def must_redeliver(self) -> bool:
        """Whether `put` has to take the last records again."""
        return self._must_redeliver

    def commit(self) -> None:
        """Let the task flush, and commit the offsets of all its partitions."""
        self._commit(self._consumer.assignment)

    def _commit(self, partitions: Collection[TopicPartition], *, closing: bool = False) -> None:
        """Commit the offsets of partitions; with ``closing`` the task finishes with them."""
        if self._errant is not None:
            self._errant.wait(partitions)
        offsets = {tp: offset for tp, offset in self._put.items() if tp in partitions}
        if not offsets:
            return
        began_s = time.monotonic()
        committed = {tp: self._committed[tp] for tp in offsets if tp in self._committed}
        try:
            provided = self.parts.task.pre_commit(dict(offsets))
        except Exception:
            self.metrics.count_commit(began_s, succeeded=False)
            log.exception("offsets are not committed task=%s", self.parts.task_id)
            if not closing:
                self._rewind(committed)
            return
        finally:
            if closing:
                self.parts.task.close(partitions)
        wanted = committed | self._valid(provided, offsets, committed)
        succeeded = not provided or wanted == committed or self._commit_in_group(wanted)
        self.metrics.count_commit(began_s, succeeded=succeeded)

    def _valid(
        self,
        provided: Mapping[TopicPartition, int],
        offsets: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Leave out offsets that the task may not commit."""
        valid = {}
        for tp, offset in provided.items():
            if tp not in committed:
                log.warning("an offset is ignored, its partition is not assigned partition=%s", tp)
            elif offset > offsets[tp]:
                log.warning(
                    "an offset is ignored, it is not consumed yet partition=%s offset=%d consumed=%d",
                    *(tp, offset, offsets[tp]),
                )
            else:
                valid[tp] = offset
        return valid

    def _rewind(self, committed: Mapping[TopicPartition, int]) -> None:
        """Read again what the task could not flush."""
        for tp, offset in committed.items():
            self._consumer.seek(tp, offset)
        self._put |= committed
        self._drop_batch(committed.keys())
        if self._must_redeliver and not self._batch:
            self._must_redeliver = False
            if not self._context.is_paused:
                self._resume_all()

    def _commit_in_group(self, offsets: Mapping[TopicPartition, int]) -> bool:
        if self._is_cancelled:
            return False
        try:
            self._consumer.commit(offsets)
        except ClientError as error:
            log.error("offsets were not committed task=%s error=%s", self.parts.task_id, error)
            return False
        self._committed |= offsets
        return True

    # Partitions: the consumer calls the public methods

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        for tp in partitions:
            self._committed[tp] = self._put[tp] = self._consumer.position(tp)
        self._pause_again()
        self.metrics.partitions = len(self._consumer.assignment)
        if partitions:
            self.parts.task.open(partitions)
            self._seek()

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        try:
            self._commit(partitions, closing=True)
        finally:
            self._forget(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        try:
            self.parts.task.close(partitions)
        finally:
            if self._errant is not None:
                self._errant.forget(partitions)
            self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop what is left of partitions that go to other members."""
        for tp in partitions:
            for offsets in (self._put, self._committed):
                offsets.pop(tp, None)
        self._drop_batch(partitions)

    def _drop_batch(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of partitions that `put` has not taken."""
        for tp in partitions:
            self._batch_ends.pop(tp, None)
        self._batch = [
            record
            for record in self._batch
            if TopicPartition(record.original_topic, record.original_partition) not in partitions
        ]

    def _pause_again(self) -> None:
        """Apply pauses to the partitions of a new assignment."""
        assignment = self._consumer.assignment
        self._must_redeliver = self._must_redeliver and bool(self._batch)
        self._context.paused &= assignment
        if self._must_redeliver or self._context.is_paused:
            self._consumer.pause(assignment)
        else:
            self._resume_all()
            self._consumer.pause(self._context.paused)
