"""DuckDB's answers to those generated queries that are plain relational ones: the final rows."""

from __future__ import annotations

import re
from typing import Any

import duckdb
from record_cases import RecordCase, values_of
from record_runner import analyzed

from penstock.sql.analysis import plan as p
from penstock.sql.catalog import Role

Rows = list[tuple[Any, ...]]

# ksqlDB's expressions in DuckDB's words: nulls in sums and texts, integer division, order of arrival.
_MEANINGS = (
    (r"SUM\((\w+)\)", r"coalesce(sum(\1), 0)"),
    (r"COLLECT_LIST\((\w+)\)", r"list(\1 ORDER BY n)"),
    (r"EARLIEST_BY_OFFSET\((\w+)\)", r"first(\1 ORDER BY n) FILTER (\1 IS NOT NULL)"),
    (r"LATEST_BY_OFFSET\((\w+)\)", r"last(\1 ORDER BY n) FILTER (\1 IS NOT NULL)"),
    (r"word \+ '!'", r"coalesce(word, 'null') || '!'"),
    (r" / ", r" // "),
    (r"UCASE\(", r"upper("),
    # LIKE of null is an error in ksqlDB: the whole condition is not true, even if its other part is.
    (r"(word LIKE '\S+') OR", r"\1 OR word IS NOT NULL AND"),
)


def duckdb_rows(case: RecordCase) -> Rows:
    """The rows of the one query of a case over the stream S, in any order."""
    catalog, _ = analyzed(case.sql)
    source = catalog.source("S")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE s (n INT, id INT, a INT, b BIGINT, word VARCHAR, flag BOOLEAN)")
    columns = tuple(column for column in source.columns if column.role is Role.VALUE)
    for number, record in enumerate(case.inputs):
        values = values_of(record.value, columns)
        if values is not None:
            key = values_of(record.key, source.keys) or (None,)
            connection.execute("INSERT INTO s VALUES (?, ?, ?, ?, ?, ?)", [number, *key, *values])
    return [_plain(row) for row in connection.execute(_query(case.sql)).fetchall()]


def _query(sql: str) -> str:
    query = sql.split(" AS SELECT ", 1)[1].rstrip(";")
    by = re.search(r" GROUP BY (\w+)", query)
    if by is not None:  # nulls are in no group
        also = f"{by[1]} IS NOT NULL"
        query = (
            query.replace(" WHERE ", f" WHERE {also} AND (").replace(" GROUP BY", ") GROUP BY")
            if " WHERE " in query
            else query.replace(" GROUP BY", f" WHERE {also} GROUP BY")
        )
    for pattern, meaning in _MEANINGS:
        query = re.sub(pattern, meaning, query)
    if by is None:  # ksqlDB's comparisons with null are false
        query = re.sub(r", (.*?) AS z FROM", lambda found: f", {_z(found[1])} AS z FROM", query)
    return f"SELECT {query}"


def _z(expressions: str) -> str:
    """Make the last expression of the list false where it is null."""
    head, separator, last = expressions.rpartition(" AS y, ")
    return f"{head}{separator}coalesce({last}, false)"


def rows_in_the_end(case: RecordCase, *, by_key: bool) -> Rows:
    """The final rows of the records: all of a stream, the last of each key of a table."""
    _, plans = analyzed(case.sql)
    root = plans[0][0].root
    assert isinstance(root, p.Sink)
    columns = tuple(column for column in root.target.columns if column.role is Role.VALUE)
    found: dict[Any, tuple[Any, ...] | None] = {}
    for number, record in enumerate(case.outputs):
        key = values_of(record.key, root.target.keys) or (None,)
        values = values_of(record.value, columns)
        found[record.key if by_key else number] = None if values is None else (*key, *values)
    return [_plain(row) for row in found.values() if row is not None]


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)
