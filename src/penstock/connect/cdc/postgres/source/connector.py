"""The connector for PostgreSQL, which has one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from penstock.connect.cdc.postgres.selection.filters import Filters
from penstock.connect.cdc.postgres.source.task import PostgresTask
from penstock.connect.cdc.selection.masks import Masks
from penstock.connect.connector.source import SourceConnector, SourceTask
from penstock.connect.data.records import Offset, Partition
from penstock.connect.definitions.config_def import ConfigValue
from penstock.connect.errors import ConfigInvalid, ConnectError


class PostgresConnector(SourceConnector):
    """Captures the changes of a PostgreSQL database, as Debezium's connector does.

    In configurations it has the name ``io.debezium.connector.postgresql.PostgresConnector``.
    """

    task_class: ClassVar[type[SourceTask]] = PostgresTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return one task: a slot has one reader."""
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
        """Accept offsets of this server with a position, or none.

        Raises:
            ConnectError: another partition, or an offset without a position.
        """
        expected = {"server": properties["topic.prefix"]}
        for partition, offset in offsets:
            if dict(partition) != expected:
                raise ConnectError(f"the partition is {dict(partition)}; expected {expected}")
            if offset is not None and not isinstance(offset.get("lsn"), int):
                raise ConnectError(f"the offset {dict(offset)} has no number as lsn; expected a position")
        return True
