"""The generator: each task has records of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.connect.connector.source import SourceConnector
from penstock.connect.connectors.generator import definition as keys
from penstock.connect.connectors.generator.task import ITERATION, DatagenTask, GeneratedRecords
from penstock.connect.data.records import Offset, Partition
from penstock.connect.definitions.config_def import ConfigValue
from penstock.connect.errors import ConfigInvalid, ConnectError


class DatagenConnector(SourceConnector):
    """Tasks that generate records."""

    task_class = DatagenTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return a configuration for each task, with its number."""
        configs = dict(self.context.configs())
        return [{**configs, keys.TASK: str(task)} for task in range(max_tasks)]

    def validate(self, properties: Mapping[str, str]) -> list[ConfigValue]:
        """Check each value, and the schema."""
        found = super().validate(properties)
        if not any(each.errors for each in found):
            values = {each.name: each for each in found}
            given = next(
                (name for name in (keys.SCHEMA, keys.SCHEMA_FILE) if values[name].value), keys.QUICKSTART
            )
            try:
                GeneratedRecords({name: each.value for name, each in values.items()})
            except ConfigInvalid as error:
                values[given].errors.append(str(error))
        return found

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        for partition, offset in offsets:
            if set(partition) != {keys.TASK}:
                raise ConnectError(f"a partition is {dict(partition)}, expected the key {keys.TASK}")
            number = 0 if offset is None else offset.get(ITERATION)
            if type(number) is not int or number < 0:
                raise ConnectError(f"the {ITERATION} of a task is {number!r}, expected 0 or more")
        return True
