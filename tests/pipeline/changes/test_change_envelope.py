"""Change records as texts that Spark's JSON reader takes, and types of their columns. No Spark session."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.spark.changes.envelope import _parse_batches
from penstock.spark.changes.row_types import OutOfRange, row_type, unscaled


def envelope_schema(*fields: dict[str, Any]) -> dict[str, Any]:
    row = {"type": "struct", "fields": list(fields), "optional": True}
    return {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}


def parsed(*values: Any, out_of_range: OutOfRange = "error") -> list[dict[str, Any]]:
    encoded = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in values]
    count = len(encoded)
    keys = [pa.nulls(count, pa.binary())] * 3
    batch = pa.record_batch(
        [encoded, *keys, ["t"] * count, pa.array([1] * count, pa.int32()), list(range(7, 7 + count))],
        names=["value", "key", "old_key", "new_key", "topic", "partition", "offset"],
    )
    [found] = _parse_batches(iter([batch]), out_of_range)
    return list(found.to_pylist())


def field(name: str, kind: str, logical: str | None = None, **others: Any) -> dict[str, Any]:
    found = {"field": name, "type": kind, "optional": True, **others}
    return found if logical is None else {**found, "name": logical}


@pytest.mark.parametrize(
    ("schema", "ddl", "given", "expected"),
    [
        (field("c", "int32", "io.debezium.time.Date"), "DATE", 19_000, "2022-01-08"),
        (field("c", "int32", "org.apache.kafka.connect.data.Date"), "DATE", -1, "1969-12-31"),
        (field("c", "int32", "io.debezium.time.Date"), "DATE", -735_160, "0001-01-01"),  # before Christ
        (
            field("c", "int64", "io.debezium.time.Timestamp"),
            "TIMESTAMP_NTZ",
            -735_160 * 86_400_000,
            "-0043-03-15T00:00:00.000",
        ),
        (field("c", "int32", "io.debezium.time.Date"), "DATE", -622_191_234, "0001-01-01"),  # infinity
        (field("c", "int32", "io.debezium.time.Date"), "DATE", 2_145_031_948, "9999-12-31"),
        (field("c", "int64", "io.debezium.time.Timestamp"), "TIMESTAMP_NTZ", 1, "1970-01-01T00:00:00.001"),
        (
            field("c", "int64", "io.debezium.time.MicroTimestamp"),
            "TIMESTAMP_NTZ",
            -1,
            "1969-12-31T23:59:59.999999",
        ),
        (
            field("c", "int64", "io.debezium.time.MicroTimestamp"),
            "TIMESTAMP_NTZ",
            9_223_372_036_825_200_000,  # infinity in PostgreSQL
            "294247-01-10T04:00:25.200000",
        ),
        (
            field("c", "int64", "io.debezium.time.NanoTimestamp"),
            "TIMESTAMP_NTZ",
            1_999,
            "1970-01-01T00:00:00.000001",
        ),
        (
            field("c", "string", "io.debezium.time.ZonedTimestamp"),
            "TIMESTAMP",
            "2024-02-29T12:00:00.5Z",
            "2024-02-29T12:00:00.5Z",
        ),
        (
            field("c", "string", "io.debezium.time.ZonedTimestamp"),
            "TIMESTAMP",
            "infinity",
            "294247-01-10T04:00:25.200000Z",
        ),
        (
            field("c", "string", "io.debezium.time.ZonedTimestamp"),
            "TIMESTAMP",
            "-infinity",
            "-290308-12-21T19:59:27.600000Z",
        ),
        (
            field("c", "string", "io.debezium.time.ZonedTimestamp"),
            "TIMESTAMP",
            "+294276-12-31T23:59:59.000000Z",  # PostgreSQL's last year is beyond Spark's
            "294247-01-10T04:00:25.200000Z",
        ),
        (
            field("c", "string", "io.debezium.time.ZonedTimestamp"),
            "TIMESTAMP",
            "+12345-12-31T23:59:59.000000Z",
            "+12345-12-31T23:59:59.000000Z",
        ),
        (field("c", "int64", "io.debezium.time.MicroTime"), "BIGINT", 5, 5),
        (
            field("c", "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"}),
            "DECIMAL(38, 2)",
            base64.b64encode(b"\xff\x85").decode(),
            "-1.23",
        ),
        (
            field(
                "c",
                "bytes",
                "org.apache.kafka.connect.data.Decimal",
                parameters={"scale": "-2", "connect.decimal.precision": "3"},
            ),
            "DECIMAL(5, 0)",
            "fw==",
            "12700",
        ),
        (
            field(
                "c",
                "bytes",
                "org.apache.kafka.connect.data.Decimal",
                parameters={"scale": "1", "connect.decimal.precision": "60"},
            ),
            "STRING",
            "fw==",
            "12.7",
        ),
        (
            field("c", "struct", "io.debezium.data.VariableScaleDecimal"),
            "STRING",
            {"scale": 3, "value": "fw=="},
            "0.127",
        ),
        (field("c", "bytes"), "BINARY", "fw==", "fw=="),
        (
            field("c", "array", items={"type": "int32", "name": "io.debezium.time.Date"}),
            "ARRAY<DATE>",
            [0, None],
            ["1970-01-01", None],
        ),
        (
            field("c", "map", values={"type": "int32", "name": "io.debezium.time.Date"}),
            "MAP<STRING, DATE>",
            {"k": 0},
            {"k": "1970-01-01"},
        ),
        (
            field("c", "struct", fields=[field("x", "double"), field("d", "int32", "io.debezium.time.Date")]),
            "STRUCT<`x`: DOUBLE, `d`: DATE>",
            {"x": 0.5, "d": 1},
            {"x": 0.5, "d": "1970-01-02"},
        ),
    ],
)
def test_columns_have_sparks_types(schema: dict[str, Any], ddl: str, given: Any, expected: Any) -> None:
    value = {
        "schema": envelope_schema(field("id", "int32"), schema),
        "payload": {"op": "c", "before": None, "after": {"id": 1, "c": given}, "source": {}},
    }
    [found] = parsed(value, out_of_range="nearest")
    assert found["row_type"] == f"`id` INT, `c` {ddl}"
    assert json.loads(found["after"]) == {"id": 1, "c": expected}
    assert found["before"] is None


@pytest.mark.parametrize(
    ("logical", "kind", "given"),
    [
        ("io.debezium.time.Date", "int32", 2_932_897),
        ("io.debezium.time.Date", "int32", -719_163),
        ("io.debezium.time.ZonedTimestamp", "string", "+294247-01-01T00:00:00.000000Z"),
    ],
)
def test_times_out_of_range(logical: str, kind: str, given: Any, caplog: pytest.LogCaptureFixture) -> None:
    value = {
        "schema": envelope_schema(field("due", kind, logical)),
        "payload": {"op": "c", "before": None, "after": {"due": given}, "source": {}},
    }
    with pytest.raises(ValueError, match=r"t-1 at offset 7 .*the column 'due' has the value"):
        parsed(value)
    parsed(value, value, out_of_range="nearest")
    assert len(caplog.records) == 1
    assert "'due'" in caplog.text


def test_texts_without_encoded_columns_stay_as_they_are() -> None:
    row = b'{"id": 12345678901234567890, "x": 0.10000000000000000000001, "t": "\\u00e9"}'
    [found] = parsed(b'{"op": "u", "before": ' + row + b', "after": ' + row + b', "ts_ms": 3}')
    assert found["before"] == found["after"] == row.decode()
    assert (found["ts_ms"], found["row_type"], found["source_text"]) == (3, None, None)


def test_numbers_beside_encoded_columns_keep_their_digits() -> None:
    schema = envelope_schema(field("x", "double"), field("d", "int32", "io.debezium.time.Date"))
    payload = b'{"op": "c", "after": {"x": 0.30000000000000004, "d": 0}}'
    [found] = parsed(b'{"schema": ' + json.dumps(schema).encode() + b', "payload": ' + payload + b"}")
    assert found["after"] == '{"x":0.30000000000000004,"d":"1970-01-01"}'


def test_messages_are_no_changes() -> None:
    kept = {"op": "c", "after": {"id": 1}}
    assert [found["offset"] for found in parsed(kept, {"op": "m", "message": {}}, kept)] == [7, 9]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"no JSON", "malformed"),
        (b'{"id": 1}', "it has no field 'op'"),
        (b'{"schema": {"type": "string"}, "payload": {"op": "c"}}', "without a struct 'before' or 'after'"),
        (b'{"op": 1}', "Expected `str"),
    ],
)
def test_other_records_are_refused_with_their_place(value: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=f"the record in t-1 at offset 7 is not a change .*{problem}"):
        parsed(value)


def test_unknown_types_are_refused() -> None:
    with pytest.raises(ValueError, match="found the type 'int128' in a schema"):
        row_type(envelope_schema(field("c", "int128")))


@pytest.mark.parametrize("number", ["0", "-1", "127", "-128", "128", "-129", "12345678901234567890123456789"])
def test_unscaled_values_of_any_length(number: str) -> None:
    value = int(number)
    data = value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True)
    assert unscaled(base64.b64encode(data).decode(), 4) == Decimal(f"{value}E-4")
