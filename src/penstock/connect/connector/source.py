"""The classes that a source extends: tasks that read an outside system, and the connector around them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from penstock.connect.connector.connector import Connector, ConnectorContext
from penstock.connect.data.records import Offset, Partition, SourceRecord
from penstock.connect.definitions.config_def import ConfigDef


class RecordMetadata(NamedTuple):
    """The place that a record got in its topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetReader(Protocol):
    """Reads the offsets that the worker stored for a source."""

    def offset(self, partition: Partition) -> Offset | None:
        """Return the offset stored for a partition of the outside system; None if there is none yet."""
        ...

    def offsets(self, partitions: Sequence[Partition]) -> list[Offset | None]:
        """Return the offset of each partition, in the same order; one call may cost less than several."""
        ...


class TransactionContext(Protocol):
    """Lets a task end its own transactions (`transaction.boundary=connector`, KIP-618).

    A request for a record that is the last of its batch takes precedence over one for the whole batch.
    """

    def commit(self, after: SourceRecord | None = None) -> None:
        """Commit the transaction after a record, or after the batch that `poll` returns next."""
        ...

    def abort(self, after: SourceRecord | None = None) -> None:
        """Abort the transaction after a record, or after the batch that `poll` returns next.

        Consumers never see its records. Their offsets are stored all the same, so that they are not read
        again; a task that wants to read them again raises an exception.
        """
        ...


class SourceTaskContext(OffsetReader, Protocol):
    """The worker, as a source task sees it."""

    def configs(self) -> Mapping[str, str]:
        """Return the configuration as it is now: secrets from config providers may have changed."""
        ...

    @property
    def transaction(self) -> TransactionContext | None:
        """How the task ends its transactions; None unless the configuration says that it does."""
        ...


class SourceTask(ABC):
    """Reads records from an outside system. Only `poll` must be written.

    The worker calls `start`, then `poll` again and again, then `stop`, all on one thread of the task. Between
    polls and before `stop` it calls `commit_record` and `commit` there, so none of them needs a lock.
    """

    definition: ClassVar[ConfigDef] = ConfigDef()
    """The configuration that the task needs, besides the keys of every source."""
    version: ClassVar[str | None] = None
    """The version shown to users; None shows that of the package that has the entry point."""
    exactly_once: ClassVar[bool | None] = None
    """Whether a restart from stored offsets repeats no record and loses none; None if that is not known."""
    defines_transactions: ClassVar[bool] = False
    """Whether the task can decide where its transactions end, by `context.transaction`."""

    context: SourceTaskContext
    """Set before `start` is called."""

    def start(self, config: Mapping[str, Any]) -> None:
        """Prepare to read. `config` has parsed values of `definition`, and all other keys as text."""

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next records, or none if there are none after at most a second or so.

        The worker waits a moment after an empty result. It can pause or stop the task only between calls.

        Raises:
            RetriableError: the worker calls again later.
            Exception: any other fails the task.
        """

    def commit(self) -> None:
        """Note that offsets were stored; only for systems that keep offsets of their own."""

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Note that a record is in its topic. Without `metadata` it was filtered out or discarded."""

    def gauges(self) -> Mapping[str, float]:
        """Return numbers that the worker's metrics show, by names; this is called by any thread."""
        return {}

    def stop(self) -> None:
        """Release what `start` acquired. This is called once, also when another method has failed."""


class SourceConnectorContext(ConnectorContext, OffsetReader, Protocol):
    """The worker, as a source connector sees it."""


class SourceConnector(Connector):
    """Splits a source between tasks. Unless overridden, one task gets the whole configuration."""

    task_class: ClassVar[type[SourceTask]]
    context: SourceConnectorContext

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return the configuration of each task, at most `max_tasks`."""
        return [dict(self.context.configs())]

    def exactly_once_support(self, properties: Mapping[str, str]) -> bool | None:
        """Whether this configuration allows the source to be exactly once; None if that is not known."""
        return self.task_class.exactly_once

    def can_define_transaction_boundaries(self, properties: Mapping[str, str]) -> bool:
        """Whether tasks with this configuration decide where their transactions end."""
        return self.task_class.defines_transactions

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        """Check offsets that a user wants to store, where None removes one; return whether this was checked.

        This can be called repeatedly with the same offsets, and before `start`.

        Raises:
            ConnectError: the offsets cannot be used.
        """
        return False
