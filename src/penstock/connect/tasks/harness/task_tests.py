"""Runs a connector's task step by step without a broker, for tests of connectors.

    with SourceTaskTest(LinesOfFile(), {"file": "a.txt", "topic": "lines"}) as test:
        assert [record.value for record in test.poll()] == ["first", "second"]
        test.restart(LinesOfFile())
        assert test.poll() == []

    with SinkTaskTest(Upsert(), {"url": "sqlite://"}) as test:
        test.put("orders", {"id": 1}, key="1")
        assert test.committed("orders") == 1

The task's configuration is checked, and the same code runs it as in a worker: transforms, converters,
``errors.*``, transactions, commits. Without converters, keys and values are Python's values with schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self

from penstock.client.connections.metadata import TopicPartition
from penstock.client.consuming.group_consumer import RebalanceListener
from penstock.client.consuming.partition_reader import ConsumedRecord
from penstock.client.settings import from_properties
from penstock.connect.connector.sink import SinkTask
from penstock.connect.connector.source import SourceTask
from penstock.connect.converters import Converter, HeaderConverter
from penstock.connect.data.records import ConnectRecord, Header, Offset, Partition
from penstock.connect.data.schema import Schema
from penstock.connect.errors import ConnectError
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks.harness.memory import (
    CarryingConverter,
    CarryingHeaders,
    MemoryConsumer,
    MemoryOffsets,
    MemorySender,
    MemoryTopics,
    MemoryTransactions,
    carried,
    carry,
)
from penstock.connect.tasks.metrics import TaskMetrics
from penstock.connect.tasks.parts import AnyTask, TaskParts, TransformStage
from penstock.connect.tasks.settings import ErrorSettings, OffsetSettings, TransactionSettings
from penstock.connect.tasks.sinks.sink_work import SinkWork
from penstock.connect.tasks.sources.at_least_once import AtLeastOnceWork
from penstock.connect.tasks.sources.boundaries import TaskDefined, boundary_of
from penstock.connect.tasks.sources.exactly_once import ExactlyOnceWork
from penstock.connect.tasks.sources.source_work import SourceContext, SourceWork
from penstock.connect.tasks.tolerance import Attempt, Original, Tolerance

_OFTEN = OffsetSettings(flush_interval_ms=0)


class FailedRecord(NamedTuple):
    """A record that was skipped or reported because of an error, and the step that failed.

    ``value`` is what the record had before this step: a source's value, or a consumed one.
    """

    value: Any
    stage: str
    error: BaseException


class _Failures(Generic[Original]):
    """Keeps what a worker would log or write as dead letters."""

    def __init__(self, value: Callable[[Original], Any]) -> None:
        self._value = value
        self.found: list[FailedRecord] = []

    def open(self) -> None: ...

    def report(self, attempt: Attempt[Original]) -> Future[None] | None:
        assert attempt.error is not None
        self.found.append(FailedRecord(self._value(attempt.original), attempt.stage.name, attempt.error))
        return None

    def stop(self) -> None: ...

    def close(self) -> None: ...


class _Clock:
    """A clock that only waiting advances, so that retries take no time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        return False


class _Plugins(NamedTuple):
    key_converter: Converter | None
    value_converter: Converter | None
    header_converter: HeaderConverter | None
    transforms: Sequence[TransformStage]

    def parts(self, task: AnyTask, config: Mapping[str, str]) -> TaskParts[AnyTask]:
        return TaskParts(
            task_id=ConnectorTaskId("test", 0),
            task=task,
            properties=config,
            key_converter=self.key_converter or CarryingConverter(),
            value_converter=self.value_converter or CarryingConverter(),
            header_converter=self.header_converter or CarryingHeaders(),
            transforms=self.transforms,
        )


