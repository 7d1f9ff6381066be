"""The schemas of a table's records, and rows as their keys and values, as Debezium 3.6.1 has them. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.connect.cdc.column_type import ColumnType
from penstock.connect.cdc.envelope import SNAPSHOT_MARKER, envelope_schema
from penstock.connect.cdc.mysql.defaults import default_value
from penstock.connect.cdc.mysql.table_maps import BinlogColumn, TableMap
from penstock.connect.cdc.mysql.values import ValueSettings, value_type
from penstock.connect.cdc.naming import adjuster, data_topic
from penstock.connect.cdc.selection.lists import message_keys
from penstock.connect.data.schema import INT32, INT64, OPTIONAL_INT64, OPTIONAL_STRING, STRING, Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

log = logging.getLogger(__name__)

_SOURCE_FIELDS: Final = {
    "version": STRING,
    "connector": STRING,
    "name": STRING,
    "ts_ms": INT64,
    "snapshot": SNAPSHOT_MARKER,
    "db": STRING,
    "sequence": OPTIONAL_STRING,
    "ts_us": OPTIONAL_INT64,
    "ts_ns": OPTIONAL_INT64,
    "table": OPTIONAL_STRING,
    "server_id": INT64,
    "gtid": OPTIONAL_STRING,
    "file": STRING,
    "pos": INT64,
    "row": INT32,
    "thread": OPTIONAL_INT64,
    "query": OPTIONAL_STRING,
}


@dataclass(frozen=True)
class DeclaredColumn:
    """Facts of a column that only the catalog has: its full type, and the text of its default."""

    type: str = ""
    default: str | None = None


@dataclass(frozen=True)
class NamingSettings:
    """The settings that names of topics and schemas depend on.

    `connector` is ``mysql`` or ``mariadb``. `message_keys` holds ``message.key.columns``.
    """

    prefix: str
    connector: str
    adjust_schema: Callable[[str], str] = field(default=lambda name: name)
    adjust_field: Callable[[str], str] = field(default=lambda name: name)
    message_keys: Callable[[str, str], Sequence[str] | None] = field(default=lambda database, table: None)

    @staticmethod
    def of(properties: Mapping[str, str], connector: str) -> NamingSettings:
        """Read Debezium's properties. Raises ConnectError."""
        return NamingSettings(
            *(properties["topic.prefix"], connector),
            adjuster(properties.get("schema.name.adjustment.mode", "none"), is_field=False),
            adjuster(properties.get("field.name.adjustment.mode", "none"), is_field=True),
            message_keys(properties.get("message.key.columns", "")),
        )

    @property
    def source(self) -> Schema:
        """The schema of the source block."""
        name = self.adjust_schema(f"io.debezium.connector.{self.connector}.Source")
        return Schema.struct(_SOURCE_FIELDS, name=name, version=1)


@dataclass(frozen=True)
class ColumnRules:
    """The captured columns of tables and their masks; names are ``database.table.column``."""

    is_captured: Callable[[str], bool] = field(default=lambda name: True)
    masked: Callable[[str, ColumnType, int | None], ColumnType] = field(
        default=lambda name, kind, length: kind
    )


ALL_COLUMNS: Final = ColumnRules()


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that records have: its place in rows, its field, and how raw values become values."""

    index: int
    name: str
    type: ColumnType
    nullable: bool
    raw_of_text: Callable[[bytes], Any]

    def value(self, raw: Any) -> Any:
        """The value of a raw one."""
        if raw is None:
            return self.type.null if self.nullable else self.type.fallback
        try:
            return self.type.convert(raw)
        except (DataError, ValueError, ArithmeticError, LookupError) as error:
            log.warning("value replaced by null column=%s reason=%s", self.name, error)
            return self.type.null if self.nullable else self.type.fallback


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table's topic, schemas and columns. `key_schema` is None for a table without a key."""

    database: str
    table: str
    topic: str
    columns: tuple[TableColumn, ...]
    keys: tuple[TableColumn, ...]
    key_schema: Schema | None
    value_schema: Schema
    envelope: Schema

    def key(self, row: Sequence[Any]) -> Struct | None:
        """The key of a row of raw values."""
        if self.key_schema is None:
            return None
        return Struct.of_values(self.key_schema, [each.value(row[each.index]) for each in self.keys])

    def value(self, row: Sequence[Any]) -> Struct:
        """The value of a row of raw values."""
        return Struct.of_values(self.value_schema, [each.value(row[each.index]) for each in self.columns])


def table_schema(
    table: TableMap,
    declared: Mapping[str, DeclaredColumn],
    values: ValueSettings,
    naming: NamingSettings,
    rules: ColumnRules = ALL_COLUMNS,
) -> TableSchema:
    """The schemas of a table; columns that ``declared`` lacks have no default."""
    topic = data_topic(naming.prefix, table.database, table.table)
    place = f"{table.database}.{table.table}."
    columns = [
        _column(index, each, declared.get(each.name, DeclaredColumn()), values, rules, place + each.name)
        for index, each in enumerate(table.columns)
        if rules.is_captured(place + each.name)
    ]
    by_name = {each.name: each for each in columns}
    primary = [table.columns[index].name for index in table.key]
    chosen = naming.message_keys(table.database, table.table) or primary
    keys = tuple(by_name[name] for name in chosen if name in by_name)
    fields = naming.adjust_field
    value_schema = Schema.struct(
        {fields(each.name): each.type.schema for each in columns},
        name=naming.adjust_schema(f"{topic}.Value"),
        optional=True,
    )
    key_schema = Schema.struct(
        {fields(each.name): each.type.schema for each in keys}, name=naming.adjust_schema(f"{topic}.Key")
    )
    return TableSchema(
        *(table.database, table.table, topic, tuple(columns), keys),
        key_schema if keys else None,
        value_schema,
        envelope_schema(naming.adjust_schema(f"{topic}.Envelope"), value_schema, naming.source),
    )


def _column(
    index: int,
    column: BinlogColumn,
    declared: DeclaredColumn,
    values: ValueSettings,
    rules: ColumnRules,
    full_name: str,
) -> TableColumn:
    made = value_type(column, declared.type, values)
    default = default_value(column, made, declared.default)
    kind = ColumnType(made.schema, made.convert, made.fallback, None)
    if default is not None:
        kind = replace(kind, fallback=default)
    kind = rules.masked(full_name, kind, _length(declared.type))
    schema = replace(kind.schema, optional=column.nullable, default=default)
    kind = replace(kind, schema=schema, convert=_bound(kind.convert, schema))
    return TableColumn(index, column.name, kind, column.nullable, made.raw_of_text)


def _bound(convert: Callable[[Any], Any], schema: Schema) -> Callable[[Any], Any]:
    """The function for a field with this schema: a struct has to have its field's schema, optional or not."""
    if schema.type is not Type.STRUCT:
        return convert
    return lambda raw: Struct.of_values(schema, convert(raw).own_values)


def _length(declared: str) -> int | None:
    """The characters of a column such as ``varchar(20)``."""
    name, _, rest = declared.partition("(")
    return int(rest.partition(")")[0]) if name in ("char", "varchar") and rest else None
