"""Tables of Delta and Iceberg have each record once, whatever is read again, and follow schemas and keys."""

import datetime
import os
import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake_records import LakeChance, expected, without_nulls
from lake_sinks import IcebergTables, Tables, tables_of

from long_run import repetitions
from penstock.client.connections.metadata import TopicPartition
from penstock.connect import ConnectError, Schema, SinkTaskTest, Struct
from penstock.connect.connectors.lake.columns.row_buffer import FIRST_ROWS
from penstock.connect.connectors.lake.tables.pending import Batch
from penstock.connect.connectors.lake.tables.table_task import TableSinkTask
from penstock.connect.data.logical import decimal_schema, timestamp_schema
from penstock.connect.data.schema import INT64, OPTIONAL_INT32, OPTIONAL_STRING


@pytest.fixture(params=["deltalake", "pyiceberg"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    return tables_of(request.param, tmp_path)


def seeds(gate: int, long: int) -> range:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    return range(seed, seed + repetitions("PENSTOCK_RECORDS", gate=gate, long=long))


@pytest.mark.longer
def test_random_records_with_changing_schemas(tables: Tables) -> None:
    for seed in seeds(gate=1, long=12):
        chance, name = LakeChance(seed), f"t{seed}"
        model = []
        with SinkTaskTest(tables.task(), tables.config(name)) as test:
            number = 0
            for _ in range(repetitions("PENSTOCK_ROUNDS", gate=2, long=10)):
                for _ in range(chance.random.randint(1, 40)):
                    record = chance.record(number)
                    row = expected(record, chance.schema, times=tables.has_times)
                    test.add("records", record, schema=chance.schema, partition=number % 3)
                    model.append(without_nulls(row, has_null_lists=tables.has_null_lists))
                    number += 1
                test.step()
                if chance.random.random() < 0.5:
                    test.commit()
                if chance.random.random() < 0.3:
                    test.restart(tables.task())  # what was not committed in the group comes again
                chance.change_schema()
            test.commit()
        rows = (without_nulls(row, has_null_lists=tables.has_null_lists) for row in tables.rows(name))
        found = sorted(rows, key=lambda row: row["id"])
        assert found == model, f"PENSTOCK_SEED={seed}"


@pytest.mark.longer
def test_random_changes_by_key(tables: Tables) -> None:
    for seed in seeds(gate=1, long=12):
        chance, name = random.Random(seed), f"k{seed}"
        schema = Schema.struct({"a": INT64, "b": OPTIONAL_STRING, "v": OPTIONAL_INT32, "op": OPTIONAL_STRING})
        key_schema = Schema.struct({"a": INT64, "b": OPTIONAL_STRING})
        model: dict[tuple[int, str], dict[str, Any]] = {}
        config = tables.config(name, "a,b", **tables.operation("op"))
        with SinkTaskTest(tables.task(), config) as test:
            for _ in range(repetitions("PENSTOCK_ROUNDS", gate=2, long=10)):
                for _ in range(chance.randint(1, 30)):
                    a, b = chance.randrange(6), chance.choice("xy")
                    kind = chance.choice("ccud0")
                    key = Struct(key_schema, {"a": a, "b": b})
                    row = {"a": a, "b": b, "v": chance.randrange(1000), "op": kind}
                    value = None if kind == "0" else Struct(schema, row)
                    test.add(
                        "changes",
                        value,
                        key=key,
                        key_schema=key_schema,
                        schema=None if value is None else schema,
                        partition=a % 2,
                    )
                    if kind in "d0":
                        model.pop((a, b), None)
                    else:
                        model[a, b] = row
                test.step()
                if chance.random() < 0.5:
                    test.commit()
                if chance.random() < 0.3:
                    test.restart(tables.task())
            test.commit()
        found = {(row["a"], row["b"]): row for row in tables.rows(name)}
        assert found == model, f"PENSTOCK_SEED={seed}"
        assert len(tables.rows(name)) == len(model)


def test_partitions_of_any_values(tables: Tables) -> None:
    config = tables.config("parts", **tables.partitioned_by("p"))
    values = ["a b/%=é", "", "plain", None, "'"]
    with SinkTaskTest(tables.task(), config) as test:
        for number, value in enumerate(values * 2):
            test.add("numbers", {"n": number, "p": value})
        test.step()
    found = {row["n"]: row["p"] or None for row in tables.rows("parts")}  # Delta takes "" for null there
    assert found == {number: value or None for number, value in enumerate(values * 2)}


def test_a_record_replaces_all_columns_of_its_row(tables: Tables) -> None:
    with SinkTaskTest(tables.task(), tables.config("replaced", "id")) as test:
        test.put("rows", {"id": 1, "a": 1})
        test.put("rows", {"id": 1, "b": 2})
    assert tables.rows("replaced") == [{"id": 1, "a": None, "b": 2}]


def test_several_tasks_share_a_table(tables: Tables) -> None:
    config = tables.config("shared")
    with SinkTaskTest(tables.task(), config) as one, SinkTaskTest(tables.task(), config) as other:
        for number in range(3):
            one.put("numbers", {"n": number}, partition=0)
            other.put("numbers", {"n": 100 + number}, partition=1)
        one.commit()
        other.commit()
        assert one.committed("numbers", 0) == other.committed("numbers", 1) == 3
    assert sorted(row["n"] for row in tables.rows("shared")) == [*range(3), *range(100, 103)]


def test_tasks_that_commit_at_once_keep_the_offsets_of_each_other(tables: Tables) -> None:
    def write(partition: int) -> None:
        with SinkTaskTest(tables.task(), tables.config("at_once")) as test:
            for number in range(2):
                test.put("numbers", {"n": number}, partition=partition)
            while test.committed("numbers", partition) != 2:
                test.step()
                test.commit()

    with SinkTaskTest(tables.task(), tables.config("at_once")) as test:
        test.put("numbers", {"n": 0}, partition=9)  # the table exists before both write
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, (0, 1)))
    connector, config = tables.connector(), tables.config("at_once")
    for partition in (0, 1):
        with pytest.raises(ConnectError, match="below offset 2"):
            connector.alter_offsets(config, {TopicPartition("numbers", partition): 0})
    assert sorted(row["n"] for row in tables.rows("at_once")) == sorted([0, *range(2), *range(2)])


