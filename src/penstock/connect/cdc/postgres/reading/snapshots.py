"""Snapshots: all rows of the captured tables, as one transaction sees them, with Debezium's markers.

Differences from Debezium, on purpose: a partitioned table is read once, under the names that its changes
have (Debezium reads the rows again for each partition), tables that others inherit from are read without
those, and generated columns are left out, since the stream does not have them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from penstock.connect.cdc.notifications import NotificationSettings, Notifier
from penstock.connect.cdc.postgres.changes import RecordPlan
from penstock.connect.cdc.postgres.copy_text import read_row
from penstock.connect.cdc.postgres.events import EventWriter
from penstock.connect.cdc.postgres.kernels import copied_row, tuple_data
from penstock.connect.cdc.postgres.messages import Relation, RelationColumn
from penstock.connect.cdc.postgres.schemas import TableSchema
from penstock.connect.cdc.postgres.selection.filters import Filters
from penstock.connect.cdc.selection.lists import any_of
from penstock.connect.data.records import SourceRecord

log = logging.getLogger(__name__)

NO_NOTIFICATIONS: Final = NotificationSettings()

_TABLES_QUERY: Final = """
select c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relispartition,
       (select json_agg(json_build_array(a.attname, a.atttypid::int8, a.atttypmod) order by a.attnum)
        from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence = 'p'"""
_SNAPSHOT_QUERY: Final = """
select (extract(epoch from current_timestamp) * 1000000)::int8, txid_snapshot_xmax(txid_current_snapshot()),
       (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end
        - '0/0')::int8"""
_ISOLATION: Final = {
    "serializable": "serializable, read only, deferrable",
    "repeatable_read": "repeatable read, read only",
    "read_committed": "read committed, read only",
    "read_uncommitted": "read uncommitted, read only",
}
"""Debezium's isolation modes for snapshots without an exported one."""


class Table(NamedTuple):
    """A table that can be captured."""

    relation: Relation
    is_partitioned: bool
    is_partition: bool


class Moment(NamedTuple):
    """The time of a snapshot, the transaction id before which all is visible, and a position in the WAL."""

    time_us: int
    xid: int
    lsn: int


@dataclass(frozen=True)
class SnapshotSettings:
    """The tables that snapshots read, and users' SELECT statements that take the place of some."""

    is_included: Callable[[str], bool] = lambda name: True
    statements: Mapping[str, str] = field(default_factory=dict)
    isolation: str = _ISOLATION["serializable"]

    @staticmethod
    def of(properties: Mapping[str, str]) -> SnapshotSettings:
        """Read Debezium's properties. Raises ConfigInvalid."""
        name, overrides = "snapshot.include.collection.list", "snapshot.select.statement.overrides"
        included = properties.get(name, "")
        tables = [each.strip() for each in properties.get(overrides, "").split(",") if each.strip()]
        mode = properties.get("snapshot.isolation.mode", "serializable").lower()
        return SnapshotSettings(
            any_of(name, included) if included.strip() else lambda name: True,
            {table: properties[f"{overrides}.{table}"].rstrip("; \n") for table in tables},
            _ISOLATION.get(mode, _ISOLATION["serializable"]),
        )


def captured_tables(
    connection: psycopg.Connection[Any], filters: Filters, name: str | None = None
) -> list[Table]:
    """The tables that pass the filters, in the order in which snapshots read them.

    With a ``name``, as ``schema.table``, only the table of that name.
    """
    only = "" if name is None else " and n.nspname || '.' || c.relname = %s"
    rows = connection.execute(f"{_TABLES_QUERY}{only}".encode(), None if name is None else [name])
    tables = [_table(*row) for row in rows]
    chosen = [each for each in tables if filters.has_table(each.relation.schema, each.relation.name)]
    return sorted(chosen, key=lambda each: filters.rank(each.relation.schema, each.relation.name))


def tables_to_read(tables: Sequence[Table], by_root: bool) -> list[Table]:
    """The tables of a snapshot; ``by_root`` if changes of partitions have the partitioned table's name."""
    if by_root:
        return [each for each in tables if not each.is_partition]
    return [each for each in tables if not each.is_partitioned]


def begin_snapshot(connection: psycopg.Connection[Any], exported: str | None, isolation: str) -> Moment:
    """Begin the transaction of a snapshot: a slot's exported one, or the present state."""
    if exported is None:
        connection.execute(f"begin isolation level {isolation}".encode())
    else:
        connection.execute(b"begin isolation level repeatable read, read only")
        connection.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(exported)))
    row = connection.execute(_SNAPSHOT_QUERY.encode()).fetchone()
    assert row is not None
    return Moment(*row)


