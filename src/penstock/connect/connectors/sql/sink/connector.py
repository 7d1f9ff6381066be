"""The connector of the sink: its tasks share the partitions of the topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.connector import parsed
from penstock.connect.connector.sink import SinkConnector, SinkTask
from penstock.connect.connectors.sql.sink.definition import SinkSettings, contradiction
from penstock.connect.connectors.sql.sink.task import SqlSinkTask
from penstock.connect.definitions.config_def import ConfigValue


class SqlSinkConnector(SinkConnector):
    """Writes records to tables of SQL databases.

    In configurations it has the name ``io.confluent.connect.jdbc.JdbcSinkConnector``.
    """

    task_class: ClassVar[type[SinkTask]] = SqlSinkTask

    def validate(self, properties: Mapping[str, str]) -> list[ConfigValue]:
        """Check each value, and that they go together."""
        found = super().validate(properties)
        if (problem := contradiction(properties)) is not None:
            name, text = problem
            next(each for each in found if each.name == name).errors.append(text)
        return found

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Change the offsets in the database too, if they are there."""
        settings = SinkSettings.of(parsed(self.definition, properties))
        if settings.offsets_table is not None:
            from penstock.connect.connectors.sql.connecting import Database
            from penstock.connect.connectors.sql.sink.offsets import OffsetsTable

            database = Database(settings.database)
            try:
                OffsetsTable(database, settings.offsets_table, settings.connector).alter(offsets)
            finally:
                database.close()
        return True
