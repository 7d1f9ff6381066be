"""The parts that a herder gives to a task: plugins, properties of clients, settings of the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from penstock.connect.connector.sink import SinkTask
from penstock.connect.connector.source import SourceTask
from penstock.connect.converters import Converter, HeaderConverter
from penstock.connect.data.records import ConnectRecord
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks.closing import close_quietly
from penstock.connect.tasks.settings import OffsetSettings

Record = TypeVar("Record", bound=ConnectRecord)
AnyTask = TypeVar("AnyTask", SourceTask, SinkTask)


def python_name(plugin: type) -> str:
    """The full name of a class."""
    return f"{plugin.__module__}.{plugin.__qualname__}"


class TransformStage(Protocol):
    """A transform of the connector's chain, with its predicate if it has one."""

    @property
    def transform_class(self) -> type:
        """The class of the transform, for reports of errors."""
        ...

    def apply(self, record: Record) -> Record | None:
        """Return the record as it goes on; None drops it."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskParts(Generic[AnyTask]):
    """The parts of one task. Its runner closes converters and transforms at the end.

    Args:
        task_id: the connector and the number of the task.
        task: the user's task, not started.
        properties: the task's configuration, with the connector's own keys.
        current_properties: the same as it is now, for `context.configs`; by default ``properties``.
        topic_used: called once for each topic that the task reads or writes (KIP-558).
        class_name: returns the name of a plugin's class in reports of errors.
    """

    task_id: ConnectorTaskId
    task: AnyTask
    properties: Mapping[str, str]
    key_converter: Converter
    value_converter: Converter
    header_converter: HeaderConverter
    transforms: Sequence[TransformStage] = ()
    current_properties: Callable[[], Mapping[str, str]] | None = None
    topic_used: Callable[[str], None] | None = None
    class_name: Callable[[type], str] = python_name

    def configs(self) -> Mapping[str, str]:
        """The configuration as it is now."""
        return self.properties if self.current_properties is None else self.current_properties()

    def close(self) -> None:
        """Close transforms and converters; errors are logged."""
        for stage in self.transforms:
            close_quietly("a transform", stage.close)
        for converter in (self.key_converter, self.value_converter, self.header_converter):
            close_quietly("a converter", converter.close)


class UsedTopics:
    """The topics that a task has used; each is reported once."""

    def __init__(self, report: Callable[[str], None] | None) -> None:
        self._report = report
        self._topics: set[str] = set()

    def add(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            if self._report is not None:
                self._report(topic)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientProperties:
    """The properties of a task's Kafka clients, by Kafka's names, with the connector's overrides.

    Each has at least ``bootstrap.servers``. Tasks add Connect's defaults for what is missing: ``client.id``,
    ``group.id`` and the like.
    """

    producer: Mapping[str, str]
    consumer: Mapping[str, str] = field(default_factory=dict)
    admin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings:
    """The worker's settings that concern its tasks."""

    offsets: OffsetSettings = field(default_factory=OffsetSettings)
    topic_creation: bool = True
    """The worker's ``topic.creation.enable``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactlyOnce:
    """The settings of a source task that is exactly once (KIP-618).

    Args:
        transactional_id: the id of the task's producer, see `task_transactional_id`.
        check: called before and after the producer has fenced its predecessors; it raises if this worker is
            no longer the owner of the task in its current generation.
    """

    transactional_id: str
    check: Callable[[], None]


def task_transactional_id(group_id: str, task_id: ConnectorTaskId) -> str:
    """The transactional id of a source task's producer in the Connect cluster of this group."""
    return f"{group_id}-{task_id}"


def consumer_group_id(connector: str) -> str:
    """The consumer group of a sink connector, unless its consumer has another ``group.id``."""
    return f"connect-{connector}"
