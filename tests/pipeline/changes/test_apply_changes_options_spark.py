"""The options of `apply_changes`, each on a few changes written by hand."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark import TargetTable, apply_changes, read_changes

pytestmark = [pytest.mark.spark, pytest.mark.long]

Change = tuple[str, dict[str, Any] | None, dict[str, Any] | None, int]
"""The operation, the row before, the row after, and the source's position."""
Apply = Callable[..., list[dict[str, Any]]]


def envelope(change: Change) -> bytes:
    op, before, after, lsn = change
    source = {"lsn": lsn, "ts_ms": lsn * 1000, "table": "t"}
    return json.dumps({"op": op, "before": before, "after": after, "source": source}).encode()


def put(lsn: int, identity: int, **cells: Any) -> Change:
    return "u", None, {"id": identity, **cells}, lsn


def delete(lsn: int, identity: int) -> Change:
    return "d", {"id": identity}, None, lsn


def at(lsn: int) -> datetime:
    return datetime.fromtimestamp(lsn, UTC)


class Pipe:
    """A topic of changes, and a query from it that runs until it has read everything."""

    def __init__(
        self, spark: SparkSession, servers: str, topic: str, produce: Callable[..., None], path: Path
    ) -> None:
        self.spark, self._servers, self._topic, self._produce, self._path = (
            spark,
            servers,
            topic,
            produce,
            path,
        )
        self.source_options: dict[str, str] = {}

    def send(self, *changes: Change) -> None:
        self.send_values(*map(envelope, changes))

    def send_values(self, *values: bytes | None) -> None:
        self._produce(self._topic, list(values), key="k")

    def records(self) -> DataFrame:
        reader = self.spark.readStream.format("penstock").option("kafka.bootstrap.servers", self._servers)
        reader = reader.option("subscribe", self._topic).option("startingOffsets", "earliest")
        return reader.options(**self.source_options).load()

    def run(self, table: Any, **options: Any) -> None:
        apply_changes(
            read_changes(self.records()),
            table,
            keys=options.pop("keys", "id"),
            checkpoint_location=self._path / "checkpoint",
            trigger={"availableNow": True},
            **options,
        ).awaitTermination()


@pytest.fixture
def pipe(
    spark: SparkSession,
    servers: str,
    make_topic: Callable[..., str],
    produce: Callable[..., None],
    tmp_path: Path,
) -> Pipe:
    return Pipe(spark, servers, make_topic(), produce, tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> TargetTable:
    pytest.importorskip("deltalake", reason="the extra delta is not installed")
    from penstock.spark import DeltaTarget

    return DeltaTarget(str(tmp_path / "table"))


def rows(table: TargetTable) -> list[dict[str, Any]]:
    found = table.rows("id", None).to_pylist()
    return sorted(found, key=lambda row: (row["id"], str(row.get("__START_AT"))))


def test_columns_of_json_without_schemas_are_inferred(pipe: Pipe, table: TargetTable) -> None:
    deletes = {"apply_as_deletes": "after.late = 7"}
    pipe.send(put(1, 1, name="a", late=None), put(2, 2, name=None, size=1))
    pipe.run(table, **deletes)
    pipe.send(put(3, 2, name="b", size=2, tags=["x"], late=5), delete(4, 1))
    pipe.send_values(None)
    pipe.run(table, **deletes)
    assert rows(table) == [{"id": 2, "name": "b", "size": 2, "tags": ["x"], "late": 5}]


def test_columns_of_json_without_schemas_as_given(pipe: Pipe, table: TargetTable) -> None:
    pipe.send(put(1, 1, price="0.10", day="2024-02-29", other=1))
    pipe.run(table, row_schema="id INT, price DECIMAL(10, 2), day DATE")
    [row] = rows(table)
    assert {name: str(value) for name, value in row.items()} == {
        "id": "1",
        "price": "0.10",
        "day": "2024-02-29",
    }
    pipe.send(put(2, 1, price="many"))
    with pytest.raises(StreamingQueryException, match=r"(?i)malformed"):
        pipe.run(table, row_schema="id INT, price DECIMAL(10, 2), day DATE")


def test_truncates_without_other_changes(pipe: Pipe, table: TargetTable) -> None:
    pipe.send(("t", None, None, 1))
    pipe.run(table)
    assert table.columns() is None
    pipe.send(put(2, 1, v="a"))
    pipe.run(table)
    assert rows(table) == [{"id": 1, "v": "a"}]
    pipe.send(("t", None, None, 3))
    pipe.run(table)
    assert rows(table) == []


def test_a_session_in_another_time_zone(pipe: Pipe, table: TargetTable) -> None:
    zone = str(pipe.spark.conf.get("spark.sql.session.timeZone"))
    pipe.spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        pipe.send(put(1, 1, seen="2024-02-29T12:00:00.5Z"), put(2, 1, seen="2024-02-29T12:00:01+01:00"))
        pipe.run(table, row_schema="id INT, seen TIMESTAMP", stored_as_scd_type=2)
    finally:
        pipe.spark.conf.set("spark.sql.session.timeZone", zone)
    found = [(row["seen"], row["__START_AT"], row["__END_AT"]) for row in rows(table)]
    assert found == [
        (datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC), at(1), at(2)),
        (datetime(2024, 2, 29, 11, 0, 1, tzinfo=UTC), at(2), None),
    ]


