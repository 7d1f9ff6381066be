"""The schemas of a table's records, and rows as their keys and values, as Debezium 3.6.1 has them. Pure."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.connect.cdc.postgres.catalog import Catalog, ColumnFacts, TableFacts
from penstock.connect.cdc.postgres.columns import ColumnType, column_type
from penstock.connect.cdc.postgres.defaults import default_value
from penstock.connect.cdc.postgres.messages import Relation, RelationColumn
from penstock.connect.cdc.postgres.naming import adjuster, data_topic
from penstock.connect.cdc.postgres.pgoutput import BinaryValue, Column, Unchanged
from penstock.connect.cdc.postgres.settings import ValueSettings
from penstock.connect.cdc.postgres.value_types import bound
from penstock.connect.data.schema import (
    INT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Type,
)
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

log = logging.getLogger(__name__)

_SNAPSHOT: Final = Schema(
    Type.STRING,
    optional=True,
    default="false",
    name="io.debezium.data.Enum",
    version=1,
    parameters={
        "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
    },
)
SOURCE: Final = Schema.struct(
    {
        "version": STRING,
        "connector": STRING,
        "name": STRING,
        "ts_ms": INT64,
        "snapshot": _SNAPSHOT,
        "db": STRING,
        "sequence": OPTIONAL_STRING,
        "ts_us": OPTIONAL_INT64,
        "ts_ns": OPTIONAL_INT64,
        "schema": STRING,
        "table": STRING,
        "txId": OPTIONAL_INT64,
        "lsn": OPTIONAL_INT64,
        "xmin": OPTIONAL_INT64,
        "origin": OPTIONAL_STRING,
        "origin_lsn": OPTIONAL_INT64,
    },
    name="io.debezium.connector.postgresql.Source",
    version=1,
)
TRANSACTION_BLOCK: Final = Schema.struct(
    {"id": STRING, "total_order": INT64, "data_collection_order": INT64},
    name="event.block",
    version=1,
    optional=True,
)


@dataclass(frozen=True)
class NamingSettings:
    """The settings that names of topics and schemas depend on.

    `message_keys` holds ``message.key.columns``: functions that give a table's key columns or None.
    """

    prefix: str
    adjust_schema: Callable[[str], str] = field(default=lambda name: name)
    adjust_field: Callable[[str], str] = field(default=lambda name: name)
    message_keys: Callable[[str, str], Sequence[str] | None] = field(default=lambda schema, table: None)

    @staticmethod
    def of(properties: Mapping[str, str]) -> NamingSettings:
        """Read Debezium's properties. Raises ConnectError."""
        return NamingSettings(
            properties["topic.prefix"],
            adjuster(properties.get("schema.name.adjustment.mode", "none"), is_field=False),
            adjuster(properties.get("field.name.adjustment.mode", "none"), is_field=True),
            _message_keys(properties.get("message.key.columns", "")),
        )


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that records have: its place in the tuples, its field, and how its texts become values."""

    index: int
    name: str
    type: ColumnType
    not_null: bool
    in_identity: bool

    def value(self, text: Column, old: Column = None) -> Any:
        """The value for a column of a tuple. ``old`` is that column before the change, if it is known."""
        if text is Unchanged.TOAST:
            if not isinstance(old, str):
                return self.type.unchanged
            text = old
        if text is None:
            if not self.not_null:
                return None
            return self.type.fallback if self.type.schema.default is None else self.type.schema.default
        if isinstance(text, BinaryValue | Unchanged):
            raise DataError(f"the column {self.name} is in binary format; start the slot without binary")
        try:
            return self.type.convert(text)
        except (DataError, ValueError, ArithmeticError) as error:
            log.warning("value replaced by null column=%s reason=%s", self.name, error)
            return None


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table's topic, schemas and columns. `key_schema` is None for a table without a key."""

    schema: str
    table: str
    topic: str
    columns: tuple[TableColumn, ...]
    keys: tuple[TableColumn, ...]
    key_schema: Schema | None
    value_schema: Schema
    envelope: Schema

    def key(self, row: Sequence[Column]) -> Struct | None:
        """The key of a row."""
        if self.key_schema is None:
            return None
        return Struct.of_values(self.key_schema, [each.value(row[each.index]) for each in self.keys])

    @property
    def is_identified(self) -> bool:
        """Whether the replica identity has all columns of the key."""
        return all(each.in_identity for each in self.keys)

    def value(self, row: Sequence[Column], old: Sequence[Column] | None = None) -> Struct:
        """The value of a row; unchanged columns come from ``old`` if it has them."""
        if old is None:
            values = [each.value(row[each.index]) for each in self.columns]
        else:
            values = [each.value(row[each.index], old[each.index]) for each in self.columns]
        return Struct.of_values(self.value_schema, values)


