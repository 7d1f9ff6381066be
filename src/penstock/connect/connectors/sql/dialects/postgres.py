"""PostgreSQL: its catalog, and inserts of whole columns by unnest."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.connect.connectors.sql.dialects.dialect import KINDS, Column, Dialect, Rows, Target, kind_of
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.data.logical import DATE_NAME, TIME_NAME, TIMESTAMP_NAME
from penstock.connect.data.schema import Type

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

TABLES: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = ANY (%s) AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%%'
ORDER BY 1, 2
"""
COLUMNS: Final = """
SELECT a.attname,
       CASE t.typtype WHEN 'e' THEN 'enum' WHEN 'd' THEN format_type(t.typbasetype, NULL)
                      ELSE format_type(a.atttypid, NULL) END,
       a.atttypid, a.atttypmod, a.attnotnull,
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary
               AND a.attnum = ANY (i.indkey)),
       a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
RELATION_KINDS: Final = {
    "TABLE": "r",
    "PARTITIONED TABLE": "p",
    "VIEW": "v",
    "MATERIALIZED VIEW": "m",
    "FOREIGN TABLE": "f",
}
"""Types of tables as in JDBC, and what pg_class has for them."""
NUMERIC_OID: Final = 1700
HEADER: Final = 4
"""The modifier of numeric is 4 more than precision (16 bits) and scale (11 bits, signed)."""
SCALE_SIGN: Final = 1 << 10
ARRAY_TYPES: Final = {
    **{name: name for name in ("smallint", "integer", "bigint", "real", "double precision", "numeric")},
    **{name: name for name in ("boolean", "text", "bytea", "date", "uuid", "json", "jsonb")},
    **{name: name for name in ("time without time zone", "timestamp without time zone")},
    "timestamp with time zone": "timestamp with time zone",
    "character varying": "text",
    "character": "bpchar",
}
"""Element types of arrays for the types of columns. A cast to a type with a size would cut values off."""
LOCK_NOT_AVAILABLE: Final = "55P03"
LIMIT_EXCEEDED: Final = "54"
"""The class of errors for values and statements that are too long or too complex."""


class PostgreSQL(Dialect):
    """PostgreSQL by psycopg."""

    types: ClassVar[dict[Type | str, str]] = {
        Type.INT8: "SMALLINT",
        Type.INT16: "SMALLINT",
        Type.INT32: "INT",
        Type.INT64: "BIGINT",
        Type.FLOAT32: "REAL",
        Type.FLOAT64: "DOUBLE PRECISION",
        Type.BOOLEAN: "BOOLEAN",
        Type.STRING: "TEXT",
        Type.BYTES: "BYTEA",
        Type.STRUCT: "JSONB",
        DATE_NAME: "DATE",
        TIME_NAME: "TIME",
        TIMESTAMP_NAME: "TIMESTAMP",
    }
    decimal: ClassVar[str] = "DECIMAL"
    has_arrays: ClassVar[bool] = True

    def prepare(self, engine: Engine) -> None:
        """Let JSON and UUID arrive as text."""
        from psycopg.types.string import TextLoader
        from sqlalchemy import event

        def connected(connection: Any, record: object) -> None:
            for name in ("json", "jsonb", "uuid"):
                connection.adapters.register_loader(name, TextLoader)

        event.listen(engine, "connect", connected)

    def tables(self, connection: Connection, types: Sequence[str]) -> list[TableName]:
        kinds = [RELATION_KINDS[each] for each in types if each in RELATION_KINDS]
        found = connection.exec_driver_sql(TABLES, (kinds,))
        return [TableName(name, schema) for schema, name in found]

    def columns(self, connection: Connection, table: TableName) -> list[Column]:
        found = []
        for name, type_name, oid, modifier, required, is_key, increments in connection.exec_driver_sql(
            COLUMNS, (self.literal_name(table),)
        ):
            has_scale = oid == NUMERIC_OID and modifier >= HEADER
            scale = (modifier - HEADER) & (2 * SCALE_SIGN - 1)
            found.append(
                Column(
                    name=name,
                    kind=kind_of(type_name),
                    type=type_name,
                    nullable=not required,
                    precision=(modifier - HEADER) >> 16 if has_scale else None,
                    scale=(scale ^ SCALE_SIGN) - SCALE_SIGN if has_scale else None,
                    is_key=is_key,
                    increments=increments,
                )
            )
        return found

    def columns_of_query(self, connection: Connection, query: str) -> list[Column]:
        result = connection.exec_driver_sql(f"SELECT * FROM ({self.literal(query)}) AS query LIMIT 0")
        cursor: Any = result.cursor
        types = cursor.connection.adapters.types
        found = []
        for each in cursor.description:
            info = types.get(each.type_code)
            name = "enum" if info is None else info.name
            is_array = info is not None and info.array_oid == each.type_code
            kind = KINDS.get(name, "any")
            found.append(
                Column(
                    name=each.name,
                    kind=f"{kind}[]" if is_array else kind,
                    precision=each.precision,
                    scale=each.scale,
                )
            )
        result.close()
        return found

    def now(self, connection: Connection) -> datetime.datetime:
        found: datetime.datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        return found.astimezone(datetime.UTC)

    def binder(self, kind: str) -> Callable[[Any], Any] | None:
        return float if kind in ("real", "double") else None  # an array has numbers of one type

    def upsert_clause(self, target: Target) -> str:
        return self.on_conflict(target)

    def insert_rows(self, connection: Connection, target: Target, rows: Rows, *, upserts: bool) -> None:
        """Send each column as one array, which takes a fraction of the time of many parameters."""
        if any(each.type not in ARRAY_TYPES for each in target.columns):
            super().insert_rows(connection, target, rows, upserts=upserts)
            return
        columns = ", ".join(self.quote(each.name) for each in target.columns)
        arrays = ", ".join(f"%s::{ARRAY_TYPES[each.type]}[]" for each in target.columns)
        statement = f"INSERT INTO {self.table(target.table)} ({columns}) SELECT * FROM unnest({arrays})"
        if upserts:
            statement += f" {self.upsert_clause(target)}"
        connection.exec_driver_sql(statement, tuple(map(list, zip(*rows, strict=True))))

    def delete_rows(self, connection: Connection, target: Target, keys: Rows) -> None:
        if any(each.type not in ARRAY_TYPES for each in target.keys):
            super().delete_rows(connection, target, keys)
            return
        names = ", ".join(self.quote(each.name) for each in target.keys)
        arrays = ", ".join(f"%s::{ARRAY_TYPES[each.type]}[]" for each in target.keys)
        statement = (
            f"DELETE FROM {self.table(target.table)} WHERE ({names}) IN (SELECT * FROM unnest({arrays}))"
        )
        connection.exec_driver_sql(statement, tuple(map(list, zip(*keys, strict=True))))

    def is_passing(self, error: BaseException | None) -> bool:
        """Locks and resources that lack pass; psycopg calls values too long for an index operational too."""
        state = getattr(error, "sqlstate", None) or ""
        if state.startswith(LIMIT_EXCEEDED):
            return False
        return super().is_passing(error) or state == LOCK_NOT_AVAILABLE
