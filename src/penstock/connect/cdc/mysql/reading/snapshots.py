"""Snapshots: all rows of the captured tables, as one transaction sees them, with Debezium's markers.

MariaDB tells the place in its binary log that belongs to a consistent snapshot, so no table is locked. MySQL
does not: there, a global read lock is held until the transaction has begun, as Debezium does (``minimal``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.connect.cdc.mysql.catalog import TableCatalog
from penstock.connect.cdc.mysql.filters import Filters
from penstock.connect.cdc.mysql.reading.catalog_reader import CatalogReader
from penstock.connect.cdc.mysql.reading.server_state import ServerState, log_status, rows
from penstock.connect.cdc.mysql.records import RecordWriter
from penstock.connect.cdc.mysql.schemas import TableSchema
from penstock.connect.cdc.selection.lists import any_of
from penstock.connect.data.records import SourceRecord
from penstock.connect.errors import ConnectError

if TYPE_CHECKING:
    import pymysql

log = logging.getLogger(__name__)

_TABLES_QUERY: Final = (
    "select table_schema, table_name from information_schema.tables where table_type = 'BASE TABLE'"
)


@dataclass(frozen=True)
class SnapshotSettings:
    """The tables that snapshots read, and users' SELECT statements that take the place of some."""

    is_included: Callable[[str], bool] = lambda name: True
    statements: Mapping[str, str] = field(default_factory=dict)
    locks: bool = True

    @staticmethod
    def of(properties: Mapping[str, str]) -> SnapshotSettings:
        """Read Debezium's properties. Raises ConfigInvalid."""
        name, overrides = "snapshot.include.collection.list", "snapshot.select.statement.overrides"
        included = properties.get(name, "")
        tables = [each.strip() for each in properties.get(overrides, "").split(",") if each.strip()]
        return SnapshotSettings(
            any_of(name, included) if included.strip() else lambda name: True,
            {table: properties[f"{overrides}.{table}"].rstrip("; \n") for table in tables},
            properties.get("snapshot.locking.mode", "minimal").lower() != "none",
        )


def captured_tables(connection: pymysql.Connection[Any], filters: Filters) -> list[tuple[str, str]]:
    """The tables that pass the filters, in the order in which snapshots read them."""
    found = [(_text(database), _text(name)) for database, name in rows(connection, _TABLES_QUERY)]
    return sorted((each for each in found if filters.has_table(*each)), key=lambda each: filters.rank(*each))


def begin_snapshot(connection: pymysql.Connection[Any], is_maria: bool, locks: bool) -> ServerState:
    """Begin a transaction that sees one state, and return the place of that state in the binary log."""
    is_locked = locks and not is_maria
    with connection.cursor() as cursor:
        cursor.execute("set session transaction isolation level repeatable read")
        if is_locked:
            cursor.execute("flush tables with read lock")
        cursor.execute("start transaction with consistent snapshot")
        if is_maria:
            cursor.execute("show status like 'binlog_snapshot_%'")
            status = {_text(name): _text(value) for name, value in cursor.fetchall()}
            file, position = status["Binlog_snapshot_file"], int(status["Binlog_snapshot_position"])
            cursor.execute("select binlog_gtid_pos(%s, %s)", (file, position))
            gtids = cursor.fetchall()[0][0]
            return ServerState(True, file, position, None if gtids is None else _text(gtids))
    file, at, *more = log_status(connection)
    with connection.cursor() as cursor:
        if is_locked:
            cursor.execute("unlock tables")
    executed = _text(more[2]).replace("\n", "") if len(more) > 2 and more[2] else None
    return ServerState(False, _text(file), int(at), executed)


def snapshot_records(
    connection: pymysql.Connection[Any],
    tables: list[tuple[str, str]],
    catalog: CatalogReader,
    writer: RecordWriter,
    settings: SnapshotSettings,
    clock_us: Callable[[], int],
) -> Iterator[SourceRecord]:
    """The records of all rows; the session is inside the snapshot's transaction."""
    chosen = [each for each in tables if settings.is_included(".".join(each))]
    waiting: tuple[TableSchema, list[Any], bool] | None = None
    is_first = True
    time_us = clock_us() // 1_000_000 * 1_000_000
    for database, name in chosen:
        found = catalog.catalog_of(database, name)
        if found is None or not found.columns:
            raise ConnectError(
                f"the table {database}.{name} was dropped or renamed while the snapshot was read; "
                "restart the task to read another one"
            )
        schema = catalog.schema_of_catalog(found)
        query = settings.statements.get(f"{database}.{name}") or _query(database, name, schema, found)
        is_first_of_table = True
        for row in _rows(connection, query, schema, len(found.columns)):
            if waiting is not None:
                marker = _marker(is_first, waiting[2], waiting[0] is not schema)
                yield writer.snapshot(waiting[0], waiting[1], marker, time_us)
                is_first = False
            waiting = (schema, row, is_first_of_table)
            is_first_of_table = False
    if waiting is not None:
        yield writer.snapshot(waiting[0], waiting[1], "last", time_us)


def _marker(is_first: bool, is_first_of_table: bool, is_last_of_table: bool) -> str:
    if is_first:
        return "first"
    if is_first_of_table:
        return "first_in_data_collection"
    return "last_in_data_collection" if is_last_of_table else "true"


def _query(database: str, name: str, schema: TableSchema, catalog: TableCatalog) -> str:
    """All captured columns; FLOAT as a double, because its own text has only six digits."""
    columns = [
        f"{quoted(each.name)} * 1e0 as {quoted(each.name)}"
        if catalog.columns[each.index].data_type == "float"
        else quoted(each.name)
        for each in schema.columns
    ]
    return f"select {', '.join(columns)} from {quoted(database)}.{quoted(name)}"


def _rows(
    connection: pymysql.Connection[Any], query: str, schema: TableSchema, width: int
) -> Iterator[list[Any]]:
    """Raw rows; columns of a user's statement are found by their names."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        names = [_text(each[0]) for each in cursor.description]
        by_name = {each.name: each for each in schema.columns}
        columns = [by_name.get(name) for name in names]
        while texts := cursor.fetchmany(500):
            for each in texts:
                row: list[Any] = [None] * width
                for column, text in zip(columns, each, strict=True):
                    if column is not None and text is not None:
                        row[column.index] = column.raw_of_text(text)
                yield row


def quoted(name: str) -> str:
    """A name as SQL."""
    return "`" + name.replace("`", "``") + "`"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
