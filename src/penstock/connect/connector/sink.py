"""The classes that a sink extends: tasks that write to an outside system, and the connector around them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence, Set
from concurrent.futures import Future
from typing import Any, ClassVar, Protocol

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.connector import Connector
from penstock.connect.data.records import SinkRecord
from penstock.connect.definitions.config_def import ConfigDef

Offsets = Mapping[TopicPartition, int]
"""The offset after the last record, for each partition of a topic, before transforms renamed any topic."""


class ErrantRecordReporter(Protocol):
    """Sends records that a sink cannot write to the topic of dead letters (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Send a record and the reason why it failed; the future is done once the topic has it.

        The worker waits for all reported records before it commits offsets.

        Raises:
            ConnectError: the errors are more than `errors.tolerance` allows.
        """
        ...


class SinkTaskContext(Protocol):
    """The worker, as a sink task sees it."""

    def configs(self) -> Mapping[str, str]:
        """Return the configuration as it is now: secrets from config providers may have changed."""
        ...

    def assignment(self) -> Set[TopicPartition]:
        """Return the partitions that the task reads now."""
        ...

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop reading partitions until `resume`, for instance while the outside system is busy."""
        ...

    def resume(self, *partitions: TopicPartition) -> None:
        """Read paused partitions again."""
        ...

    def seek(self, offsets: Offsets) -> None:
        """Read partitions from other offsets, before the next `put`.

        A sink that stores offsets in the outside system uses this in `open`.
        """
        ...

    def timeout(self, timeout_ms: int) -> None:
        """Wait this long before `put` is called again after a RetriableError."""
        ...

    def request_commit(self) -> None:
        """Commit offsets soon, for instance because everything was just written."""
        ...

    @property
    def reporter(self) -> ErrantRecordReporter | None:
        """Where to report records that cannot be written; None unless the configuration has a topic of dead
        letters, or logs errors."""
        ...


class SinkTask(ABC):
    """Writes records to an outside system. Only `put` must be written.

    The worker calls `start`; `open` with the assigned partitions; `put` again and again, with `pre_commit`
    at intervals; `close` before partitions are taken away; and `stop`, all on one thread of the task.
    """

    definition: ClassVar[ConfigDef] = ConfigDef()
    """The configuration that the task needs, besides the keys of every sink."""
    version: ClassVar[str | None] = None
    """The version shown to users; None shows that of the package that has the entry point."""

    context: SinkTaskContext
    """Set before `start` is called."""

    def start(self, config: Mapping[str, Any]) -> None:
        """Prepare to write. `config` has parsed values of `definition`, and all other keys as text."""

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Prepare to write records of partitions that were assigned to this task."""

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records, or keep them until `flush`. The sequence may be empty.

        Raises:
            RetriableError: the worker calls again later with the same records.
            Exception: any other fails the task.
        """

    def flush(self, offsets: Offsets) -> None:
        """Write all records that `put` kept, so that `offsets` can be committed."""

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Return the offsets that may be committed; by default all of them, after `flush`.

        An empty mapping commits none: the records will be read again after a restart.
        """
        self.flush(offsets)
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Finish with partitions that this task will not read any longer."""

    def stop(self) -> None:
        """Release what `start` acquired. This is called once, also when another method has failed."""


class SinkConnector(Connector):
    """Configures the tasks of a sink. Unless overridden, `tasks.max` tasks share the topics' partitions."""

    task_class: ClassVar[type[SinkTask]]

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return the configuration of each task, at most `max_tasks`."""
        return [dict(self.context.configs()) for _ in range(max_tasks)]

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Check offsets that a user wants to commit, where None removes one; return whether this was checked.

        This can be called repeatedly with the same offsets, and before `start`.

        Raises:
            ConnectError: the offsets cannot be used.
        """
        return False
