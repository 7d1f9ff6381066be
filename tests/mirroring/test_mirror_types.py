"""A mirror keeps values of all of PostgreSQL's types, the same ones from a snapshot and from the stream."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from recorded_cases import HERE, type_cases

from penstock.demo.capture.postgres import Postgres, PostgresMissing

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

VALUES_MAX = 12
"""Values of each type that are tried: one in each row of the table."""
INSERTED, MOVED = 1000, 2000
"""What is added to the ids of rows that come from the stream, and whose key changes."""
TIMEOUT_S = 400


def test_rows_of_all_types(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    pytest.importorskip("deltalake")
    try:
        server = Postgres()
    except PostgresMissing as error:
        pytest.skip(str(error))
    with server, psycopg.connect(server.url, autocommit=True) as session:
        # the types, without the tables that follow them
        session.execute((HERE / "tables.sql").read_text().partition("create table keyed")[0])
        columns = make_table(session)
        # The row is so wide that values are stored outside of it, of which some types have no mark.
        session.execute("alter table t.wide replica identity full")
        before = mirrored(server, tmp_path)
        assert sorted(before) == [*range(VALUES_MAX)]
        names = ", ".join(columns)
        session.execute(f"insert into t.wide (id, {names}) select id + {INSERTED}, {names} from t.wide")
        session.execute(f"update t.wide set id = id + {MOVED} where id < {VALUES_MAX}")
        after = mirrored(server, tmp_path)
    assert len(after) == 2 * VALUES_MAX
    for name, kind in columns.items():
        for number in range(VALUES_MAX):
            values = [before[number], after[INSERTED + number], after[MOVED + number]]
            # NaN is not equal to itself
            shown = {repr(each.get(name)) for each in values}
            assert len(shown) == 1, (kind, shown)


def make_table(session: Any) -> dict[str, str]:
    """Make a table with a column for each type, and one row for each of the values; returns the columns."""
    import psycopg

    session.execute("create schema t; create table t.wide (id int primary key)")
    session.execute(f"insert into t.wide select generate_series(0, {VALUES_MAX - 1})")
    columns = {}
    for number, (kind, values) in enumerate(type_cases()):
        name = f"v{number}"
        session.execute(f"alter table t.wide add {name} {kind}")
        columns[name] = kind
        for row, value in enumerate(values[:VALUES_MAX]):
            try:
                session.execute(f"update t.wide set {name} = {value} where id = {row}")
            except psycopg.errors.DatatypeMismatch:
                session.execute(f"update t.wide set {name} = ({value})::{kind} where id = {row}")
    assert len(columns) > 100
    return columns


def mirrored(server: Postgres, path: Path) -> dict[int, dict[str, Any]]:
    """Let a mirror catch up; returns the rows of its table by id."""
    from deltalake import DeltaTable

    words = ["cdc", "mirror", server.url, "--to", f"delta:{path / 'lake'}", "--tables", "t.*", "--once"]
    command = [sys.executable, "-m", "penstock.cli.main", *words, "--state", str(path / "state")]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert found.returncode == 0, found.stdout + found.stderr
    rows = DeltaTable(str(path / "lake" / "t" / "wide")).to_pyarrow_table()
    ids = rows["id"].to_pylist()
    texts = {name: [str(cell) for cell in plain(rows[name])] for name in rows.column_names if name != "id"}
    return {key: {name: cells[at] for name, cells in texts.items()} for at, key in enumerate(ids)}


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return timestamps as numbers: Python has no values for some of PostgreSQL's."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64())
    if pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type):
        return column.cast(pa.list_(pa.int64()))
    return column
