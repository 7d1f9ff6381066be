"""The connectors for MySQL and MariaDB, which have one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from penstock.connect.cdc.mysql.filters import Filters
from penstock.connect.cdc.mysql.source.task import MariaDbTask, MySqlTask
from penstock.connect.cdc.selection.masks import Masks
from penstock.connect.connector.source import SourceConnector, SourceTask
from penstock.connect.data.records import Offset, Partition
from penstock.connect.definitions.config_def import ConfigValue
from penstock.connect.errors import ConfigInvalid, ConnectError


class MySqlConnector(SourceConnector):
    """Captures the changes of a MySQL server, as Debezium's connector does.

    In configurations it has the name ``io.debezium.connector.mysql.MySqlConnector``.
    """

    task_class: ClassVar[type[SourceTask]] = MySqlTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return one task: the binary log is one stream."""
        return [{**self.context.configs(), "task.id": "0"}]

    def validate(self, properties: Mapping[str, str]) -> list[ConfigValue]:
        """Check each value, and that lists of filters and masks go together."""
        found = super().validate(properties)
        for read in (Filters.of, Masks):
            try:
                read(properties)
            except ConfigInvalid as error:
                named = next((each for each in found if each.name in str(error)), found[0])
                named.errors.append(str(error))
        return found

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        """Accept offsets of this server with a file and position, or none.

        Raises:
            ConnectError: another partition, or an offset without a position.
        """
        expected = {"server": properties["topic.prefix"]}
        for partition, offset in offsets:
            if dict(partition) != expected:
                raise ConnectError(f"the partition is {dict(partition)}; expected {expected}")
            if offset is not None and not (offset.get("file") and isinstance(offset.get("pos"), int)):
                raise ConnectError(f"the offset {dict(offset)} has no file and pos; expected a position")
        return True


class MariaDbConnector(MySqlConnector):
    """Captures the changes of a MariaDB server, as Debezium's connector does.

    In configurations it has the name ``io.debezium.connector.mariadb.MariaDbConnector``.
    """

    task_class: ClassVar[type[SourceTask]] = MariaDbTask
