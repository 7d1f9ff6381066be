"""MySQL and MariaDB by PyMySQL."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.connect.connectors.sql.dialects.dialect import KINDS, Column, Dialect, Rows, Target
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.data.logical import DATE_NAME, TIME_NAME, TIMESTAMP_NAME
from penstock.connect.data.schema import Type

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

SESSION: Final = """
SET time_zone = '+00:00', sql_mode = CONCAT_WS(',', NULLIF(@@sql_mode, ''), 'STRICT_ALL_TABLES')
"""
TABLES: Final = """
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_type IN (%s, %s) AND table_schema = coalesce(DATABASE(), table_schema)
AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') ORDER BY 1, 2
"""
COLUMNS: Final = """
SELECT column_name, data_type, column_type, numeric_precision, numeric_scale, is_nullable, column_key, extra
FROM information_schema.columns
WHERE table_schema = coalesce(%s, DATABASE()) AND table_name = %s ORDER BY ordinal_position
"""
MYSQL_KINDS: Final = {
    **KINDS,
    "float": "real",
    "timestamp": "timestamptz",  # a moment, shown in the zone of the session
    **dict.fromkeys(("tinytext", "mediumtext", "longtext", "set", "inet6", "inet4"), "text"),
    **dict.fromkeys(("tinyblob", "mediumblob", "longblob", "bit"), "bytes"),
    "year": "integer",
}
UNLIMITED: Final = frozenset({"LONGTEXT", "LONGBLOB", "JSON"})
WIDER: Final = {"tinyint": "smallint", "smallint": "integer", "integer": "bigint", "bigint": "numeric"}
"""Kinds that hold the numbers of unsigned columns."""
BIGINT_DIGITS: Final = 20
PASSING_CODES: Final = frozenset(
    {
        *(1021, 1114, 1180, 1927, 1969, 3024),
        *(1040, 1041, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1205, 1206, 1213, 1226, 1290, 1317, 1836),
        *range(2000, 2062),
    }
)
"""Full disks, timeouts, too many connections, shutdown, locks, deadlocks, read only, errors of the client."""
TYPE_CODES: Final = {
    0: "numeric",
    1: "tinyint",
    2: "smallint",
    3: "integer",
    4: "real",
    5: "double",
    7: "timestamptz",
    8: "bigint",
    9: "integer",
    10: "date",
    11: "time",
    12: "timestamp",
    13: "integer",
    16: "bytes",
    245: "json",
    246: "numeric",
}
"""Kinds by the codes of types in the protocol; all others are text or bytes."""
UNSIGNED: Final = 32
NOT_NULL: Final = 1
BINARY_CHARSET: Final = 63


class MySQL(Dialect):
    """MySQL and MariaDB; sessions have the time zone UTC."""

    types: ClassVar[dict[Type | str, str]] = {
        Type.INT8: "TINYINT",
        Type.INT16: "SMALLINT",
        Type.INT32: "INT",
        Type.INT64: "BIGINT",
        Type.FLOAT32: "FLOAT",
        Type.FLOAT64: "DOUBLE",
        Type.BOOLEAN: "TINYINT",
        Type.STRING: "LONGTEXT",
        Type.BYTES: "LONGBLOB",
        Type.STRUCT: "JSON",
        DATE_NAME: "DATE",
        TIME_NAME: "TIME(3)",
        TIMESTAMP_NAME: "DATETIME(3)",
    }
    decimal: ClassVar[str] = "DECIMAL(65,{})"
    key_types: ClassVar[dict[Type, str]] = {Type.STRING: "VARCHAR(256)", Type.BYTES: "VARBINARY(256)"}
    exact_text: ClassVar[str] = "VARCHAR({}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    folds_case: ClassVar[bool] = True

    def prepare(self, engine: Engine) -> None:
        """Let moments arrive in UTC, and values that do not fit be errors, as JDBC's driver does."""
        from sqlalchemy import event

        def connected(connection: Any, record: object) -> None:
            with connection.cursor() as cursor:
                cursor.execute(SESSION)

        event.listen(engine, "connect", connected)

    def tables(self, connection: Connection, types: Sequence[str]) -> list[TableName]:
        kinds = ("BASE TABLE" if "TABLE" in types else "", "VIEW" if "VIEW" in types else "")
        found = connection.exec_driver_sql(TABLES, kinds)
        return [TableName(name, catalog=database) for database, name in found]

    def columns(self, connection: Connection, table: TableName) -> list[Column]:
        rows = connection.exec_driver_sql(COLUMNS, (table.catalog or table.schema, table.name))
        return [_column(*row) for row in rows]

    def columns_of_query(self, connection: Connection, query: str) -> list[Column]:
        result = connection.exec_driver_sql(f"SELECT * FROM ({self.literal(query)}) AS query LIMIT 0")
        cursor: Any = result.cursor
        found = [_column_of_field(each) for each in cursor._result.fields]
        result.close()
        return found

    def default(self, literal: str, column_type: str) -> str:
        """Put it in parentheses for types without a limit: MySQL takes no plain literals for these."""
        return f"DEFAULT ({literal})" if column_type in UNLIMITED else super().default(literal, column_type)

    def now(self, connection: Connection) -> datetime.datetime:
        """The clock in whole seconds, as most columns: rows of the running second may still come."""
        found: datetime.datetime = connection.exec_driver_sql("SELECT UTC_TIMESTAMP()").scalar_one()
        return found.replace(tzinfo=datetime.UTC)

    def moment(self, value: datetime.datetime, column: Column, zone: datetime.tzinfo) -> Any:
        into = datetime.UTC if column.kind == "timestamptz" else zone
        return value.astimezone(into).replace(tzinfo=None)

    def moment_of(self, stored: Any, column: Column, zone: datetime.tzinfo) -> datetime.datetime:
        return super().moment_of(stored, column, datetime.UTC if column.kind == "timestamptz" else zone)

    def upsert_clause(self, target: Target) -> str:
        names = [self.quote(each.name) for each in target.others or target.keys]
        return "ON DUPLICATE KEY UPDATE " + ", ".join(f"{name} = VALUES({name})" for name in names)

    def delete_rows(self, connection: Connection, target: Target, keys: Rows) -> None:
        """Delete many rows by one statement: the driver sends the others one by one."""
        names = ", ".join(self.quote(each.name) for each in target.keys)
        marker = f"({', '.join(self.placeholders(len(target.keys)))})"
        size = self.parameters_max // len(target.keys)
        for first in range(0, len(keys), size):
            some = keys[first : first + size]
            markers = ", ".join([marker] * len(some))
            statement = f"DELETE FROM {self.table(target.table)} WHERE ({names}) IN ({markers})"
            connection.exec_driver_sql(statement, tuple(value for key in some for value in key))

    def is_passing(self, error: BaseException | None) -> bool:
        """Judge by the number: PyMySQL calls many errors of rows operational."""
        code = next(iter(getattr(error, "args", ())), None)
        return code == 0 or code in PASSING_CODES