def test_a_task_that_was_replaced_writes_nothing_twice(tables: Tables) -> None:
    config = tables.config("replaced")
    with SinkTaskTest(tables.task(), config) as old, SinkTaskTest(tables.task(), config) as new:
        old.put("numbers", {"n": 0})
        for number in range(4):
            new.put("numbers", {"n": number})  # the first one is skipped
        old.put("numbers", {"n": 1})  # nothing happens, the table has it
        for number in (2, 3, 4):
            old.add("numbers", {"n": number})
        old.step()  # the table has some of these: the task reads them again
        assert old.committed("numbers") == 2
        old.step()
        new.put("numbers", {"n": 4})
    assert sorted(row["n"] for row in tables.rows("replaced")) == [0, 1, 2, 3, 4]


def test_rows_wait_for_the_interval(tables: Tables) -> None:
    interval = (
        "iceberg.control.commit.interval-ms"
        if isinstance(tables, IcebergTables)
        else "delta.commit.interval.ms"
    )
    config = tables.config("waiting", **{interval: "3600000"})
    with SinkTaskTest(tables.task(), config) as test:
        test.put("numbers", {"n": 1})
        test.commit()
        assert test.committed("numbers") in (None, 0)
        assert not tables.exists("waiting")
        test.restart(tables.task())
        test.step()
        test.commit()
        assert test.committed("numbers") in (None, 0)
    config["buffer.max.bytes"] = "1"
    with SinkTaskTest(tables.task(), config) as test:
        for number in range(FIRST_ROWS):
            test.add("numbers", {"n": number})
        while test.committed("numbers") != FIRST_ROWS:
            test.step()
            test.commit()
    assert len(tables.rows("waiting")) == FIRST_ROWS


def test_bad_records_are_reported_and_others_written(tables: Tables) -> None:
    config = tables.config("good", **{"errors.tolerance": "all"})
    with SinkTaskTest(tables.task(), config) as test:
        for value in (
            {"n": 1, "s": {"x": 1}},
            {"n": "text", "s": None},
            5,
            None,
            {"n": 2, "s": {"x": "text"}},
        ):
            test.add("mixed", value)
        test.add("mixed", {"n": 3})
        test.step()
        test.commit()
        assert test.committed("mixed") == 6
        bad = {repr(record.value) for record in test.failed}
    assert bad == {"5", "None", "{'n': 'text', 's': None}", "{'n': 2, 's': {'x': 'text'}}"}
    assert sorted(row["n"] for row in tables.rows("good")) == [1, 3]


