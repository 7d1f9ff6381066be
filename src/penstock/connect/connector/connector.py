"""The common parts of connectors, which start no work themselves but configure the tasks that do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from penstock.connect.definitions.config_def import ConfigDef, ConfigValue


class ConnectorContext(Protocol):
    """The worker, as a connector sees it."""

    def configs(self) -> Mapping[str, str]:
        """Return the connector's configuration as text."""
        ...

    def request_task_reconfiguration(self) -> None:
        """Ask for `task_configs` to be called again, for instance because a table was created."""
        ...

    def raise_error(self, error: Exception) -> None:
        """Fail the connector, from any thread."""
        ...


class Task(Protocol):
    """The common parts of source and sink tasks."""

    definition: ClassVar[ConfigDef]
    version: ClassVar[str | None]

    def start(self, config: Mapping[str, Any]) -> None: ...

    def stop(self) -> None: ...


class Connector(ABC):
    """Configures tasks; extend SourceConnector or SinkConnector."""

    task_class: ClassVar[type[Task]]
    """The class of the tasks."""

    context: ConnectorContext
    """Set before `start` is called."""

    @property
    def definition(self) -> ConfigDef:
        """The configuration that the connector and its tasks need; unless overridden, that of the tasks."""
        return self.task_class.definition

    @property
    def version(self) -> str | None:
        """The version shown to users; None shows that of the package that has the entry point."""
        return self.task_class.version

    def start(self, config: Mapping[str, Any]) -> None:
        """Prepare to configure tasks, for instance watch the outside system for new tables.

        `config` has parsed values of `definition`, and all other keys as text.
        """

    @abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return the configuration of each task, at most `max_tasks`."""

    def validate(self, properties: Mapping[str, str]) -> list[ConfigValue]:
        """Check a configuration; override this to check more than each value alone.

        This is called before `start`, on an object that is never started.
        """
        return self.definition.validate(properties)

    def stop(self) -> None:
        """Release what `start` acquired."""


def parsed(definition: ConfigDef, properties: Mapping[str, str]) -> dict[str, Any]:
    """Parse a configuration for `start`: what `definition` lacks stays text.

    Raises:
        ConfigInvalid: a value is missing or not valid.
    """
    return {**properties, **definition.parse(properties)}
