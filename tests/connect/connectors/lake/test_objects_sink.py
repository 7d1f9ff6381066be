"""Files of object stores: their names and folders, when they end, and that a crash repeats them exactly."""

import gzip
import json
import os
import random
from pathlib import Path

import duckdb
import pytest
from lake_records import LakeChance, Row, expected, without_nulls

from long_run import repetitions
from penstock.connect import ConfigInvalid, DataError, Schema, SinkTaskTest, Struct
from penstock.connect.connectors.lake.topic_folders import topic_folder
from penstock.connect.data.schema import INT64, OPTIONAL_INT64, OPTIONAL_STRING

pytest.importorskip("obstore", reason="the extra objects is not installed")

from penstock.connect.connectors.lake.objects import ObjectsSinkTask

FIRST = Schema.struct({"id": INT64}, name="row", version=1)
SECOND = Schema.struct({"id": INT64, "more": OPTIONAL_INT64}, name="row", version=2)


def config(folder: Path, **more: str) -> dict[str, str]:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    return {"store.url": folder.as_uri(), "flush.size": "3", **settings}


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def read_ids(folder: Path) -> list[int]:
    """Return the ids in all Parquet files, read by DuckDB."""
    found = duckdb.sql(f"SELECT id FROM read_parquet('{folder}/**/*.parquet', union_by_name=true)")
    assert found is not None
    return sorted(row[0] for row in found.fetchall())


def test_files_are_named_after_their_first_record(tmp_path: Path) -> None:
    with SinkTaskTest(ObjectsSinkTask(), config(tmp_path)) as test:
        for number in range(8):
            test.put("orders", {"id": number}, partition=1)
        test.commit()
        assert test.committed("orders", 1) == 6
        assert files(tmp_path) == [
            f"topics/orders/partition=1/orders+1+000000000{first}.snappy.parquet" for first in (0, 3)
        ]
        test.restart(ObjectsSinkTask())
        test.step()
        test.put("orders", {"id": 8}, partition=1)
        test.commit()
        assert test.committed("orders", 1) == 9
    assert read_ids(tmp_path) == list(range(9))


@pytest.mark.parametrize(
    ("settings", "expected_folders"),
    [
        (
            {
                "partitioner_class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
                "partition_field_name": "v",
            },
            ["v=0%2F%25", "v=1%2F%25"],
        ),
        (
            {
                "partitioner_class": "HourlyPartitioner",
                "timestamp_extractor": "Record",
                "timezone": "Europe/Berlin",
            },
            [
                f"year=2023/month=11/day={day}/hour={hour}"
                for day, hour in (("14", "23"), ("15", "00"), ("15", "01"))
            ],
        ),
        (
            {
                "partitioner_class": "TimeBasedPartitioner",
                "path_format": "'d'=YYYY-MM-dd-HH-mm",
                "partition_duration_ms": "7200000",
                "timestamp_extractor": "RecordField",
                "timestamp_field": "at",
            },
            ["d=2023-11-14-22-00", "d=2023-11-15-00-00"],
        ),
    ],
)
def test_folders(tmp_path: Path, settings: dict[str, str], expected_folders: list[str]) -> None:
    with SinkTaskTest(ObjectsSinkTask(), config(tmp_path, **settings)) as test:
        for number in range(3):
            at = 1_700_000_000_000 + number * 3_600_000
            test.put("a", {"id": number, "v": f"{number % 2}/%", "at": at}, timestamp_ms=at)
    found = {str(Path(path).parent.relative_to("topics/a")) for path in files(tmp_path)}
    assert sorted(found) == expected_folders
    assert read_ids(tmp_path) == [0, 1, 2]


