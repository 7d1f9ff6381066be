"""The connector of the source: finds tables and divides them between tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connect.connector.source import SourceConnector, SourceTask
from penstock.connect.connectors.sql.source.definition import (
    INCREMENTING,
    TABLES,
    TIMESTAMP_INCREMENTING,
    SourceSettings,
    contradiction,
)
from penstock.connect.connectors.sql.source.offsets import QUERY_PARTITION, Position
from penstock.connect.connectors.sql.source.task import SqlSourceTask
from penstock.connect.data.records import Offset, Partition
from penstock.connect.definitions.config_def import ConfigValue
from penstock.connect.errors import ConnectError

if TYPE_CHECKING:
    from penstock.connect.connectors.sql.source.tables import TableWatch


class SqlSourceConnector(SourceConnector):
    """Reads rows of SQL databases.

    In configurations it has the name ``io.confluent.connect.jdbc.JdbcSourceConnector``.
    """

    task_class: ClassVar[type[SourceTask]] = SqlSourceTask

    _watch: TableWatch | None = None

    def start(self, config: Mapping[str, Any]) -> None:
        """Find the tables, and watch for others."""
        from penstock.connect.connectors.sql.source.tables import TableWatch

        settings = SourceSettings.of(config)
        if not settings.query:
            self._watch = TableWatch(
                settings, self.context.request_task_reconfiguration, self.context.raise_error
            )
            self._watch.start()

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return one configuration for each share of the tables, or one for the query."""
        from penstock.connect.connectors.sql.source.tables import shared_out, tables_text

        properties = self.context.configs()
        if self._watch is None:
            return [dict(properties)]
        return [
            {**properties, TABLES: tables_text(tables)}
            for tables in shared_out(self._watch.tables, max_tasks)
        ]

    def validate(self, properties: Mapping[str, str]) -> list[ConfigValue]:
        """Check each value, and that they go together."""
        found = super().validate(properties)
        if (problem := contradiction(properties)) is not None:
            name, text = problem
            next(each for each in found if each.name == name).errors.append(text)
        return found

    def exactly_once_support(self, properties: Mapping[str, str]) -> bool | None:
        """Say yes for the modes with a number for each row: only there a restart repeats none."""
        return properties.get("mode") in (INCREMENTING, TIMESTAMP_INCREMENTING)

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        """Accept offsets of tables, or of the query.

        Raises:
            ConnectError: another partition, or an offset that cannot be read.
        """
        for partition, offset in offsets:
            if "table" not in partition and dict(partition) != QUERY_PARTITION:
                raise ConnectError(
                    f"the partition is {dict(partition)}; expected protocol and table, or {QUERY_PARTITION}"
                )
            Position.of_offset(offset)
        return True

    def stop(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.stop()