def test_offsets_before_those_of_the_table_are_refused(tables: Tables) -> None:
    config = tables.config("numbers")
    with SinkTaskTest(tables.task(), config) as test:
        test.put("numbers", {"n": 1})
        test.put("numbers", {"n": 2})
    connector = tables.connector()
    assert connector.alter_offsets(config, {TopicPartition("numbers", 0): 2})
    for offset in (1, None):
        with pytest.raises(ConnectError, match=f"below offset 2.*{tables.app_id}"):
            connector.alter_offsets(config, {TopicPartition("numbers", 0): offset})
    assert connector.alter_offsets({**config, tables.app_id: "again"}, {TopicPartition("numbers", 0): None})


def test_values_at_limits_name_partitions_of_delta(tmp_path: Path) -> None:
    tables = tables_of("deltalake", tmp_path)
    types = {"n": INT64, "d": decimal_schema(10), "t": timestamp_schema()}
    config = tables.config("limits", **tables.partitioned_by("d,t"))
    times = [datetime.datetime(year, 1, 2, tzinfo=datetime.UTC) for year in (1, 2024, 9999)]
    rows = [
        {"n": 1, "d": Decimal(number).scaleb(-10), "t": at}
        for number, at in zip((0, 1, -(10**27)), times, strict=True)
    ]
    with SinkTaskTest(tables.task(), config) as test:
        for row in rows:
            schema = Schema.struct(types)
            test.add("a", Struct(schema, row), schema=schema)
        test.step()
    assert sorted(tables.rows("limits"), key=lambda row: row["t"]) == rows


def test_all_columns_cannot_be_partition_columns(tmp_path: Path) -> None:
    tables = tables_of("deltalake", tmp_path)
    config = tables.config("all", **tables.partitioned_by("p"))
    with pytest.raises(ConnectError, match="partitioned by all"), SinkTaskTest(tables.task(), config) as test:
        test.put("a", {"p": 1})
    assert not tables.exists("all")
    import deltalake

    kind = pa.schema([("p", pa.int64())])
    deltalake.DeltaTable.create(str(tmp_path / "all"), kind, partition_by=["p"])
    with pytest.raises(ConnectError, match="all columns"), SinkTaskTest(tables.task(), config) as test:
        test.put("a", {"p": 1})


def test_route_values_that_name_no_table_are_reported(tmp_path: Path) -> None:
    tables = tables_of("pyiceberg", tmp_path)
    more = {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "to"}
    with SinkTaskTest(tables.task(), {**tables.config("x", **more), "errors.tolerance": "all"}) as test:
        for to in ("lake.good", "lake", "a/../../b.c", "lake./x", "..", "lake.é b"):
            test.add("a", {"to": to})
        test.step()
        assert len(test.failed) == 5
    assert tables.rows("good") == [{"to": "lake.good"}]


def test_a_partition_that_goes_back_fails_the_task(tables: Tables) -> None:
    """As a consumer does whose topic was deleted and created again: the new records are not in the table."""
    task = tables.task()
    with SinkTaskTest(task, tables.config("again")) as test:
        for number in range(2):
            test.put("numbers", {"n": number})
        task.context.seek({TopicPartition("numbers", 0): 0})
        with pytest.raises(ConnectError, match="goes on at offset 0, expected 2 or more"):
            test.step()


def test_partitions_that_are_read_again_lack_no_row_of_another_table(tmp_path: Path) -> None:
    """One partition goes while a batch waits; the other is set back to what any of the tables lacks."""
    tables = tables_of("pyiceberg", tmp_path)
    assert isinstance(tables, IcebergTables)
    more = {
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "to",
        "iceberg.control.commit.interval-ms": "3600000",
    }
    task = tables.task()
    with SinkTaskTest(task, tables.config("x", **more)) as test:
        for partition, to in ((1, "lake.one"), (0, "lake.two"), (0, "lake.one")):
            test.add("a", {"to": to}, partition=partition)
        test.step()
        assert isinstance(task, TableSinkTask)
        task._tables["lake.one"]._batch = Batch([], {TopicPartition("a", 0): range(1, 2)})
        task.close([TopicPartition("a", 1)])
        assert task.pre_commit({TopicPartition("a", 0): 2}) == {TopicPartition("a", 0): 0}