def test_the_times_of_records_end_files(tmp_path: Path) -> None:
    given = config(tmp_path, flush_size="100", rotate_interval_ms="1000", timestamp_extractor="Record")
    with SinkTaskTest(ObjectsSinkTask(), given) as test:
        for time_ms in (5, 900, 1004, 1005, 1500, 2005):
            test.put("a", {"id": time_ms}, timestamp_ms=time_ms)
        test.commit()
        assert test.committed("a") == 5
    assert read_ids(tmp_path) == [5, 900, 1004, 1005, 1500]
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize(
    ("compatibility", "ended"), [("NONE", 2), ("BACKWARD", 1), ("FULL", 1), ("FORWARD", 0)]
)
def test_changes_of_the_schema(tmp_path: Path, compatibility: str, ended: int) -> None:
    given = config(tmp_path, flush_size="100", schema_compatibility=compatibility, errors_tolerance="all")
    versions = {"1": FIRST, "2": SECOND}
    with SinkTaskTest(ObjectsSinkTask(), given) as test:
        for number, version in enumerate("12211"):
            schema = versions[version]
            row = {"id": number} if version == "1" else {"id": number, "more": number}
            test.put("a", Struct(schema, row), schema=schema)
        test.commit()
        assert len(files(tmp_path)) == ended  # the last file stays open


def test_lines_of_json(tmp_path: Path) -> None:
    given = config(
        tmp_path, format_class="io.confluent.connect.s3.format.json.JsonFormat", s3_compression_type="gzip"
    )
    schema = Schema.struct({"id": INT64, "text": OPTIONAL_STRING})
    with SinkTaskTest(ObjectsSinkTask(), {**given, "topics.dir": ""}) as test:
        test.put("a", Struct(schema, {"id": 1}), schema=schema)
        test.put("a", {"id": 2})
        test.put("a", {"id": 3, "text": "é"})
        test.put("a", ["anything"])
        test.put("a", 5)
        test.put("a", True)
    # The first file ends with its schema; the last two records wait for a third.
    assert files(tmp_path) == [f"a/partition=0/a+0+000000000{first}.json.gz" for first in (0, 1)]
    lines = gzip.decompress((tmp_path / files(tmp_path)[-1]).read_bytes()).decode().splitlines()
    assert [json.loads(line) for line in lines] == [{"id": 2}, {"id": 3, "text": "é"}, ["anything"]]


def test_bad_records_are_reported(tmp_path: Path) -> None:
    given = config(
        tmp_path, errors_tolerance="all", partitioner_class="FieldPartitioner", partition_field_name="id"
    )
    with SinkTaskTest(ObjectsSinkTask(), {**given, "flush.size": "1"}) as test:
        for value in ({"id": 1}, {"other": 1}, None, "text", {"id": 2}):
            test.put("a", value)
        test.commit()
        assert test.committed("a") == 5
        assert [record.value for record in test.failed] == [{"other": 1}, None, "text"]
    assert read_ids(tmp_path) == [1, 2]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"store.url": "http://127.0.0.1:1"}, "s3.bucket.name"),
        ({"store.url": "nowhere://a"}, "cannot be opened"),
        ({"format.class": "OrcFormat"}, "expected ParquetFormat or JsonFormat"),
        ({"partitioner.class": "OwnPartitioner"}, "expected DefaultPartitioner"),
        ({"partitioner.class": "FieldPartitioner"}, "partition.field.name is empty"),
        ({"partitioner.class": "TimeBasedPartitioner"}, "needs path.format"),
        ({"partitioner.class": "DailyPartitioner", "timezone": "Mars"}, "timezone is 'Mars'"),
        ({"timestamp.extractor": "Own"}, "expected Wallclock"),
    ],
)
def test_settings_that_do_not_fit(tmp_path: Path, settings: dict[str, str], problem: str) -> None:
    with (
        pytest.raises(ConfigInvalid, match=problem),
        SinkTaskTest(ObjectsSinkTask(), {**config(tmp_path), **settings}),
    ):
        pass


