"""SQLite: its columns hold any value, so times are text, and the declared type says what is meant."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.connect.connectors.sql.dialects.dialect import KINDS, Column, Dialect, Target
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.data.logical import DATE_NAME, TIME_NAME, TIMESTAMP_NAME, timestamp_of
from penstock.connect.data.schema import Type

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

VIEW: Final = "penstock_query"
MOMENT: Final = "penstock_moment"
"""The SQL function that turns stored times into text that sorts by time."""
AFFINITIES: Final = (
    *(("int", "bigint"), ("char", "text"), ("clob", "text"), ("text", "text"), ("blob", "bytes")),
    *(("real", "double"), ("floa", "double"), ("doub", "double"), ("num", "numeric"), ("dec", "numeric")),
)
"""Kinds by parts of declared types, in the order of SQLite's own rules."""
PRIMARY_CODE: Final = 0xFF
"""The part of SQLite's error codes that says what kind of error it is."""
PASSING_CODES: Final = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL),
        *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN),
    }
)
"""A locked file, and errors of the disk."""
EXACT: Final = {"boolean", "date", "time", "timestamp", "timestamptz", "json"}
"""Kinds that SQLite does not know, but users declare."""


class SQLite(Dialect):
    """SQLite by Python's own module."""

    types: ClassVar[dict[Type | str, str]] = {
        **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), "INTEGER"),
        Type.FLOAT32: "REAL",
        Type.FLOAT64: "REAL",
        Type.BOOLEAN: "BOOLEAN",
        Type.STRING: "TEXT",
        Type.BYTES: "BLOB",
        Type.STRUCT: "TEXT",
        DATE_NAME: "DATE",
        TIME_NAME: "TIME",
        TIMESTAMP_NAME: "TIMESTAMP",
    }
    decimal: ClassVar[str] = "NUMERIC(38,{})"
    reads_block_writes: ClassVar[bool] = True

    def prepare(self, engine: Engine) -> None:
        """Add the function that compares times."""
        from sqlalchemy import event

        def connected(connection: Any, record: object) -> None:
            connection.create_function(MOMENT, 1, _sortable, deterministic=True)

        event.listen(engine, "connect", connected)

    def tables(self, connection: Connection, types: Sequence[str]) -> list[TableName]:
        kinds = [each.lower() for each in types if each in ("TABLE", "VIEW")]
        rows = connection.exec_driver_sql("SELECT type, name FROM sqlite_master ORDER BY name")
        return [TableName(name) for kind, name in rows if kind in kinds and not name.startswith("sqlite_")]

    def columns(self, connection: Connection, table: TableName) -> list[Column]:
        schema = f"{self.quote(table.schema)}." if table.schema else ""
        rows = list(connection.exec_driver_sql(f"PRAGMA {schema}table_info({self.quote(table.name)})"))
        keys = [row for row in rows if row[5]]
        return [
            _column(name, declared, nullable=not required and not place, is_key=bool(place), keys=len(keys))
            for _number, name, declared, required, _default, place in rows
        ]

    def columns_of_query(self, connection: Connection, query: str) -> list[Column]:
        connection.exec_driver_sql(f"CREATE TEMP VIEW {VIEW} AS SELECT * FROM ({query})")
        try:
            rows = connection.exec_driver_sql(f"PRAGMA temp.table_info({VIEW})")
            return [
                _column(name, declared, nullable=True, is_key=False, keys=0)
                for _number, name, declared, *_others in rows
            ]
        finally:
            connection.exec_driver_sql(f"DROP VIEW temp.{VIEW}")

    def now(self, connection: Connection) -> datetime.datetime:
        """The clock in whole seconds, as CURRENT_TIMESTAMP: rows of the running second may still come."""
        found = connection.exec_driver_sql("SELECT CURRENT_TIMESTAMP").scalar_one()
        return datetime.datetime.fromisoformat(found).replace(tzinfo=datetime.UTC)

    def moment_sql(self, column: str) -> str:
        return f"{MOMENT}({column})"

    def moment(self, value: datetime.datetime, column: Column, zone: datetime.tzinfo) -> Any:
        into = datetime.UTC if column.kind == "timestamptz" else zone
        return value.astimezone(into).strftime("%Y-%m-%d %H:%M:%S.%f")

    def moment_of(self, stored: Any, column: Column, zone: datetime.tzinfo) -> datetime.datetime:
        found = stored_moment(stored)
        assert found is not None, "NULL is no moment"
        into = datetime.UTC if column.kind == "timestamptz" else zone
        return found.replace(tzinfo=into).astimezone(datetime.UTC)

    def binder(self, kind: str) -> Callable[[Any], Any] | None:
        return str if kind in ("date", "time", "timestamp", "timestamptz") else _number

    def upsert_clause(self, target: Target) -> str:
        return self.on_conflict(target)

    def is_passing(self, error: BaseException | None) -> bool:
        """Judge by the code: SQLite calls wrong statements operational too."""
        return (getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE) in PASSING_CODES


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


def _column(name: str, declared: str, *, nullable: bool, is_key: bool, keys: int) -> Column:
    lower = declared.lower()
    base, _, sizes = lower.partition("(")
    kind = KINDS.get(base.strip(), "any")
    if kind not in EXACT:
        kind = next((found for part, found in AFFINITIES if part in lower), "any")
    digits = [int(each) for each in sizes.rstrip(") ").split(",") if each.strip().isdigit()]
    is_decimal = kind == "numeric" and digits
    return Column(
        name=name,
        kind=kind,
        type=lower,
        nullable=nullable,
        precision=digits[0] if is_decimal else None,
        scale=(digits[1] if len(digits) > 1 else 0) if is_decimal else None,
        is_key=is_key,
        increments=is_key and keys == 1 and base.strip() == "integer",
    )


def _sortable(stored: Any) -> str | None:
    found = stored_moment(stored)
    return None if found is None else found.strftime("%Y-%m-%d %H:%M:%S.%f")


def stored_moment(stored: Any) -> datetime.datetime | None:
    """A stored time without its zone: SQLite's text, or the milliseconds since 1970 that JDBC stores."""
    if stored is None:
        return None
    if isinstance(stored, int):
        return timestamp_of(stored).replace(tzinfo=None)
    found = datetime.datetime.fromisoformat(stored)
    return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)