class SourceTaskTest:
    """One source task, its topics and its stored offsets.

    Args:
        task: the task, not started.
        config: its configuration, as text, with keys such as ``errors.tolerance`` if they matter.
        offsets: the offsets that are stored before the first start.
        exactly_once: whether records and offsets share transactions; `poll` returns committed records only.
        key_converter, value_converter, header_converter: configured converters; records then have bytes.
        transforms: configured stages of transforms.
    """

    def __init__(
        self,
        task: SourceTask,
        config: Mapping[str, str],
        *,
        offsets: Iterable[tuple[Partition, Offset]] = (),
        exactly_once: bool = False,
        key_converter: Converter | None = None,
        value_converter: Converter | None = None,
        header_converter: HeaderConverter | None = None,
        transforms: Sequence[TransformStage] = (),
    ) -> None:
        self._config = config
        self._exactly_once = exactly_once
        self._plugins = _Plugins(key_converter, value_converter, header_converter, transforms)
        self._topics = MemoryTopics()
        self._offsets = MemoryOffsets(offsets)
        self._failures = _Failures[Any](lambda record: record.value)
        self._returned = 0
        self._stored_before = self._offsets.stored()
        self._work = self._build(task)

    def __enter__(self) -> Self:
        try:
            self._work.start()
        except BaseException:
            self._work.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._work.finish(failed=error is not None)
        finally:
            self._work.close()

    @property
    def records(self) -> list[ConnectRecord]:
        """All records that are in topics; with transactions, the committed ones."""
        return list(self._topics.records)

    @property
    def failed(self) -> list[FailedRecord]:
        """The records that were skipped or failed the task."""
        return list(self._failures.found)

    def poll(self) -> list[ConnectRecord]:
        """Call the task's `poll` once, and return the records that are in topics since the last call.

        Raises what the task raises, except RetriableError.
        """
        stored = self._offsets.stored()
        _unwrapping(self._work.step)
        if isinstance(self._work, AtLeastOnceWork):
            self._work.commit_offsets()
        if found := self._new_records():
            self._stored_before = stored
        return found

    def take(self, count: int, *, polls: int = 1000) -> list[ConnectRecord]:
        """Poll until there are ``count`` new records, and return all new ones.

        Raises AssertionError after this number of polls, and what the task raises.
        """
        found: list[ConnectRecord] = []
        for _ in range(polls):
            found += self.poll()
            if len(found) >= count:
                return found
        raise AssertionError(f"{polls} polls returned {len(found)} records, expected {count}")

    def offset(self, partition: Partition) -> Offset | None:
        """The offset that is stored for a partition, with which the task continues after a restart."""
        return self._offsets.offset(partition)

    def restart(self, task: SourceTask) -> None:
        """Go on with another task, as after a clean stop: it begins after the last record."""
        self._work.close()
        self._work = self._build(task)
        self.__enter__()

    def crash(self, task: SourceTask) -> None:
        """Go on with another task, as after a crash of the worker before it stored the last offsets.

        The records of the last `poll` that returned some come again, unless the source is exactly once.
        """
        if not self._exactly_once:
            self._offsets.restore(self._stored_before)
        self.restart(task)

    def _new_records(self) -> list[ConnectRecord]:
        first, self._returned = self._returned, len(self._topics.records)
        return self._topics.records[first:]

    def _build(self, task: SourceTask) -> SourceWork:
        parts = self._plugins.parts(task, self._config)
        metrics = TaskMetrics(parts.task_id, is_source=True)
        clock = _Clock()
        errors = from_properties(ErrorSettings, self._config)
        tolerance = Tolerance[Any](errors, metrics.errors, [self._failures], clock=clock, wait=clock.wait)
        if not self._exactly_once:
            context = SourceContext(parts, self._offsets, None)
            sender = MemorySender(self._topics)
            return AtLeastOnceWork(parts, metrics, tolerance, context, sender, self._offsets, _OFTEN)
        boundary = boundary_of(from_properties(TransactionSettings, self._config), _OFTEN)
        context = SourceContext(parts, self._offsets, boundary if isinstance(boundary, TaskDefined) else None)
        sender_in_transactions = MemoryTransactions(self._topics)
        return ExactlyOnceWork(
            parts, metrics, tolerance, context, sender_in_transactions, self._offsets, boundary
        )


