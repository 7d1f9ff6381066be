"""Values of Connect as Arrow columns, with and without schemas, and columns that become wider."""

import datetime
import os
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from lake_records import LakeChance, expected, without_nulls

from long_run import repetitions
from penstock.connect import DataError, Schema, Struct
from penstock.connect.connectors.lake.columns.arrays import table_of
from penstock.connect.connectors.lake.columns.arrow_types import ArrowTypes
from penstock.connect.connectors.lake.columns.inference import inferred
from penstock.connect.connectors.lake.columns.row_buffer import RowBuffer
from penstock.connect.connectors.lake.columns.widening import together, widened
from penstock.connect.data import schema as schemas
from penstock.connect.data.logical import decimal_schema, time_schema, timestamp_schema
from penstock.connect.data.records import SinkRecord

NOON = datetime.datetime(2024, 2, 3, 12, tzinfo=datetime.UTC)


@pytest.mark.longer
def test_random_values_are_the_same_in_arrow() -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = LakeChance(seed)
    for number in range(repetitions("PENSTOCK_RECORDS", gate=20, long=3000)):
        rows = [chance.record(number) for _ in range(chance.random.randint(1, 5))]
        table = table_of(chance.schema, rows, ArrowTypes())
        table.validate(full=True)
        found = [without_nulls(row) for row in table.to_pylist()]
        assert found == [without_nulls(expected(row, chance.schema)) for row in rows]
        chance.change_schema()


def test_defaults_fill_fields_without_a_value() -> None:
    schema = Schema.struct({"a": Schema(schemas.Type.INT32, optional=True, default=7)})
    rows = [Struct(schema), Struct(schema, {"a": 1})]
    assert table_of(schema, rows, ArrowTypes()).to_pylist() == [{"a": 7}, {"a": 1}]


def test_types_of_a_format() -> None:
    schema = Schema.struct({"t": time_schema(), "b": schemas.INT8, "m": timestamp_schema()})
    narrow = ArrowTypes(times=False, small_integers=False)
    assert narrow.columns_of(schema).types == [pa.int32(), pa.int32(), pa.timestamp("us", "UTC")]
    table = table_of(schema, [Struct(schema, {"t": datetime.time(0, 0, 1), "b": 1, "m": NOON})], narrow)
    assert table.to_pylist() == [{"t": 1000, "b": 1, "m": NOON}]


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (Schema.struct({}), Struct(Schema.struct({})), "without fields"),
        (schemas.INT64, 5, "expected a struct"),
        (Schema.struct({"d": decimal_schema(39)}), None, "at most 38 digits"),
        (Schema.struct({"d": decimal_schema(2)}), {"d": Decimal("1.5")}, "scale of its schema"),
        (Schema.struct({"n": schemas.INT32}), {"n": 1 << 40}, "does not fit its column"),
        (Schema.struct({"n": schemas.INT32}), {"n": "text"}, "does not fit its column"),
        (Schema.struct({"n": schemas.INT32}), "text", "expected a struct or a map"),
    ],
)
def test_values_without_a_row(schema: Schema, value: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        table_of(schema, [value], ArrowTypes())


def test_schemas_are_inferred_from_values() -> None:
    rows = [
        {"n": 1, "f": 1, "s": {"a": None, "b": [1]}, "none": None, "empty": []},
        {"n": None, "f": 1.5, "s": {"a": "x", "c": NOON}, "d": Decimal("1.50")},
    ]
    found = table_of(inferred(rows), rows, ArrowTypes())
    assert found.to_pylist() == [
        {"n": 1, "f": 1.0, "s": {"b": [1], "a": None, "c": None}, "d": None},
        {"n": None, "f": 1.5, "s": {"b": None, "a": "x", "c": NOON}, "d": Decimal("1.50")},
    ]
    bad: list[Any]
    for bad in ([{}], [{"a": None}], ["text"], [{"a": 1}, {"a": "x"}], [{"a": object()}]):
        with pytest.raises(DataError):
            inferred(bad)


def test_columns_become_wider() -> None:
    present = pa.schema([("n", pa.int32()), ("s", pa.struct([("x", pa.int8())])), ("gone", pa.string())])
    added = pa.schema(
        [("new", pa.date32()), ("s", pa.struct([("y", pa.string()), ("x", pa.int64())])), ("n", pa.int8())]
    )
    assert widened(present, added) == pa.schema(
        [
            ("n", pa.int32()),
            ("s", pa.struct([("x", pa.int64()), ("y", pa.string())])),
            ("gone", pa.string()),
            ("new", pa.date32()),
        ]
    )
    rows = together([pa.table({"n": pa.array([1], pa.int8())}), pa.table({"n": [1 << 40], "m": ["x"]})])
    assert rows.to_pylist() == [{"n": 1, "m": None}, {"n": 1 << 40, "m": "x"}]
    with pytest.raises(DataError, match=r"'s\.x' has the type int8, and new values have string"):
        widened(present, pa.schema([("s", pa.struct([("x", pa.string())]))]))


def test_large_records_become_columns_early() -> None:
    schema = Schema.struct({"b": schemas.BYTES})
    buffer = RowBuffer(ArrowTypes(), lambda record, error: None, lambda rows: None)
    record, large = SinkRecord(topic="a", offset=0), bytes(1 << 18)
    for _ in range(64 + 15):
        buffer.add(record, schema, {"b": large})
    assert buffer.nbytes > 79 << 18
    small = Schema.struct({"n": schemas.INT64})
    for number in range(64 + 2048):
        buffer.add(record, small, {"n": number})
    assert sum(table.num_rows for table in buffer.take()) == 79 + 64 + 2048
