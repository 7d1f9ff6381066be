"""The Iceberg sink: what its configuration says, and which tables get a record.

The names and defaults are those of Apache Iceberg's sink, and for changes by key those of the sink by Tabular
from which it comes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.connector import parsed
from penstock.connect.connector.sink import SinkConnector
from penstock.connect.connectors.lake.columns.arrow_types import ArrowTypes
from penstock.connect.connectors.lake.columns.fields import field_of
from penstock.connect.connectors.lake.iceberg.partitioning import partition_terms
from penstock.connect.connectors.lake.iceberg.table import IcebergOptions, IcebergTable
from penstock.connect.connectors.lake.tables.changes import KeyedChanges
from penstock.connect.connectors.lake.tables.table_task import (
    BUFFER_BYTES,
    BUFFER_BYTES_DEFAULT,
    TableSettings,
    TableSinkTask,
)
from penstock.connect.data.records import SinkRecord
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import Range
from penstock.connect.errors import ConfigInvalid, ConnectError, DataError
from penstock.extras import needs_extra
from penstock.java.patterns import PatternError, compile_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog

TABLES: Final = "iceberg.tables"
DYNAMIC: Final = "iceberg.tables.dynamic-enabled"
ROUTE_FIELD: Final = "iceberg.tables.route-field"
CDC_FIELD: Final = "iceberg.tables.cdc-field"
UPSERT: Final = "iceberg.tables.upsert-mode-enabled"
CREATE: Final = "iceberg.tables.auto-create-enabled"
CREATE_PROPERTIES: Final = "iceberg.tables.auto-create-props."
EVOLVE: Final = "iceberg.tables.evolve-schema-enabled"
ID_COLUMNS: Final = "iceberg.tables.default-id-columns"
PARTITION_BY: Final = "iceberg.tables.default-partition-by"
CATALOG: Final = "iceberg.catalog"
CATALOG_PROPERTIES: Final = "iceberg.catalog."
INTERVAL: Final = "iceberg.control.commit.interval-ms"
TABLE: Final = "iceberg.table."
OFFSETS_ID: Final = "iceberg.offsets.id"
NAME: Final = "name"
_TABLE_NAME: Final = re.compile(r"[\w-]+(?:\.[\w-]+)+")
ATTEMPTS: Final = 4
"""Attempts to open the catalog, a second in all."""


def _definition() -> ConfigDef:
    text, flag = ConfigType.STRING, ConfigType.BOOLEAN
    return (
        ConfigDef()
        .define(
            TABLES,
            ConfigType.LIST,
            "",
            importance=Importance.HIGH,
            doc="The tables, as namespace.table. Each record goes to all of them, or to those whose "
            "route-regex matches the value of the route field.",
        )
        .define(
            DYNAMIC, flag, False, doc="Whether the route field names the table of each record, in lower case."
        )
        .define(ROUTE_FIELD, text, None, doc="The field of the value that decides about the table.")
        .define(CATALOG, text, "iceberg", doc="The name of the catalog. iceberg.catalog.* describe it.")
        .define(CREATE, flag, False, doc="Whether a table that does not exist is created.")
        .define(EVOLVE, flag, False, doc="Whether columns are added for new fields, and made wider.")
        .define(
            ID_COLUMNS,
            ConfigType.LIST,
            "",
            doc="The columns that identify rows; iceberg.table.T.id-columns for one.",
        )
        .define(
            PARTITION_BY,
            text,
            "",
            doc="The partitions of tables that are created, such as day(ts), bucket(id, 16); "
            "iceberg.table.T.partition-by for one.",
        )
        .define(UPSERT, flag, False, doc="Whether a record replaces the row with the same id columns.")
        .define(
            CDC_FIELD,
            text,
            None,
            doc="The field whose values d, delete and true mark deletions; implies upserts.",
        )
        .define(
            INTERVAL,
            ConfigType.INT,
            300_000,
            Range(0),
            doc="The time between commits to a table, in milliseconds.",
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
            OFFSETS_ID,
            text,
            None,
            importance=Importance.LOW,
            doc="The name under which snapshots carry the offsets, by default the connector's. With another "
            "one, records that the table has already are written again.",
        )
    )


class IcebergSinkTask(TableSinkTask):
    """Appends records to tables, or replaces and deletes the rows with the same id columns."""

    definition = _definition()

    def configure(self, config: Mapping[str, Any]) -> TableSettings:
        self._config = config
        self._route = router(config)
        for name in config[TABLES]:
            options_of(config, name)  # raises ConfigInvalid now and not with the first record
        self._catalog = catalog_of(config)
        return TableSettings(config[INTERVAL], config[BUFFER_BYTES], ArrowTypes(small_integers=False))

    def table_names(self, record: SinkRecord) -> Sequence[str]:
        return self._route(record)

    def open_table(self, name: str) -> IcebergTable:
        return IcebergTable(self._catalog, name, options_of(self._config, name))

    def keyed(self, name: str) -> KeyedChanges | None:
        keys = options_of(self._config, name).keys
        return KeyedChanges(keys, self._config[CDC_FIELD] or None) if keys else None


class IcebergSinkConnector(SinkConnector):
    """Tasks that write to the same Iceberg tables, each the records of its partitions."""

    task_class = IcebergSinkTask

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Refuse offsets before those that a table has: the sink would skip the records up to there."""
        config = parsed(self.task_class.definition, properties)
        catalog = catalog_of(config)
        for name in config[TABLES]:
            table = IcebergTable(catalog, name, options_of(config, name))
            for tp, written in table.offsets(offsets.keys()).items():
                if (wanted := offsets[tp] or 0) < written:
                    raise ConnectError(
                        f"the table {name} has the records of {tp} below offset {written}, found the offset "
                        f"{wanted}: to write them again, set another {OFFSETS_ID}"
                    )
        return True


