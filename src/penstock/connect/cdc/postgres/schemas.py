"""The schemas of a table's records, and rows as their keys and values, as Debezium 3.6.1 has them. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.connect.cdc.column_type import ColumnType
from penstock.connect.cdc.envelope import SNAPSHOT_MARKER, envelope_schema
from penstock.connect.cdc.naming import adjuster, data_topic
from penstock.connect.cdc.postgres.catalog import Catalog, ColumnFacts, PostgresType, TableFacts
from penstock.connect.cdc.postgres.columns import column_type
from penstock.connect.cdc.postgres.defaults import default_value
from penstock.connect.cdc.postgres.messages import Relation, RelationColumn
from penstock.connect.cdc.postgres.pgoutput import BinaryValue, Column, Unchanged
from penstock.connect.cdc.postgres.settings import ValueSettings
from penstock.connect.cdc.postgres.value_types import bound
from penstock.connect.cdc.selection.lists import message_keys
from penstock.connect.data.schema import (
    INT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
)
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

log = logging.getLogger(__name__)

SOURCE: Final = Schema.struct(
    {
        "version": STRING,
        "connector": STRING,
        "name": STRING,
        "ts_ms": INT64,
        "snapshot": SNAPSHOT_MARKER,
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
            message_keys(properties.get("message.key.columns", "")),
        )


@dataclass(frozen=True)
class ColumnRules:
    """The captured columns of tables and their masks; names are ``schema.table.column``.

    `masked` gets a column's type and its declared length, and returns the type that values are written with.
    """

    is_captured: Callable[[str], bool] = field(default=lambda name: True)
    masked: Callable[[str, ColumnType, int | None], ColumnType] = field(
        default=lambda name, kind, length: kind
    )


ALL_COLUMNS: Final = ColumnRules()


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
                return self.type.null
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
    required: tuple[TableColumn, ...]

    def contradicted(self, row: Sequence[Column]) -> frozenset[str]:
        """The columns that are null in a whole row although the schema forbids it.

        The catalog is read when changes arrive, which may be long after they were made: such a column was
        declared NOT NULL in between.
        """
        return frozenset(each.name for each in self.required if row[each.index] is None)

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
    rules: ColumnRules = ALL_COLUMNS,
    nullable: frozenset[str] = frozenset(),
) -> TableSchema:
    """The schemas of a relation. Without ``facts`` (a dropped table), no column is NOT NULL.

    Columns in ``nullable`` may be null whatever the catalog says.
    """
    topic = data_topic(naming.prefix, relation.schema, relation.name)
    maker = _ColumnMaker(
        f"{relation.schema}.{relation.name}.",
        facts.columns if facts else {},
        nullable,
        catalog,
        values,
        rules,
    )
    made = [maker.column(index, each) for index, each in enumerate(relation.columns)]
    columns = [each for each in made if each is not None]
    by_name = {each.name: each for each in columns}
    chosen = naming.message_keys(relation.schema, relation.name) or _key(relation, facts)
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
        envelope_schema(naming.adjust_schema(f"{topic}.Envelope"), value_schema, SOURCE),
        tuple(each for each in columns if each.not_null),
    )


def _key(relation: Relation, facts: TableFacts | None) -> Sequence[str]:
    """The columns of the key.

    With the default replica identity, the relation marks those of the primary key, as they were at the time
    of the changes; the catalog may already have another key. It only adds their order.
    """
    known = facts.key if facts else ()
    marked = [each.name for each in relation.columns if each.is_key]
    if relation.replica_identity == "d" and marked and set(marked) != set(known):
        return marked
    return known


@dataclass(frozen=True, slots=True)
class _ColumnMaker:
    """Makes the columns of one table; ``place`` is the first part of their full names."""

    place: str
    facts: Mapping[str, ColumnFacts]
    nullable: frozenset[str]
    catalog: Catalog
    values: ValueSettings
    rules: ColumnRules

    def column(self, index: int, column: RelationColumn) -> TableColumn | None:
        """The column; None if it is filtered out, or its type has no schema."""
        full_name = self.place + column.name
        if not self.rules.is_captured(full_name):
            return None
        kind = column_type(self.catalog, self.values, column.type_oid, column.modifier)
        if kind is None:
            log.warning(
                "column left out, its type has no schema column=%s oid=%s", full_name, column.type_oid
            )
            return None
        facts = self.facts.get(column.name)
        not_null = facts is not None and facts.not_null and column.name not in self.nullable
        own_type = self.catalog.types[column.type_oid]
        default = default_value(own_type, kind, facts.default if facts else None)
        kind = self.rules.masked(full_name, kind, _length(own_type, column.modifier))
        schema = replace(kind.schema, optional=not not_null, default=default)
        kind = replace(kind, schema=schema, convert=bound(kind.convert, schema))
        return TableColumn(index, column.name, kind, not_null, column.is_key)


def _length(kind: PostgresType, modifier: int) -> int | None:
    """The declared length of a column of text."""
    return modifier - 4 if kind.name in ("varchar", "bpchar") and modifier >= 4 else None
