"""The Delta sink: what its configuration says, and which table gets a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.connector import parsed
from penstock.connect.connector.sink import SinkConnector
from penstock.connect.connectors.lake.columns.arrow_types import ArrowTypes
from penstock.connect.connectors.lake.delta.table import DeltaOptions, DeltaTable
from penstock.connect.connectors.lake.tables.changes import KeyedChanges
from penstock.connect.connectors.lake.tables.table_task import (
    BUFFER_BYTES,
    BUFFER_BYTES_DEFAULT,
    TableSettings,
    TableSinkTask,
)
from penstock.connect.connectors.lake.topic_folders import topic_folder
from penstock.connect.data.records import SinkRecord
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import NonEmptyString, Range
from penstock.connect.errors import ConfigInvalid, ConnectError
from penstock.extras import needs_extra

TABLE: Final = "delta.table"
TOPIC: Final = "${topic}"
KEYS: Final = "delta.key.fields"
OPERATION: Final = "delta.operation.field"
PARTITION_BY: Final = "delta.partition.fields"
CREATE: Final = "delta.auto.create"
EVOLVE: Final = "delta.schema.evolution"
INTERVAL: Final = "delta.commit.interval.ms"
APP_ID: Final = "delta.app.id"
STORAGE: Final = "delta.storage."
NAME: Final = "name"


def _definition() -> ConfigDef:
    text, words = ConfigType.STRING, ConfigType.LIST
    return (
        ConfigDef()
        .define(
            TABLE,
            text,
            validator=NonEmptyString(),
            importance=Importance.HIGH,
            doc="The path or URL of the table. ${topic} stands for the record's topic.",
        )
        .define(
            KEYS,
            words,
            "",
            importance=Importance.HIGH,
            doc="The fields that identify a row. With them, a record replaces the row with the same key, and "
            "one without a value deletes it. Without them, each record is a new row.",
        )
        .define(OPERATION, text, None, doc="The field whose values d, delete and true mark deletions.")
        .define(
            PARTITION_BY, words, "", doc="The columns by which a table is partitioned when it is created."
        )
        .define(CREATE, ConfigType.BOOLEAN, True, doc="Whether a table that does not exist is created.")
        .define(EVOLVE, ConfigType.BOOLEAN, True, doc="Whether columns are added for new fields of records.")
        .define(
            INTERVAL,
            ConfigType.INT,
            60_000,
            Range(0),
            doc="The time between commits to a table, in milliseconds. Each makes at least one file.",
        )
        .define(
            BUFFER_BYTES,
            ConfigType.LONG,
            BUFFER_BYTES_DEFAULT,
            Range(1),
            Importance.LOW,
            "The size of rows in memory, in bytes, that leads to a commit before the interval ends.",
        )
        .define(
            APP_ID,
            text,
            None,
            importance=Importance.LOW,
            doc="Begins the ids under which the table keeps the offsets, by default the connector's name. "
            "With another one, records that the table has already are written again.",
        )
    )


class DeltaSinkTask(TableSinkTask):
    """Appends records to tables, or replaces and deletes the rows with the same key."""

    definition = _definition()

    def configure(self, config: Mapping[str, Any]) -> TableSettings:
        require_packages()
        self._location: str = config[TABLE]
        self._options = options_of(config)
        operation = config[OPERATION] or None
        self._changes = KeyedChanges(self._options.keys, operation) if self._options.keys else None
        return TableSettings(config[INTERVAL], config[BUFFER_BYTES], ArrowTypes(times=False))

    def table_names(self, record: SinkRecord) -> Sequence[str]:
        if TOPIC not in self._location:
            return [self._location]
        return [self._location.replace(TOPIC, topic_folder(record.topic))]

    def open_table(self, name: str) -> DeltaTable:
        return DeltaTable(name, self._options)

    def keyed(self, name: str) -> KeyedChanges | None:
        return self._changes


class DeltaSinkConnector(SinkConnector):
    """Tasks that write to the same Delta tables, each the records of its partitions."""

    task_class = DeltaSinkTask

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Refuse offsets before those that a table has: the sink would skip the records up to there."""
        require_packages()
        config = parsed(self.task_class.definition, properties)
        for tp, offset in offsets.items():
            table = DeltaTable(config[TABLE].replace(TOPIC, tp.topic), options_of(config))
            written = table.offsets([tp]).get(tp, 0)
            if (offset or 0) < written:
                raise ConnectError(
                    f"the table has the records of {tp} below offset {written}, "
                    f"found the offset {offset or 0}: to write them again, set another {APP_ID}"
                )
        return True


def options_of(config: Mapping[str, Any]) -> DeltaOptions:
    """Return how tables are written. Raises ConfigInvalid for a setting that needs another."""
    if config[OPERATION] and not config[KEYS]:
        raise ConfigInvalid(f"{OPERATION} needs {KEYS}: a deletion names a row by its key")
    return DeltaOptions(
        app_id=config[APP_ID] or config.get(NAME) or "penstock",
        keys=tuple(config[KEYS]),
        partition_by=tuple(config[PARTITION_BY]),
        creates=config[CREATE],
        evolves=config[EVOLVE],
        storage={
            name[len(STORAGE) :]: str(value) for name, value in config.items() if name.startswith(STORAGE)
        },
    )


def require_packages() -> None:
    """Raise MissingExtra if a package is not installed."""
    with needs_extra("lake", "the Delta sink"):
        import deltalake  # noqa: F401
