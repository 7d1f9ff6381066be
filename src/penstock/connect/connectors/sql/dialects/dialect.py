"""A dialect: what connectors ask a database for, in standard SQL where the database has nothing better."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.connect.connectors.sql.names import TableName
from penstock.connect.data.logical import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME, scale_parameter
from penstock.connect.data.schema import Schema, Type
from penstock.connect.errors import ConnectError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

PASSING: Final = frozenset({"OperationalError", "InterfaceError", "InternalError"})
"""Python's names for errors of databases that do not lie in the statement or its values (PEP 249)."""
PLAIN: Final = re.compile(r"[^\W\d][\w$]*")
"""Names that need no quotes."""
Rows = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table or a query.

    `kind` is one of: boolean, tinyint, smallint, integer, bigint, real, double, numeric, text, bytes, date,
    time, timestamp (without a zone), timestamptz, json, any; with ``[]`` behind it for arrays. `type` is the
    database's own name for it, without sizes.
    """

    name: str
    kind: str
    type: str = ""
    nullable: bool = True
    precision: int | None = None
    scale: int | None = None
    is_key: bool = False
    increments: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A table to write to: its name, and the columns of keys and of other values in the order of rows."""

    table: TableName
    keys: tuple[Column, ...]
    others: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in the order of rows."""
        return self.keys + self.others


KINDS: Final = {
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("tinyint", "int1"), "tinyint"),
    **dict.fromkeys(("smallint", "int2", "smallserial"), "smallint"),
    **dict.fromkeys(("integer", "int", "int4", "mediumint", "serial"), "integer"),
    **dict.fromkeys(("bigint", "int8", "bigserial"), "bigint"),
    **dict.fromkeys(("real", "float4"), "real"),
    **dict.fromkeys(("double", "double precision", "double_precision", "float", "float8"), "double"),
    **dict.fromkeys(("numeric", "decimal", "number", "dec"), "numeric"),
    **dict.fromkeys(
        ("text", "varchar", "char", "character", "character varying", "nvarchar", "nchar"), "text"
    ),
    **dict.fromkeys(("clob", "nclob", "ntext", "string", "bpchar", "name", "uuid", "enum", "xml"), "text"),
    **dict.fromkeys(("bytea", "blob", "binary", "varbinary", "bytes", "raw", "image"), "bytes"),
    "date": "date",
    **dict.fromkeys(("time", "time without time zone"), "time"),
    **dict.fromkeys(("timestamp", "datetime", "datetime2", "timestamp without time zone"), "timestamp"),
    **dict.fromkeys(("timestamptz", "timestamp with time zone", "datetimeoffset"), "timestamptz"),
    **dict.fromkeys(("json", "jsonb"), "json"),
}
"""Kinds of columns by the names of types that most databases have."""


def kind_of(type_name: str, kinds: Mapping[str, str] = KINDS) -> str:
    """The kind for the name of a type, with its sizes or without; "any" if it is not known."""
    name = " ".join(type_name.lower().partition("(")[0].split())
    if type_name.endswith("[]"):
        return kind_of(type_name[:-2], kinds) + "[]"
    return kinds.get(name, "any")


class Dialect:
    """The dialect of a database that has no module of its own."""

    types: ClassVar[dict[Type | str, str]] = {
        Type.INT8: "SMALLINT",
        Type.INT16: "SMALLINT",
        Type.INT32: "INTEGER",
        Type.INT64: "BIGINT",
        Type.FLOAT32: "REAL",
        Type.FLOAT64: "DOUBLE PRECISION",
        Type.BOOLEAN: "BOOLEAN",
        Type.STRING: "VARCHAR(4000)",
        Type.BYTES: "BLOB",
        Type.STRUCT: "VARCHAR(4000)",
        DATE_NAME: "DATE",
        TIME_NAME: "TIME",
        TIMESTAMP_NAME: "TIMESTAMP",
    }
    """Types of new columns, by types of schemas and names of logical types."""
    decimal: ClassVar[str] = "DECIMAL(38,{})"
    """The type of new columns for decimals, by their scale."""
    key_types: ClassVar[dict[Type, str]] = {}
    """Types of new columns of primary keys, where others are needed there."""
    exact_text: ClassVar[str] = "VARCHAR({})"
    """The type of texts of limited length that are equal only if all their characters are."""
    folds_case: ClassVar[bool] = False
    """Whether texts that Python tells apart can be the same key in the database."""
    has_arrays: ClassVar[bool] = False
    reads_block_writes: ClassVar[bool] = False
    """Whether a query whose rows were not all fetched keeps others from writing."""
    parameters_max: ClassVar[int] = 30_000
    """Limits the parameters of one statement."""

    def __init__(self, engine: Engine, *, quotes: bool) -> None:
        self.name = engine.dialect.name
        self._preparer = engine.dialect.identifier_preparer
        self._paramstyle = engine.dialect.paramstyle
        self._quotes = quotes

    def prepare(self, engine: Engine) -> None:
        """Let connections of the engine return what `source` expects."""

    # SQL

    def quote(self, identifier: str) -> str:
        """An identifier as SQL.

        Names that are no plain identifiers are always quoted: fields of records must not become SQL.
        """
        if self._quotes or PLAIN.fullmatch(identifier) is None:
            return str(self._preparer.quote_identifier(identifier))
        return identifier

    def literal_name(self, table: TableName) -> str:
        """A table's name as a text that is a parameter, not a part of a statement."""
        return self._single_percents(self.table(table))

    def _single_percents(self, sql: str) -> str:
        return sql.replace("%%", "%") if self._paramstyle in ("format", "pyformat") else sql

    def table(self, table: TableName) -> str:
        """A table's name as SQL."""
        return ".".join(map(self.quote, table.parts))

    def placeholders(self, count: int, first: int = 1) -> list[str]:
        """The markers of parameters in a statement, beginning with parameter ``first``."""
        match self._paramstyle:
            case "qmark":
                return ["?"] * count
            case "numeric" | "named":
                return [f":{number}" for number in range(first, first + count)]
            case "numeric_dollar":
                return [f"${number}" for number in range(first, first + count)]
            case _:
                return ["%s"] * count

    def literal(self, query: str) -> str:
        """A user's query as part of a statement with parameters."""
        return query.replace("%", "%%") if self._paramstyle in ("format", "pyformat") else query

    # Catalogs

    def tables(self, connection: Connection, types: Sequence[str]) -> list[TableName]:
        """The tables of the database in the order of their names; types are TABLE and VIEW."""
        from sqlalchemy import inspect

        inspector = inspect(connection)
        found = []
        for schema in inspector.get_schema_names():
            if "TABLE" in types:
                found += [TableName(name, schema) for name in inspector.get_table_names(schema)]
            if "VIEW" in types:
                found += [TableName(name, schema) for name in inspector.get_view_names(schema)]
        return sorted(found, key=str)

    def columns(self, connection: Connection, table: TableName) -> list[Column]:
        """The columns of a table in their order; none if there is no such table."""
        from sqlalchemy import inspect

        inspector = inspect(connection)
        if not inspector.has_table(table.name, table.schema):
            return []
        keys = set(inspector.get_pk_constraint(table.name, table.schema)["constrained_columns"])
        return [
            Column(
                name=each["name"],
                kind=kind_of(str(each["type"])),
                type=str(each["type"]),
                nullable=each["nullable"],
                precision=getattr(each["type"], "precision", None),
                scale=getattr(each["type"], "scale", None),
                is_key=each["name"] in keys,
                increments=each.get("autoincrement") is True,
            )
            for each in inspector.get_columns(table.name, table.schema)
        ]

    def columns_of_query(self, connection: Connection, query: str) -> list[Column]:
        """The columns of a query. Raises ConnectError if the database cannot tell."""
        raise ConnectError(f"a query of {self.name} cannot be read: its types are not known; use a view")

    def now(self, connection: Connection) -> datetime.datetime:
        """The database's clock."""
        found = connection.exec_driver_sql("SELECT CURRENT_TIMESTAMP").scalar_one()
        assert isinstance(found, datetime.datetime)
        return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)

    def moment_sql(self, column: str) -> str:
        """A column of timestamps as SQL that is compared with what `moment` returns."""
        return column

    def moment(self, value: datetime.datetime, column: Column, zone: datetime.tzinfo) -> Any:
        """A moment as a parameter that is compared with a column, or stored in it."""
        return value if column.kind == "timestamptz" else value.astimezone(zone).replace(tzinfo=None)

    def moment_of(self, stored: Any, column: Column, zone: datetime.tzinfo) -> datetime.datetime:
        """The moment in UTC for a value of a column of timestamps. Raises ValueError."""
        if not isinstance(stored, datetime.datetime):
            raise ValueError(f"found {type(stored).__name__}, expected a timestamp")
        found = stored if stored.tzinfo is not None else stored.replace(tzinfo=zone)
        return found.astimezone(datetime.UTC)

    # Values

    def column_type(self, schema: Schema, *, is_key: bool) -> str:
        """The type of a new column for values of a schema."""
        if schema.name == DECIMAL_NAME:
            return self.decimal.format(scale_parameter(schema))
        if schema.name in (DATE_NAME, TIME_NAME, TIMESTAMP_NAME):
            return self.types[schema.name]
        if schema.type is Type.ARRAY and schema.value_schema is not None and self.has_arrays:
            return f"{self.column_type(schema.value_schema, is_key=False)}[]"
        if is_key and schema.type in self.key_types:
            return self.key_types[schema.type]
        found = self.types.get(schema.type)
        return self.types[Type.STRUCT] if found is None else found

    def default(self, literal: str, column_type: str) -> str:
        """The default of a new column as SQL."""
        return f"DEFAULT {literal}"

    def binder(self, kind: str) -> Callable[[Any], Any] | None:
        """Return how values of a kind are changed for the driver, which None leaves as they are."""
        return None

    # Rows

    def insert(self, target: Target, *, upserts: bool) -> str:
        """INSERT for one row, with markers; with ``upserts`` it changes a row with the same key."""
        columns = ", ".join(self.quote(each.name) for each in target.columns)
        markers = ", ".join(self.placeholders(len(target.columns)))
        head = f"INSERT INTO {self.table(target.table)} ({columns}) VALUES ({markers})"
        return f"{head} {self.upsert_clause(target)}" if upserts else head

    def upsert_clause(self, target: Target) -> str:
        """The end of an INSERT that changes a row with the same key."""
        raise ConnectError(f"insert.mode is upsert, which {self.name} does not support here")

    def on_conflict(self, target: Target) -> str:
        """The upsert of PostgreSQL, SQLite and DuckDB."""
        keys = ", ".join(self.quote(each.name) for each in target.keys)
        if not target.others:
            return f"ON CONFLICT ({keys}) DO NOTHING"
        names = [self.quote(each.name) for each in target.others]
        return f"ON CONFLICT ({keys}) DO UPDATE SET " + ", ".join(
            f"{name} = excluded.{name}" for name in names
        )

    def insert_rows(self, connection: Connection, target: Target, rows: Rows, *, upserts: bool) -> None:
        """Insert rows; with ``upserts``, no two have the same key."""
        connection.exec_driver_sql(self.insert(target, upserts=upserts), [tuple(row) for row in rows])

    def update_rows(self, connection: Connection, target: Target, rows: Rows) -> None:
        """Update the rows with these keys; others are not touched."""
        count = len(target.others)
        markers = self.placeholders(len(target.columns))
        names = [self.quote(each.name) for each in target.columns]
        keys = len(target.keys)
        pairs = [f"{name} = {marker}" for name, marker in zip(names[keys:], markers, strict=False)]
        where = [f"{name} = {marker}" for name, marker in zip(names, markers[count:], strict=False)]
        statement = f"UPDATE {self.table(target.table)} SET {', '.join(pairs)} WHERE {' AND '.join(where)}"
        if not pairs:
            return
        connection.exec_driver_sql(statement, [(*row[keys:], *row[:keys]) for row in rows])

    def delete_rows(self, connection: Connection, target: Target, keys: Rows) -> None:
        """Delete the rows with these keys."""
        markers = self.placeholders(len(target.keys))
        where = [
            f"{self.quote(each.name)} = {marker}" for each, marker in zip(target.keys, markers, strict=True)
        ]
        statement = f"DELETE FROM {self.table(target.table)} WHERE {' AND '.join(where)}"
        connection.exec_driver_sql(statement, [tuple(each) for each in keys])

    # Errors

    def is_passing(self, error: BaseException | None) -> bool:
        """Whether a driver's error may not come again."""
        return any(each.__name__ in PASSING for each in type(error).__mro__)