def test_avro(pipe: Pipe, table: TargetTable) -> None:
    row = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": "string"}],
    }
    source = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": ["null", "long"]}]}
    schema = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Row"]},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }

    def encoded(op: str, before: Any, after: Any) -> bytes:
        out = BytesIO()
        value = {"op": op, "before": before, "after": after, "source": {"lsn": 1}, "ts_ms": 5}
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
        return out.getvalue()

    pipe.source_options = {"valueFormat": "avro", "valueSchema": json.dumps(schema)}
    pipe.send_values(encoded("r", None, {"id": 1, "v": "a"}), encoded("c", None, {"id": 2, "v": "b"}), None)
    pipe.send_values(encoded("d", {"id": 1, "v": ""}, None), encoded("u", None, {"id": 2, "v": "c"}))
    pipe.run(table)
    assert rows(table) == [{"id": 2, "v": "c"}]


def test_a_function_gets_the_last_change_of_each_row(pipe: Pipe) -> None:
    batches: list[tuple[int, list[dict[str, Any]]]] = []

    def write(changes: DataFrame, batch: int) -> None:
        batches.append((batch, [row.asDict() for row in changes.orderBy("_change", "id").collect()]))

    pipe.send(put(1, 1, v="a"), put(2, 1, v="b"), put(3, 2, v="c"), delete(4, 2))
    pipe.run(write)
    pipe.send(put(5, 3, v="d"), ("t", None, None, 6), put(7, 4, v="__debezium_unavailable_value"))
    pipe.run(write)
    assert batches == [
        (0, [{"_change": "delete", "id": 2, "v": None}, {"_change": "put", "id": 1, "v": "b"}]),
        (
            1,
            [
                {"_change": "put", "id": 4, "v": "__debezium_unavailable_value"},
                {"_change": "truncate", "id": None, "v": None},
            ],
        ),
    ]


def test_late_changes_by_sequence(pipe: Pipe, table: TargetTable) -> None:
    pipe.send(put(5, 1, v="new"), put(3, 1, v="old"), put(4, 2, v="x"))
    pipe.run(table, sequence_by="source.lsn")
    pipe.send(put(4, 1, v="late"), delete(3, 2), put(6, 3, v="y"))
    pipe.run(table, sequence_by="source.lsn")
    assert rows(table) == [
        {"id": 1, "v": "new", "__SEQUENCE": 5},
        {"id": 2, "v": "x", "__SEQUENCE": 4},
        {"id": 3, "v": "y", "__SEQUENCE": 6},
    ]


def test_a_sequence_for_a_table_that_has_none(pipe: Pipe, table: TargetTable) -> None:
    pipe.send(put(5, 1, v="a"), put(5, 2, v="b"))
    pipe.run(table)
    pipe.send(put(4, 1, v="c"))
    pipe.run(table, sequence_by="source.lsn")
    assert rows(table) == [{"id": 1, "v": "c", "__SEQUENCE": 4}, {"id": 2, "v": "b", "__SEQUENCE": None}]


def test_values_that_debezium_did_not_have(pipe: Pipe, table: TargetTable) -> None:
    schema = "id INT, t STRING, b BINARY, l ARRAY<STRING>, m MAP<STRING, STRING>"
    absent = "__debezium_unavailable_value"
    pipe.send(put(1, 1, t="a", b="fw==", l=["x"], m={"k": "v"}), put(2, 2))
    pipe.run(table, row_schema=schema)
    encoded = base64.b64encode(absent.encode()).decode()
    pipe.send(*(put(3, each, t=absent, b=encoded, l=[absent], m={absent: absent}) for each in (1, 2, 3)))
    pipe.run(table, row_schema=schema)
    assert rows(table) == [
        {"id": 1, "t": "a", "b": b"\x7f", "l": ["x"], "m": [("k", "v")]},
        *({"id": each, "t": None, "b": None, "l": None, "m": None} for each in (2, 3)),
    ]


def test_late_changes_of_the_history(pipe: Pipe, table: TargetTable) -> None:
    options = {"stored_as_scd_type": 2, "sequence_by": F.struct("source.ts_ms", "source.lsn")}
    pipe.send(put(5, 1, v="c"), put(1, 1, v="a"))
    pipe.run(table, **options)
    pipe.send(put(3, 1, v="b"), delete(7, 1), put(5, 1, v="c"))
    pipe.run(table, **options)
    times = {lsn: {"ts_ms": lsn * 1000, "lsn": lsn} for lsn in (1, 3, 5, 7)}
    assert rows(table) == [
        {"id": 1, "v": "a", "__START_AT": times[1], "__END_AT": times[3]},
        {"id": 1, "v": "b", "__START_AT": times[3], "__END_AT": times[5]},
        {"id": 1, "v": "c", "__START_AT": times[5], "__END_AT": times[7]},
    ]