@pytest.mark.longer
def test_crashes_repeat_no_record(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    for case in range(repetitions("PENSTOCK_RECORDS", gate=1, long=60)):
        folder = tmp_path / str(case)
        chance = LakeChance(seed + case)
        model = []
        given = config(
            folder,
            flush_size=str(chance.random.randint(1, 40)),
            partitioner_class=chance.random.choice(["DefaultPartitioner", "HourlyPartitioner"]),
            timestamp_extractor="Record",
            rotate_interval_ms=chance.random.choice(["-1", "5000"]),
            buffer_max_bytes=chance.random.choice(["100", "100000000"]),
            parquet_codec=chance.random.choice(["none", "snappy", "gzip", "zstd"]),
        )
        with SinkTaskTest(ObjectsSinkTask(), given) as test:
            number = time_ms = 0
            for _ in range(8):
                for _ in range(chance.random.randint(1, 40)):
                    time_ms += chance.random.choice([1, 100, 3_000_000])
                    record = chance.record(number)
                    model.append(without_nulls(expected(record, chance.schema)))
                    test.add("a", record, schema=chance.schema, partition=number % 2, timestamp_ms=time_ms)
                    number += 1
                test.step()
                if chance.random.random() < 0.4:
                    test.commit()
                if chance.random.random() < 0.4:
                    test.restart(ObjectsSinkTask())
                chance.change_schema()
            test.step()
            test.commit()
            done = [test.committed("a", partition) or 0 for partition in range(2)]
        stored = [row for row in model if row["id"] // 2 < done[row["id"] % 2]]
        found = sorted(rows_of(folder), key=lambda row: row["id"])
        assert found == stored, f"PENSTOCK_SEED={seed + case}"


def rows_of(folder: Path) -> list[Row]:
    import pyarrow.parquet as pq

    read = (pq.ParquetFile(path).read().to_pylist() for path in folder.rglob("*.parquet"))
    return [without_nulls(row) for rows in read for row in rows]


def test_files_that_ended_together_are_stored_before_the_offset_moves(tmp_path: Path) -> None:
    given = config(tmp_path, flush_size="4", partitioner_class="FieldPartitioner", partition_field_name="v")
    obstacle = tmp_path / "topics" / "a" / "v=1"
    obstacle.parent.mkdir(parents=True)
    obstacle.touch()  # no folder can have this name, so the second file cannot be stored
    with SinkTaskTest(ObjectsSinkTask(), given) as test:
        for number in range(4):
            test.add("a", {"id": number, "v": number % 2})
        test.step()
        test.commit()
        assert test.committed("a") in (None, 0)
        obstacle.unlink()
        test.restart(ObjectsSinkTask())
        test.step()
        test.commit()
        assert test.committed("a") == 4
    assert read_ids(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "bad"),
    [
        ({"partitioner_class": "DailyPartitioner", "timestamp_extractor": "RecordField"}, 10**18),
        ({"partitioner_class": "DailyPartitioner", "timestamp_extractor": "RecordField"}, -(10**15)),
        ({"partitioner_class": "FieldPartitioner", "partition_field_name": "timestamp"}, "\ud800"),
    ],
)
def test_values_that_name_no_folder_are_reported(
    tmp_path: Path, settings: dict[str, str], bad: object
) -> None:
    given = config(tmp_path, errors_tolerance="all", flush_size="1", **settings)
    with SinkTaskTest(ObjectsSinkTask(), given) as test:
        for number, value in enumerate((1, bad, 2)):
            test.put("a", {"id": number, "timestamp": value})
        test.commit()
        assert test.committed("a") == 3
        assert [record.value for record in test.failed] == [{"id": 1, "timestamp": bad}]
    assert read_ids(tmp_path) == [0, 2]


@pytest.mark.parametrize("topic", ["..", "a/b", "", "a\\b"])
def test_topics_that_are_no_folder_are_reported(tmp_path: Path, topic: str) -> None:
    with pytest.raises(DataError, match="no name of a folder"):
        topic_folder(topic)
