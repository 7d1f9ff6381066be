"""Tables of Delta and Iceberg under edits: rows, new columns, and the batch that a query has applied."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.arrow.table_rows import fitted
from penstock.extras import MissingExtra
from penstock.spark import DeltaTarget, Edit, IcebergTarget, TargetTable

FIRST = pa.schema([("id", pa.int64()), ("n", pa.int16()), ("v", pa.string())])
KEYS = ("id", "n")


def edit(
    schema: pa.Schema, put: list[tuple[Any, ...]], removed: Any = (), *, everything: bool = False
) -> Edit:
    rows = [dict(zip(schema.names, row, strict=True)) for row in put]
    gone = [dict(zip(KEYS, each, strict=True)) for each in removed]
    identity = pa.schema([schema.field(name) for name in KEYS])
    return Edit(
        KEYS,
        pa.Table.from_pylist(rows, schema=schema),
        pa.Table.from_pylist(gone, schema=identity),
        everything,
    )


@pytest.mark.parametrize(
    ("given", "kind", "fits"),
    [
        (pa.array([0.5, None, float("nan"), float("inf")]), pa.float32(), True),
        (pa.array([0.1]), pa.float32(), False),
        (pa.array([0.1, None], pa.float32()), pa.float64(), True),
        (pa.array([Decimal("0.1")]), pa.float64(), True),
        (pa.array([Decimal("12345678901234567.1")]), pa.float64(), False),
        (pa.array([0.125]), pa.decimal128(10, 2), False),
        (pa.array([2**53 + 1]), pa.float64(), False),
        (pa.array([None, None]), pa.float64(), True),
    ],
)
def test_values_fit_a_column_or_are_refused(given: pa.Array, kind: pa.DataType, fits: bool) -> None:
    columns = pa.schema([("x", kind)])
    if fits:
        assert fitted(pa.table({"x": given}), columns).num_rows == len(given)
    else:
        with pytest.raises(ValueError, match="the column 'x' has the type"):
            fitted(pa.table({"x": given}), columns)


@pytest.fixture(params=["deltalake", "pyiceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TargetTable:
    pytest.importorskip(request.param, reason="the extra with this package is not installed")
    if request.param == "deltalake":
        return DeltaTarget(str(tmp_path / "table"), partition_by=["n"])
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    return IcebergTarget("lake.inventory.orders", catalog_properties=properties)


def rows(table: TargetTable, *ids: int) -> list[tuple[Any, ...]]:
    """Return all rows, or those with these ids; a table may return more."""
    found = table.rows("id", pa.array(ids, pa.int64()) if ids else None).to_pylist()
    return sorted(tuple(row.values()) for row in found if not ids or row["id"] in ids)


def test_edits_of_a_table(table: TargetTable) -> None:
    assert (table.columns(), table.applied("query")) == (None, None)
    table.write(edit(FIRST, [(1, 1, "a"), (1, 2, "b"), (2, 1, None)]), "query", 0)
    assert table.applied("query") == 0
    assert rows(table, 1) == [(1, 1, "a"), (1, 2, "b")]

    table.write(edit(FIRST, [(1, 2, "c"), (3, 1, "d")], [(2, 1), (9, 9)]), "query", 1)
    assert rows(table) == [(1, 1, "a"), (1, 2, "c"), (3, 1, "d")]
    assert (table.applied("query"), table.applied("another")) == (1, None)

    wider = FIRST.append(pa.field("w", pa.float64()))
    table.write(edit(wider, [(1, 1, "e", 0.5)]), "another", 7)
    assert rows(table) == [(1, 1, "e", 0.5), (1, 2, "c", None), (3, 1, "d", None)]
    columns = table.columns()
    assert columns is not None
    assert columns.names == ["id", "n", "v", "w"]

    table.write(edit(wider, [(4, 1, "f", None)], everything=True), "query", 2)
    assert rows(table) == [(4, 1, "f", None)]
    assert (table.applied("query"), table.applied("another")) == (2, 7)


@pytest.mark.parametrize("package", ["deltalake", "pyiceberg"])
def test_missing_packages_name_their_extra(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.catalog", None)
    with pytest.raises(MissingExtra, match=r"penstock\[(delta|iceberg)\]"):
        DeltaTarget("t") if package == "deltalake" else IcebergTarget("lake.inventory.orders")


def test_iceberg_tables_are_in_a_namespace() -> None:
    pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")
    with pytest.raises(
        ValueError, match=r"found the Iceberg table 'orders': expected catalog.namespace.table"
    ):
        IcebergTarget("orders")


def test_a_batch_of_iceberg_is_not_repeated_if_two_drivers_write_it(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg", reason="the extra iceberg is not installed")
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    first = IcebergTarget("lake.inventory.orders", catalog_properties=properties)
    first.write(edit(FIRST, [(1, 1, "a")]), "query", 0)

    class Late(IcebergTarget):
        """A driver that lives on after it was replaced: its successor commits before it."""

        def _commit(self, table: Any, edit: Edit, writer: str, batch: int) -> None:
            if first.applied(writer) != batch:
                first.write(edit, writer, batch)
            super()._commit(table, edit, writer, batch)

    late = Late("lake.inventory.orders", catalog_properties=properties)
    late.write(edit(FIRST, [(2, 1, "b")]), "query", 1)
    assert rows(late) == [(1, 1, "a"), (2, 1, "b")]
