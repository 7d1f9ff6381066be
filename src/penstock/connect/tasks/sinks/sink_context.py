"""The worker, as a sink task sees it, and what the task has asked it for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.client.connections.metadata import TopicPartition
from penstock.client.consuming.partition_reader import ConsumedRecord
from penstock.connect.connector.sink import ErrantRecordReporter, Offsets, SinkTask
from penstock.connect.errors import ConnectError
from penstock.connect.tasks.parts import TaskParts


class Consumer(Protocol):
    """Reads the task's partitions, such as `client.consuming.GroupConsumer`, whose methods these are."""

    def wake(self) -> None: ...

    def stop(self) -> None: ...

    def poll(self, timeout_s: float) -> list[ConsumedRecord]: ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    @property
    def assignment(self) -> set[TopicPartition]: ...

    def position(self, tp: TopicPartition) -> int: ...

    def seek(self, tp: TopicPartition, offset: int) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None: ...

    def resume(self, partitions: Collection[TopicPartition]) -> None: ...

    def close(self) -> None: ...


class SinkContext:
    """The context of one sink task. ``is_paused`` is set while the whole task is paused."""

    def __init__(
        self, parts: TaskParts[SinkTask], consumer: Consumer, reporter: ErrantRecordReporter | None
    ) -> None:
        self._parts = parts
        self._consumer = consumer
        self._reporter = reporter
        self.is_paused = False
        self.paused: set[TopicPartition] = set()
        """The partitions that the task has paused by itself."""
        self.seeks: dict[TopicPartition, int] = {}
        """Where the task wants to continue."""
        self.timeout_ms = 0
        """How long the task wants to wait before its next `put`, if it has said so."""
        self.must_commit = False

    @property
    def reporter(self) -> ErrantRecordReporter | None:
        return self._reporter

    def configs(self) -> Mapping[str, str]:
        return self._parts.configs()

    def assignment(self) -> set[TopicPartition]:
        return self._consumer.assignment

    def pause(self, *partitions: TopicPartition) -> None:
        self._require(partitions, "pause")
        self.paused.update(partitions)
        if not self.is_paused:
            self._consumer.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._require(partitions, "resume")
        self.paused.difference_update(partitions)
        if not self.is_paused:
            self._consumer.resume(partitions)

    def seek(self, offsets: Offsets) -> None:
        self.seeks.update(offsets)

    def timeout(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms

    def request_commit(self) -> None:
        self.must_commit = True
        self._consumer.wake()

    def _require(self, partitions: Collection[TopicPartition], verb: str) -> None:
        if not self._consumer.assignment.issuperset(partitions):
            raise ConnectError(
                f"SinkTasks may not {verb} partitions that are not currently assigned to them: got"
                f" {', '.join(map(str, partitions))}"
            )
