"""Reads chunks of a table in the order of its key, and the moment at which each chunk is true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from penstock.connect.cdc.postgres.catalog import RELATION_QUERY, Catalog
from penstock.connect.cdc.postgres.copy_text import read_row
from penstock.connect.cdc.postgres.incremental.visibility import Visibility
from penstock.connect.cdc.postgres.reading.publications import publishes_by_root
from penstock.connect.cdc.postgres.reading.settings import CaptureSettings
from penstock.connect.cdc.postgres.reading.snapshots import Table, captured_tables, tables_to_read
from penstock.connect.cdc.postgres.schemas import TableSchema
from penstock.connect.cdc.signals.progress import DataCollection, Key

_WHOLE_NUMBERS: Final = frozenset({20, 21, 23, 26})
_BOOLEAN: Final = 16
_SNAPSHOT_VERSION: Final = 130000
"""``pg_current_snapshot`` and WITH TIES exist since PostgreSQL 13."""


class Moment(NamedTuple):
    """The transactions that a chunk shows, and a position after the commits of all of them."""

    visibility: Visibility
    high: int


class KeyColumn(NamedTuple):
    """A column to read by: its place in rows, its name and type, and whether it may be null."""

    place: int
    name: str
    type_oid: int
    not_null: bool


class ChunkTable(NamedTuple):
    """A table that is read in chunks. ``is_unique`` if no two rows have the same values in ``by``."""

    table: Table
    schema: TableSchema
    by: tuple[KeyColumn, ...]
    is_unique: bool

    def key(self, row: Sequence[str | None]) -> Key:
        """The values to read by, of a row."""
        return tuple(_value(each, row[each.place]) for each in self.by)


def known_tables(connection: psycopg.Connection[Any], settings: CaptureSettings) -> list[Table]:
    """All tables that can be read."""
    by_root = publishes_by_root(connection, settings.publication, settings.properties)
    return tables_to_read(captured_tables(connection, settings.filters), by_root)


def find_table(
    connection: psycopg.Connection[Any], settings: CaptureSettings, collection: DataCollection
) -> ChunkTable | None:
    """The table as it is now, with no columns to read by if it has no key; None if there is no such table.

    The primary key is read by, also if records have another key: ``message.key.columns`` may repeat.
    """
    found = captured_tables(connection, settings.filters, collection.name)
    with_schemas = settings.catalog_reader(lambda: connection)
    if not found or (schema := with_schemas.schema_of(found[0].relation, frozenset())) is None:
        return None
    relation = found[0].relation
    rows = list(connection.execute(RELATION_QUERY.encode(), [relation.oid]))
    facts = Catalog.of_rows((), rows).tables[relation.oid]
    is_unique = bool(facts.key) and collection.surrogate_key is None
    names = facts.key or [each.name for each in schema.keys]
    if collection.surrogate_key is not None:
        names = (collection.surrogate_key,)
    places = {each.name: place for place, each in enumerate(relation.columns)}
    if not all(name in places for name in names):
        names = ()
    by = tuple(
        KeyColumn(
            *(places[name], name, relation.columns[places[name]].type_oid, facts.columns[name].not_null)
        )
        for name in names
    )
    return ChunkTable(found[0], schema, by, is_unique and all(each.not_null for each in by))


def begin(connection: psycopg.Connection[Any], table: ChunkTable | None = None) -> Moment:
    """Begin a transaction that sees one moment, and keep a table as it is until its end.

    Without the lock, a table that ALTER TABLE rewrites after the moment would be empty in this transaction.
    """
    has_snapshot = connection.info.server_version >= _SNAPSHOT_VERSION
    function = "pg_current_snapshot" if has_snapshot else "txid_current_snapshot"
    connection.execute(b"begin isolation level repeatable read, read only")
    if table is not None:
        relation = table.table.relation
        name = sql.Identifier(relation.schema, relation.name)
        connection.execute(sql.SQL("lock table {} in access share mode").format(name))
    row = connection.execute(
        f"""select {function}()::text, (case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                                         else pg_current_wal_insert_lsn() end - '0/0')::int8""".encode()
    ).fetchone()
    assert row is not None
    return Moment(Visibility.of(row[0]), row[1])


def maximum_key(connection: psycopg.Connection[Any], table: ChunkTable, condition: str) -> Key | None:
    """The key of the last row; None if there is no row."""
    query = _select(
        *(table, [each.name for each in table.by], _where(connection, table, condition)),
        descending=True,
        limit=1,
    )
    row = next(_copied(connection, query), None)
    if row is None:
        return None
    return tuple(_value(each, text) for each, text in zip(table.by, row, strict=True))


def read_chunk(
    connection: psycopg.Connection[Any],
    table: ChunkTable,
    condition: str,
    after: Key | None,
    maximum: Key,
    size: int,
) -> Iterator[list[str | None]]:
    """The next rows after a key, in the order of keys and none after the maximum."""
    wanted = [sql.SQL("not {}").format(_greater(table.by, maximum)), *_where(connection, table, condition)]
    if after is not None:
        wanted.append(_greater(table.by, after))
    names = [each.name for each in table.table.relation.columns]
    return _copied(connection, _select(table, names, wanted, limit=size))


def read_all(
    connection: psycopg.Connection[Any], table: ChunkTable, statement: str
) -> Iterator[list[str | None]]:
    """All rows, or those of the user's statement, with a text for each column of the relation."""
    names = [each.name for each in table.table.relation.columns]
    if not statement:
        return _copied(connection, _select(table, names, []))
    source = sql.SQL("({}\n) s").format(sql.SQL(statement.rstrip("; \n")))
    _check(connection, source)
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    return _copied(connection, sql.SQL("select {} from {}").format(columns, source))