def _column(
    name: str,
    type_name: str,
    full_type: str,
    precision: int | None,
    scale: int | None,
    nullable: str,
    key: str,
    extra: str,
) -> Column:
    kind = MYSQL_KINDS.get(type_name, "any")
    if "unsigned" in full_type and kind in WIDER:
        kind = WIDER[kind]
        precision, scale = (BIGINT_DIGITS, 0) if kind == "numeric" else (precision, scale)
    return Column(
        name=name,
        kind=kind,
        type=type_name,
        nullable=nullable == "YES",
        precision=precision,
        scale=scale,
        is_key=key == "PRI",
        increments="auto_increment" in extra,
    )


def _column_of_field(field: Any) -> Column:
    """The column for a field of PyMySQL's protocol."""
    kind = TYPE_CODES.get(field.type_code)
    if kind is None:
        kind = "bytes" if field.charsetnr == BINARY_CHARSET else "text"
    if field.flags & UNSIGNED and kind in WIDER:
        kind = WIDER[kind]
    precision = scale = None
    if kind == "numeric":
        scale = field.scale
        precision = field.length - (1 if scale else 0) - (0 if field.flags & UNSIGNED else 1)
    return Column(
        name=field.name,
        kind=kind,
        nullable=not field.flags & NOT_NULL,
        precision=precision,
        scale=scale,
    )