def table_schema(
    relation: Relation,
    facts: TableFacts | None,
    catalog: Catalog,
    values: ValueSettings,
    naming: NamingSettings,
) -> TableSchema:
    """The schemas of a relation. Without ``facts`` (a dropped table), no column is NOT NULL or of a key."""
    topic = data_topic(naming.prefix, relation.schema, relation.name)
    known = facts.columns if facts else {}
    columns = [
        made
        for index, each in enumerate(relation.columns)
        if (made := _column(index, each, known.get(each.name), catalog, values)) is not None
    ]
    by_name = {each.name: each for each in columns}
    chosen = naming.message_keys(relation.schema, relation.name) or (facts.key if facts else ())
    keys = tuple(by_name[name] for name in chosen if name in by_name)
    field_names = naming.adjust_field
    value_schema = Schema.struct(
        {field_names(each.name): each.type.schema for each in columns},
        name=naming.adjust_schema(f"{topic}.Value"),
        optional=True,
    )
    key_schema = Schema.struct(
        {field_names(each.name): each.type.schema for each in keys}, name=naming.adjust_schema(f"{topic}.Key")
    )
    return TableSchema(
        *(relation.schema, relation.name, topic, tuple(columns), keys),
        key_schema if keys else None,
        value_schema,
        _envelope(naming.adjust_schema(f"{topic}.Envelope"), value_schema),
    )


def _column(
    index: int, column: RelationColumn, facts: ColumnFacts | None, catalog: Catalog, values: ValueSettings
) -> TableColumn | None:
    kind = column_type(catalog, values, column.type_oid, column.modifier)
    if kind is None:
        log.warning("column left out, its type has no schema column=%s oid=%s", column.name, column.type_oid)
        return None
    not_null = facts is not None and facts.not_null
    default = default_value(catalog.types[column.type_oid], kind, facts.default if facts else None)
    schema = replace(kind.schema, optional=not not_null, default=default)
    kind = replace(kind, schema=schema, convert=bound(kind.convert, schema))
    return TableColumn(index, column.name, kind, not_null, column.is_key)


def _envelope(name: str, value: Schema) -> Schema:
    times = {"ts_ms": OPTIONAL_INT64, "ts_us": OPTIONAL_INT64, "ts_ns": OPTIONAL_INT64}
    parts = {
        "before": value,
        "after": value,
        "source": SOURCE,
        "transaction": TRANSACTION_BLOCK,
        "op": STRING,
    }
    return Schema.struct({**parts, **times}, name=name, version=2)


def _message_keys(text: str) -> Callable[[str, str], Sequence[str] | None]:
    """``message.key.columns``: ``schema.table:column,column;…``, with regular expressions for tables."""
    rules = []
    for rule in filter(None, (each.strip() for each in text.split(";"))):
        table, colon, columns = rule.rpartition(":")
        if not colon:
            raise DataError(f"message.key.columns has {rule!r}; expected schema.table:column,column")
        rules.append((re.compile(table, re.IGNORECASE), [each.strip() for each in columns.split(",")]))

    def chosen(schema: str, table: str) -> Sequence[str] | None:
        return next((names for pattern, names in rules if pattern.fullmatch(f"{schema}.{table}")), None)

    return chosen
