"""The files source: each task gets the files whose paths hash to its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.connect.connector.source import SourceConnector
from penstock.connect.connectors.files.source import definition as keys
from penstock.connect.connectors.files.source.complete_files import FILE
from penstock.connect.connectors.files.source.identity import FINGERPRINT, POSITION
from penstock.connect.connectors.files.source.task import FilesSourceTask
from penstock.connect.connectors.formats.settings import AUTO, GROWING, INPUT_FORMAT
from penstock.connect.data.records import Offset, Partition
from penstock.connect.definitions.config_def import ConfigValue
from penstock.connect.errors import ConnectError


class FilesSourceConnector(SourceConnector):
    """Tasks that share files."""

    task_class = FilesSourceTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return a configuration for each task, with its number."""
        configs = dict(self.context.configs())
        return [
            {**configs, keys.TASK_INDEX: str(index), keys.TASK_COUNT: str(max_tasks)}
            for index in range(max_tasks)
        ]

    def validate(self, properties: Mapping[str, str]) -> list[ConfigValue]:
        """Check each value, and what values need each other."""
        found = super().validate(properties)
        values = {each.name: each for each in found}
        mode, format = values[keys.MODE], values[INPUT_FORMAT]
        cleanup, finished = values[keys.CLEANUP], values[keys.FINISHED_PATH]
        if mode.value == keys.TAIL and format.value not in (AUTO, *GROWING):
            mode.errors.append(f"Only the formats {', '.join(GROWING)} can be read while files grow.")
        if mode.value == keys.TAIL and cleanup.value != keys.NONE:
            cleanup.errors.append("Files that grow are not cleaned up: the value must be NONE.")
        if cleanup.value == keys.MOVE and not finished.value:
            finished.errors.append(f"{keys.CLEANUP}=MOVE needs the directory for files that were read.")
        return found

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        for partition, offset in offsets:
            if set(partition) != {FILE}:
                raise ConnectError(f"a partition is {dict(partition)}, expected one key: {FILE}")
            position = 0 if offset is None else offset.get(POSITION)
            if type(position) is not int or position < 0:
                raise ConnectError(f"the {POSITION} of {partition[FILE]} is {position!r}, expected 0 or more")
            if position and offset is not None and not isinstance(offset.get(FINGERPRINT), str):
                raise ConnectError(
                    f"the offset of {partition[FILE]} has no {FINGERPRINT}, by which its file is recognized:"
                    f" expected the stored offset with another {POSITION}"
                )
        return True