class SinkTaskTest:
    """One sink task and the topics that it reads.

    Args:
        task: the task, not started.
        config: its configuration, as text, with keys such as ``errors.tolerance`` if they matter.
        partitions: the partitions that the task opens at its start; others follow with their first record.
        key_converter, value_converter, header_converter: configured converters; `add` takes bytes then.
        transforms: configured stages of transforms.
    """

    def __init__(
        self,
        task: SinkTask,
        config: Mapping[str, str],
        *,
        partitions: Collection[TopicPartition] = (),
        key_converter: Converter | None = None,
        value_converter: Converter | None = None,
        header_converter: HeaderConverter | None = None,
        transforms: Sequence[TransformStage] = (),
    ) -> None:
        self._config = config
        self._plugins = _Plugins(key_converter, value_converter, header_converter, transforms)
        self._partitions = set(partitions)
        self._logs: dict[TopicPartition, list[ConsumedRecord]] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._failures = _Failures[ConsumedRecord](lambda record: carried(record.value).value)
        self._work = self._build(task)

    def __enter__(self) -> Self:
        try:
            self._work.start()
            self._assign(self._partitions)
        except BaseException:
            self._work.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._work.finish(failed=error is not None)
        finally:
            self._work.close()

    @property
    def failed(self) -> list[FailedRecord]:
        """The records that were skipped, that failed the task, or that it has reported."""
        return list(self._failures.found)

    @property
    def must_redeliver(self) -> bool:
        """Whether the task has raised RetriableError, so that the next `step` puts the same records again."""
        return self._work.must_redeliver

    def committed(self, topic: str, partition: int = 0) -> int | None:
        """The offset that is committed for a partition; None if there is none."""
        return self._committed.get(TopicPartition(topic, partition))

    def put(self, topic: str, value: Any, **more: Any) -> int:
        """Add a record and let the task take it; the arguments are those of `add`.

        Returns the record's offset. Raises what the task raises, except RetriableError.
        """
        offset = self.add(topic, value, **more)
        self.step()
        return offset

    def add(
        self,
        topic: str,
        value: Any,
        *,
        partition: int = 0,
        key: Any = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
        headers: Iterable[Header] = (),
        timestamp_ms: int = -1,
    ) -> int:
        """Add a record to a topic, for the next `step`, and return its offset."""
        tp = TopicPartition(topic, partition)
        log = self._logs.setdefault(tp, [])
        plugins = self._plugins
        log.append(
            ConsumedRecord(
                topic,
                partition,
                len(log),
                timestamp_ms,
                0,
                carry(key_schema, key) if plugins.key_converter is None else key,
                carry(schema, value) if plugins.value_converter is None else value,
                tuple(
                    (name, carry(of, each) if plugins.header_converter is None else each)
                    for name, each, of in headers
                ),
            )
        )
        if tp not in self._partitions:
            self.assign(self._partitions | {tp})
        return len(log) - 1

    def step(self) -> None:
        """Let the task take the records that were added. Raises what it raises, except RetriableError."""
        _unwrapping(self._work.step)

    def commit(self) -> None:
        """Let the task flush, and commit its offsets."""
        _unwrapping(self._work.commit)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Rebalance: close all partitions, and open these."""
        _unwrapping(lambda: self._work.revoked(sorted(self._partitions)))
        self._assign(set(partitions))

    def restart(self, task: SinkTask) -> None:
        """Go on with another task, as after a crash: it gets all records behind the committed offsets."""
        self._work.close()
        self._work = self._build(task)
        self.__enter__()

    def _assign(self, partitions: set[TopicPartition]) -> None:
        self._partitions = partitions
        self._consumer.assign(partitions)
        _unwrapping(lambda: self._work.assigned(sorted(partitions)))

    def _build(self, task: SinkTask) -> SinkWork:
        parts = self._plugins.parts(task, self._config)
        metrics = TaskMetrics(parts.task_id, is_source=False)
        clock = _Clock()
        errors = from_properties(ErrorSettings, self._config)
        tolerance = Tolerance(errors, metrics.errors, [self._failures], clock=clock, wait=clock.wait)
        return SinkWork(
            parts, metrics, tolerance, self._consume, OffsetSettings(), reports_errors=True, clock=clock
        )

    def _consume(self, listener: RebalanceListener) -> MemoryConsumer:
        self._consumer = MemoryConsumer(self._logs, self._committed)
        return self._consumer


def _unwrapping(run: Callable[[], None]) -> None:
    """Raise a task's own error, and not the one in which a worker wraps it."""
    try:
        run()
    except ConnectError as error:
        if isinstance(error.__cause__, Exception):
            raise error.__cause__ from None
        raise