def options_of(config: Mapping[str, Any], name: str) -> IcebergOptions:
    """Return how a table is written. Raises ConfigInvalid for upserts without id columns."""
    own = f"{TABLE}{name}."
    keys = config.get(f"{own}id-columns")
    columns = (
        config[ID_COLUMNS] if keys is None else [each.strip() for each in keys.split(",") if each.strip()]
    )
    upserts = config[UPSERT] or config[CDC_FIELD]
    if upserts and not columns:
        raise ConfigInvalid(
            f"upserts need {own}id-columns or {ID_COLUMNS}: no column identifies rows of {name}"
        )
    return IcebergOptions(
        connector=config[OFFSETS_ID] or config.get(NAME) or "penstock",
        keys=tuple(columns) if upserts else (),
        partition_by=tuple(partition_terms(config.get(f"{own}partition-by", config[PARTITION_BY]) or "")),
        creates=config[CREATE],
        evolves=config[EVOLVE],
        properties=_with_prefix(config, CREATE_PROPERTIES),
    )


def router(config: Mapping[str, Any]) -> Callable[[SinkRecord], Sequence[str]]:
    """Return which tables get a record. Raises ConfigInvalid."""
    tables: list[str] = config[TABLES]
    field = config[ROUTE_FIELD] or None
    if config[DYNAMIC]:
        if field is None:
            raise ConfigInvalid(f"{DYNAMIC} needs {ROUTE_FIELD}: the field that names the table")
        return lambda record: _named(record, field)
    if not tables:
        raise ConfigInvalid(f"{TABLES} is empty: expected tables, or {DYNAMIC}=true")
    if field is None:
        return lambda _record: tables
    patterns = {}
    for name in tables:
        regex = config.get(f"{TABLE}{name}.route-regex")
        if regex is None:
            raise ConfigInvalid(f"{ROUTE_FIELD} needs {TABLE}{name}.route-regex: the values for this table")
        try:
            patterns[name] = compile_pattern(regex)
        except PatternError as error:
            raise ConfigInvalid(f"{TABLE}{name}.route-regex is {regex!r}: {error}") from error

    @lru_cache(maxsize=1024)  # values can be many
    def matching(value: str) -> Sequence[str]:
        return [name for name, pattern in patterns.items() if pattern.fullmatch(value)]

    def route(record: SinkRecord) -> Sequence[str]:
        found = routing_value(record, field)
        return [] if found is None else matching(found)

    return route


def _named(record: SinkRecord, field: str) -> Sequence[str]:
    found = routing_value(record, field)
    if found is None:
        return []
    name = found.lower()
    # Catalogs make folders of names, so a value must not lead out of the warehouse.
    if not _TABLE_NAME.fullmatch(name):
        raise DataError(f"the field {field!r} is {found!r}: expected the name of a table, namespace.table")
    return [name]


def routing_value(record: SinkRecord, field: str) -> str | None:
    """Return the value of the route field: of the value, or of the key of a record without one."""
    found = field_of(record.key if record.value is None else record.value, field)
    return None if found is None else str(found)


def catalog_of(config: Mapping[str, Any]) -> Catalog:
    """Return the catalog. Raises MissingExtra, or ConfigInvalid where it cannot be opened."""
    with needs_extra("lake", "the Iceberg sink"):
        from pyiceberg.catalog import load_catalog
    properties = _with_prefix(config, CATALOG_PROPERTIES)
    if "catalog-impl" in properties:
        raise ConfigInvalid(
            f"{CATALOG_PROPERTIES}catalog-impl names a class of Java: set {CATALOG_PROPERTIES}type to "
            "rest, sql, glue, hive or dynamodb"
        )
    for attempt in range(ATTEMPTS):
        try:
            return load_catalog(config[CATALOG], **properties)
        except Exception as error:  # catalogs raise errors of many libraries
            # One in SQL fails if two tasks create its tables at the same time.
            if attempt + 1 == ATTEMPTS:
                raise ConnectError(f"the catalog {config[CATALOG]!r} cannot be opened: {error}") from error
            time.sleep(0.1 * (attempt + 1))
    raise AssertionError("the last attempt returns or raises")


def _with_prefix(config: Mapping[str, Any], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: str(value) for name, value in config.items() if name.startswith(prefix)}
