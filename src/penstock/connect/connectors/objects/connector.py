"""The objects source: each task gets the objects whose names hash to its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.connect.connector.source import SourceConnector
from penstock.connect.connectors.objects import definition as keys
from penstock.connect.connectors.objects.task import OBJECT, POSITION, STORE, ObjectsSourceTask
from penstock.connect.connectors.objects.urls import store_url
from penstock.connect.data.records import Offset, Partition
from penstock.connect.definitions.config_def import ConfigValue
from penstock.connect.errors import ConfigInvalid, ConnectError


class ObjectsSourceConnector(SourceConnector):
    """Tasks that share the objects of a store."""

    task_class = ObjectsSourceTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return a configuration for each task, with its number."""
        configs = dict(self.context.configs())
        return [
            {**configs, keys.TASK_INDEX: str(index), keys.TASK_COUNT: str(max_tasks)}
            for index in range(max_tasks)
        ]

    def validate(self, properties: Mapping[str, str]) -> list[ConfigValue]:
        """Check each value, and that they name one store."""
        found = super().validate(properties)
        values = {each.name: each.value or "" for each in found}
        try:
            store_url(values)
        except ConfigInvalid as error:
            next(each for each in found if each.name == keys.URL).errors.append(str(error))
        return found

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        for partition, offset in offsets:
            if set(partition) != {STORE, OBJECT}:
                raise ConnectError(
                    f"a partition is {dict(partition)}, expected the keys {STORE} and {OBJECT}"
                )
            position = 0 if offset is None else offset.get(POSITION)
            if type(position) is not int or position < 0:
                raise ConnectError(
                    f"the {POSITION} of {partition[OBJECT]} is {position!r}, expected 0 or more"
                )
        return True