def _select(
    table: ChunkTable,
    names: Sequence[str],
    wanted: Sequence[sql.Composable],
    descending: bool = False,
    limit: int = 0,
) -> sql.Composable:
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    query: sql.Composable = sql.SQL("select {} from {}").format(columns, _source(table))
    if wanted:
        query += sql.SQL(" where ") + sql.SQL(" and ").join(wanted)
    if limit:
        order = sql.SQL(" desc" if descending else "")
        query += sql.SQL(" order by ") + sql.SQL(", ").join(
            sql.Identifier(each.name) + order for each in table.by
        )
        # Rows with the same key must be in one chunk, since the next one begins after that key.
        ties = "only" if table.is_unique or descending else "with ties"
        query += sql.SQL(f" fetch first {limit} rows {ties}")
    return query


def _source(table: ChunkTable) -> sql.Composable:
    relation = table.table.relation
    only = sql.SQL("" if table.table.is_partitioned else "only")
    return sql.SQL("{} {}").format(only, sql.Identifier(relation.schema, relation.name))


def _where(connection: psycopg.Connection[Any], table: ChunkTable, condition: str) -> list[sql.Composable]:
    if not condition.strip():
        return []
    wanted = sql.SQL("({}\n)").format(sql.SQL(condition))  # a comment ends at the end of the line
    _check(connection, sql.SQL("{} where {}").format(_source(table), wanted))
    return [wanted]


def _check(connection: psycopg.Connection[Any], source: sql.Composable) -> None:
    """Let the server parse the user's SQL on its own. Raises psycopg.Error.

    The text must not close the parentheses around it: COPY could then run a program on the server, and more
    statements might follow. With binary results, the server accepts only one statement.
    """
    connection.execute(sql.SQL("select from {} limit 0").format(source), binary=True)


def _greater(by: Sequence[KeyColumn], key: Key) -> sql.Composable:
    """The condition that a row comes after a key; null comes last."""
    names = [sql.Identifier(each.name) for each in by]
    values = [sql.Literal(_text(each)) for each in key]
    if all(each.not_null for each in by):
        return sql.SQL("(({}) > ({}))").format(sql.SQL(", ").join(names), sql.SQL(", ").join(values))
    cases = []
    for place, value in enumerate(key):
        equal = [
            sql.SQL("{} is null").format(name) if each is None else sql.SQL("{} = {}").format(name, literal)
            for name, literal, each in zip(names[:place], values, key, strict=False)
        ]
        greater: sql.Composable = sql.SQL("false")
        if value is not None:
            greater = sql.SQL("({0} > {1} or {0} is null)").format(names[place], values[place])
        cases.append(sql.SQL("({})").format(sql.SQL(" and ").join([*equal, greater])))
    return sql.SQL("coalesce({}, false)").format(sql.SQL("(") + sql.SQL(" or ").join(cases) + sql.SQL(")"))


def _copied(connection: psycopg.Connection[Any], query: sql.Composable) -> Iterator[list[str | None]]:
    with connection.cursor().copy(sql.SQL("copy ({}) to stdout").format(query)) as copy:
        for block in copy:
            yield read_row(str(block, "utf-8")[:-1])


def _value(column: KeyColumn, text: str | None) -> Any:
    if text is None:
        return None
    if column.type_oid in _WHOLE_NUMBERS:
        return int(text)
    return text == "t" if column.type_oid == _BOOLEAN else text


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
