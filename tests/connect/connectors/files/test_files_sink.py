"""Files of records: their names, their content in each format, and each record in exactly one of them."""

import csv
import gzip
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import fastavro
import pytest
import zstandard

from long_run import repetitions
from penstock.connect import ConnectError, Schema, SinkTaskTest, Struct, Type
from penstock.connect.connectors.files.sink.task import FilesSinkTask

ORDER = Schema.struct(
    {
        "id": Schema(Type.INT64),
        "name": Schema(Type.STRING, optional=True),
        "tags": Schema.array(Schema(Type.STRING)),
    }
)


def order(number: int) -> Struct:
    return Struct(ORDER, {"id": number, "name": f'a "name",\n{number}', "tags": ["x", "y"]})


def run(path: Path, **more: str) -> SinkTaskTest:
    given = {name.replace("_", "."): value for name, value in more.items()}
    config = {"output.path": str(path), "rotate.schedule.interval.ms": "-1"} | given
    return SinkTaskTest(FilesSinkTask(), config)


def files(path: Path) -> dict[str, bytes]:
    return {
        each.name: each.read_bytes()
        for each in sorted(path.rglob("*"))
        if each.is_file() and not each.name.startswith(".")
    }


def test_files_have_the_records_in_each_format(tmp_path: Path) -> None:
    for format in ("jsonl", "csv", "avro"):
        with run(tmp_path / format, output_format=format, flush_size="2", avro_codec="snappy") as test:
            for number in range(4):
                test.put("orders", order(number), schema=ORDER)
            test.commit()
            assert test.committed("orders") == 4
    plain = [{"id": n, "name": f'a "name",\n{n}', "tags": ["x", "y"]} for n in range(4)]
    found = files(tmp_path / "jsonl")
    assert list(found) == ["orders+0+0000000000.jsonl", "orders+0+0000000002.jsonl"]
    assert [json.loads(line) for data in found.values() for line in data.splitlines()] == plain
    rows = [
        row
        for path in sorted((tmp_path / "csv").rglob("*.csv"))
        for row in csv.DictReader(path.open(newline=""))
    ]
    assert rows == [{**each, "id": str(each["id"]), "tags": '["x","y"]'} for each in plain]
    records: list[Any] = []
    for path in sorted((tmp_path / "avro").rglob("*.avro")):
        with path.open("rb") as file:
            records += fastavro.reader(file)
    assert records == plain


def test_files_are_compressed(tmp_path: Path) -> None:
    for way, decompress in (("gzip", gzip.decompress), ("zstd", zstandard.decompress)):
        with run(tmp_path / way, output_format="lines", compression_type=way, flush_size="2") as test:
            test.put("a", "one")
            test.put("a", "two")
        ((name, data),) = files(tmp_path / way).items()
        assert name == f"a+0+0000000000.txt.{'gz' if way == 'gzip' else 'zst'}"
        content = (
            zstandard.ZstdDecompressor().decompressobj().decompress(data)
            if way == "zstd"
            else decompress(data)
        )
        assert content == b"one\ntwo\n"


def test_a_file_ends_by_size_time_and_schema(tmp_path: Path) -> None:
    with run(tmp_path, rotate_file_size="10", rotate_interval_ms="1000", output_format="csv") as test:
        test.put("a", {"x": "long enough"})
        test.put("a", {"x": 1}, timestamp_ms=5000)
        test.put("a", {"x": 2}, timestamp_ms=5999)
        test.put("a", {"x": 3}, timestamp_ms=6000)
        test.put("a", {"y": 4}, timestamp_ms=6000)
        test.commit()
        assert test.committed("a") == 4  # the last file is not complete
    assert files(tmp_path) == {
        "a+0+0000000000.csv": b"x\nlong enough\n",
        "a+0+0000000001.csv": b"x\n1\n2\n",
        "a+0+0000000003.csv": b"x\n3\n",
    }
    with run(tmp_path / "other", rotate_schedule_interval_ms="0") as test:
        test.put("a", {"x": 1})
        assert list(files(tmp_path / "other")) == ["a+0+0000000000.jsonl"]


def test_bad_records_are_reported(tmp_path: Path) -> None:
    with run(tmp_path, output_format="lines", flush_size="2", errors_tolerance="all") as test:
        for value in ("one", "two\nlines", None, "three"):
            test.put("a", value)
        assert [each.value for each in test.failed] == ["two\nlines", None]
    assert files(tmp_path) == {"a+0+0000000000.txt": b"one\nthree\n"}
    with (
        run(tmp_path / "other", output_format="csv") as test,
        pytest.raises(ConnectError, match="Tolerance exceeded"),
    ):
        test.put("a", "text")
    with run(tmp_path / "third", flush_size="1", behavior_on_null_values="ignore") as test:
        test.put("a", None)
        test.put("a", 1)
    assert list(files(tmp_path / "third")) == ["a+0+0000000001.jsonl"]


@pytest.mark.longer
def test_each_record_is_in_one_file_whatever_crashes(tmp_path: Path) -> None:
    """Between crashes, files end at other records: what a lost task has written is replaced or removed."""
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    for run_number in range(repetitions("PENSTOCK_SINKS", gate=1, long=300)):
        path = tmp_path / str(run_number)
        config = {"output.path": str(path), "flush.size": "5", "rotate.schedule.interval.ms": "-1"}
        count = 0
        with SinkTaskTest(FilesSinkTask(), config) as test:
            for _ in range(60):
                match chance.randint(0, 9):
                    case 0:
                        config["flush.size"] = str(chance.randint(1, 9))
                        test.restart(FilesSinkTask())
                        test.step()
                    case 1:
                        test.commit()
                    case _:
                        test.put("a", count)
                        count += 1
            config["flush.size"] = "1"
            test.restart(FilesSinkTask())
            test.step()
        found = [int(line) for data in files(path).values() for line in data.split()]
        assert found == list(range(count))


def test_a_task_that_lost_its_partition_changes_no_file(tmp_path: Path) -> None:
    with run(tmp_path, flush_size="3") as lost:
        lost.put("a", 0)
        lost.put("a", 1)
        with run(tmp_path, flush_size="2") as test:  # the partition is this one's now
            for number in range(4):
                test.put("a", number)
            written = files(tmp_path)
            with pytest.raises(ConnectError, match="another task writes the files of a-0"):
                lost.put("a", 2)
            assert files(tmp_path) == written
            for number in range(4, 6):
                test.put("a", number)
    assert list(files(tmp_path).values()) == [b"0\n1\n", b"2\n3\n", b"4\n5\n"]


def test_files_that_a_crash_has_left_are_removed(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "partition=0"
    directory.mkdir(parents=True)
    (directory / ".a+0+0000000000.jsonl.0.tmp").write_text("0")
    with run(tmp_path, flush_size="1") as test:
        test.put("a", 0)
        shutil.rmtree(directory)  # by a user
        test.put("a", 1)
    assert [each.name for each in sorted(directory.iterdir())] == [".owner", "a+0+0000000001.jsonl"]


def test_carriage_returns_in_csv_are_quoted(tmp_path: Path) -> None:
    with run(tmp_path, output_format="csv", flush_size="1") as test:
        test.put("a", {"x": "a\rb", "y": "c"})
    assert list(files(tmp_path).values()) == [b'x,y\n"a\rb",c\n']