def test_history_of_some_columns(pipe: Pipe, table: TargetTable) -> None:
    options = {"stored_as_scd_type": "2", "track_history_except_column_list": ["seen"]}
    pipe.send(put(1, 1, v="a", seen=1), put(2, 1, v="a", seen=2))
    pipe.run(table, **options)
    pipe.send(put(3, 1, v="a", seen=3), put(4, 1, v="b", seen=4))
    pipe.run(table, **options)
    assert rows(table) == [
        {"id": 1, "v": "a", "seen": 3, "__START_AT": at(1), "__END_AT": at(4)},
        {"id": 1, "v": "b", "seen": 4, "__START_AT": at(4), "__END_AT": None},
    ]


def test_conditions_that_delete_and_truncate(pipe: Pipe, table: TargetTable) -> None:
    options = {"apply_as_deletes": "after.gone", "apply_as_truncates": F.col("after.id") == 0}
    pipe.send(put(1, 1, gone=False), put(2, 2, gone=False), put(3, 1, gone=True))
    pipe.run(table, **options)
    assert rows(table) == [{"id": 2, "gone": False}]
    pipe.send(put(4, 0, gone=None), put(5, 3, gone=None))
    pipe.run(table, **options)
    assert rows(table) == [{"id": 3, "gone": None}]


@pytest.mark.parametrize("options", [{"column_list": ["id", "v"]}, {"except_column_list": ["secret"]}])
def test_columns_of_the_table(pipe: Pipe, table: TargetTable, options: dict[str, Any]) -> None:
    pipe.send(put(1, 1, v="a", secret="s"))
    pipe.run(table, **options)
    assert rows(table) == [{"id": 1, "v": "a"}]


def test_nulls_that_change_nothing(pipe: Pipe, table: TargetTable) -> None:
    pipe.send(put(1, 1, v="a", w=1), put(2, 2, v="b", w=2))
    pipe.run(table, ignore_null_updates=True)
    pipe.send(put(3, 1, v=None, w=3), delete(4, 2), put(5, 2, v=None, w=4), put(6, 1, v="c", w=None))
    pipe.run(table, ignore_null_updates=True)
    assert rows(table) == [{"id": 1, "v": "c", "w": 3}, {"id": 2, "v": None, "w": 4}]


def test_several_keys(pipe: Pipe, table: TargetTable) -> None:
    pipe.send(put(1, 1, k="a", v=1), put(2, 1, k="b", v=2), put(3, 2, k="a", v=3))
    pipe.run(table, keys=["id", "k"])
    pipe.send(put(4, 1, k="b", v=4), ("d", {"id": 1, "k": "a"}, None, 5))
    pipe.run(table, keys=["id", "k"])
    assert rows(table) == [{"id": 1, "k": "b", "v": 4}, {"id": 2, "k": "a", "v": 3}]


@pytest.mark.parametrize(
    ("change", "options", "problem"),
    [
        (put(1, 1), {"keys": "no"}, "the rows of the changes have no columns \\['no'\\]"),
        (("u", None, {"id": None, "v": 1}, 1), {}, "the key 'id' is null in 1 changes"),
        (put(1, 1), {"sequence_by": "source.gtid"}, "2 of 2 changes have no sequence"),
        (put(1, 1, __START_AT=1), {}, "columns \\['__START_AT'\\], which a table of changes adds itself"),
    ],
)
def test_changes_that_cannot_be_applied(
    pipe: Pipe, table: TargetTable, change: Change, options: dict[str, Any], problem: str
) -> None:
    pipe.send(put(0, 1, v=1), change)
    with pytest.raises(StreamingQueryException, match=problem):
        pipe.run(table, **options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"keys": []}, "keys: found none"),
        ({"stored_as_scd_type": 3}, "stored_as_scd_type: found 3"),
        ({"column_list": ["v"]}, "keys: \\['id'\\] are not among the columns"),
        (
            {"column_list": ["id"], "except_column_list": ["v"]},
            "found both column_list and except_column_list",
        ),
        ({"track_history_column_list": ["v"]}, "expected stored_as_scd_type=2"),
    ],
)
def test_options_that_contradict(
    pipe: Pipe, table: TargetTable, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        pipe.run(table, **options)


def test_targets_of_other_kinds(pipe: Pipe) -> None:
    with pytest.raises(ValueError, match="table: found 'hudi:/tmp/t', expected delta:PATH or iceberg:"):
        pipe.run("hudi:/tmp/t")
    with pytest.raises(ValueError, match="expected a table, found a function"):
        pipe.run(print, stored_as_scd_type=2)
    records = pipe.spark.createDataFrame([(1,)], "value INT")
    with pytest.raises(ValueError, match="the column value has the type int"):
        read_changes(records)


def test_the_example_of_the_page(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("deltalake", reason="the extra delta is not installed")
    page = (Path(__file__).parents[3] / "docs" / "apply-changes.md").read_text()
    [(example, printed)] = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    exec(compile(example, "apply-changes.md", "exec"), {})
    assert capsys.readouterr().out.endswith(printed)