def snapshot_records(
    connection: psycopg.Connection[Any],
    tables: Sequence[Table],
    schema_of: Callable[[Relation, frozenset[str]], TableSchema | None],
    writer: EventWriter,
    settings: SnapshotSettings,
    notifications: NotificationSettings = NO_NOTIFICATIONS,
) -> Iterator[SourceRecord]:
    """The records of all rows, and notifications; the session is inside the snapshot's transaction."""
    told: list[SourceRecord] = []
    notifier = Notifier(notifications, writer.prefix, lambda: time.time_ns() // 1_000_000, told.append)
    notifier.initial("STARTED")
    for record in _row_records(connection, tables, schema_of, writer, settings, notifier):
        while told:
            yield writer.in_snapshot(told.pop(0), is_last=False)
        yield record
    notifier.initial("COMPLETED")
    while told:
        yield writer.in_snapshot(told.pop(0), is_last=True)


def _row_records(
    connection: psycopg.Connection[Any],
    tables: Sequence[Table],
    schema_of: Callable[[Relation, frozenset[str]], TableSchema | None],
    writer: EventWriter,
    settings: SnapshotSettings,
    notifier: Notifier,
) -> Iterator[SourceRecord]:
    chosen = [
        (each, table)
        for each in tables
        if settings.is_included(f"{each.relation.schema}.{each.relation.name}")
        and (table := schema_of(each.relation, frozenset())) is not None
    ]
    names = ",".join(f"{table.schema}.{table.table}" for _, table in chosen)
    held: tuple[RecordPlan, bytes, bool, bool] | None = None
    for number, (each, table) in enumerate(chosen):
        is_first, count, name = True, 0, f"{table.schema}.{table.table}"
        plan = writer.plan(table, len(each.relation.columns))
        notifier.initial("IN_PROGRESS", current_collection_in_progress=name, data_collections=names)
        for row in _rows(connection, each, settings):
            if held is not None:
                yield writer.snapshot_row(held[0], held[1], _marker(held[2], held[3], held[0] is not plan))
            held = (plan, row, is_first, number == 0)
            is_first, count = False, count + 1
        log.info("snapshot read table=%s rows=%s", name, count)
        ended = {"scanned_collection": name, "total_rows_scanned": str(count), "status": "SUCCEEDED"}
        notifier.initial("TABLE_SCAN_COMPLETED", data_collections=names, **ended)
    if held is not None:
        yield writer.snapshot_row(held[0], held[1], "last")


def _marker(is_first: bool, in_first_table: bool, is_last: bool) -> str:
    if is_first and in_first_table:
        return "first"
    if is_last:
        return "last_in_data_collection"
    return "first_in_data_collection" if is_first else "true"


def _rows(connection: psycopg.Connection[Any], table: Table, settings: SnapshotSettings) -> Iterator[bytes]:
    """The rows as TupleData with the columns of the relation."""
    relation = table.relation
    names = [each.name for each in relation.columns]
    statement = settings.statements.get(f"{relation.schema}.{relation.name}")
    if statement is None:
        query: sql.Composable = sql.SQL("select {} from {} {}").format(
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL("" if table.is_partitioned else "only"),
            sql.Identifier(relation.schema, relation.name),
        )
        places: list[int] | None = None
    else:
        query = sql.SQL(statement)  # the user's own
        found = connection.execute(sql.SQL("select * from ({}) s limit 0").format(query)).description or ()
        by_name = {each.name: place for place, each in enumerate(found)}
        places = [by_name.get(name, -1) for name in names]
    with connection.cursor().copy(sql.SQL("copy ({}) to stdout").format(query)) as copy:
        for block in copy:
            if places is None:
                yield copied_row(block)
            else:
                row = read_row(str(block, "utf-8")[:-1])
                yield tuple_data([None if place < 0 else row[place] for place in places])


def _table(
    oid: int, schema: str, name: str, kind: str, is_partition: bool, columns: Sequence[Any] | None
) -> Table:
    made = tuple(
        RelationColumn(column, type_oid, modifier, False) for column, type_oid, modifier in columns or ()
    )
    return Table(Relation(oid, schema, name, "d", made, None), kind == "p", is_partition)
