"""Readers of files give every record once, from any position, against libraries that read whole files."""

import bz2
import contextlib
import csv
import gzip
import io
import json
import os
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from long_run import repetitions
from penstock.connect import ConfigDef, DataError, Struct
from penstock.connect.connectors.formats.items import Item
from penstock.connect.connectors.formats.opening import open_records
from penstock.connect.connectors.formats.settings import FormatSettings, define_formats, format_settings

SEED = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
TEXT = "aé \t\r;,\"'\\{}[]:x1\u2028😀"


def settings(**given: str) -> FormatSettings:
    return format_settings(
        define_formats(ConfigDef()).parse({k.replace("_", "."): v for k, v in given.items()})
    )


def all_items(data: bytes, given: FormatSettings, position: int = 0, limit: int = 1000) -> list[Item]:
    reader = open_records(io.BytesIO(data), "file", position, given)
    found: list[Item] = []
    while items := reader.read(limit, is_complete=True):
        found += items
    return found


def check_positions(data: bytes, given: FormatSettings, expected: list[Any], chance: random.Random) -> None:
    """All records, and from the position behind each (or behind some) exactly those that follow."""
    items = all_items(data, given, limit=chance.randint(1, 7))
    assert [each.error for each in items if each.error] == []
    assert [plain(each.value) for each in items] == expected
    for number in {0, len(items), *(chance.randint(0, len(items)) for _ in range(3))}:
        position = items[number - 1].position if number else 0
        assert all_items(data, given, position, chance.randint(1, 9)) == items[number:]


def plain(value: Any) -> Any:
    return value.to_dict() if isinstance(value, Struct) else value


def compressed(data: bytes, chance: random.Random) -> bytes:
    ways: list[Callable[[bytes], bytes]] = [
        bytes,
        gzip.compress,
        bz2.compress,
        zstandard.ZstdCompressor().compress,
        lambda found: gzip.compress(found[:9]) + gzip.compress(found[9:]),
    ]
    return chance.choice(ways)(data)


def some_text(chance: random.Random, more: str = "") -> str:
    return "".join(chance.choices(TEXT + more, k=chance.randint(0, 12)))


def some_json(chance: random.Random, depth: int = 0) -> Any:
    match chance.randint(0, 7 if depth < 2 else 5):
        case 0:
            return None
        case 1:
            return chance.random() < 0.5
        case 2:
            return chance.randint(-(2**63), 2**63 - 1)
        case 3:
            return chance.uniform(-1e9, 1e9)
        case 4 | 5:
            return some_text(chance, "\n")
        case 6:
            return [some_json(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    return {some_text(chance): some_json(chance, depth + 1) for _ in range(chance.randint(0, 3))}


@pytest.mark.longer
def test_every_format_is_read_from_every_position() -> None:
    print(f"PENSTOCK_SEED={SEED}")
    chance = random.Random(SEED)
    for _ in range(repetitions("PENSTOCK_FILES", gate=15, long=3000)):
        check_lines(chance)
        check_json(chance)
        check_csv(chance)
        check_avro(chance)


def check_lines(chance: random.Random) -> None:
    lines = [some_text(chance) for _ in range(chance.randint(0, 30))]
    data = "".join(line + chance.choice(["\n", "\r\n"]) for line in lines).encode()
    if lines and chance.random() < 0.5:
        data = data.rstrip(b"\r\n") + b"x"  # no end of the last line
    expected = data.decode().removesuffix("\n").split("\n") if data else []
    expected = [line.removesuffix("\r") for line in expected]
    check_positions(compressed(data, chance), settings(input_format="lines"), expected, chance)


def check_json(chance: random.Random) -> None:
    values = [some_json(chance) for _ in range(chance.randint(0, 20))]
    lines = "".join(json.dumps(each) + chance.choice(["\n", " \r\n", "\n\n"]) for each in values)
    check_positions(compressed(lines.encode(), chance), settings(input_format="jsonl"), values, chance)

    def text(value: Any) -> str:
        return json.dumps(value, indent=chance.choice([None, 2]), ensure_ascii=chance.random() < 0.5)

    array = (" [" + " ,\n".join(map(text, values)) + "\n]\n").encode()
    check_positions(compressed(array, chance), settings(input_format="json"), values, chance)
    if values and isinstance(values[0], list):
        values = [{}, *values]
    documents = "\n".join(map(text, values)).encode()
    check_positions(compressed(documents, chance), settings(input_format="json"), values, chance)


def check_csv(chance: random.Random) -> None:
    names = [f"c{number}" for number in range(chance.randint(2, 4))]
    # Python's writer does not quote a carriage return by itself
    rows = [[some_text(chance, "\n").replace("\r", "") for _ in names] for _ in range(chance.randint(0, 20))]
    out = io.StringIO()
    separator = chance.choice([",", ";", "\t"])
    writer = csv.writer(out, delimiter=separator, lineterminator=chance.choice(["\n", "\r\n"]))
    writer.writerows([names, *rows])
    given = settings(
        input_format="csv", csv_first_row_as_header="true", csv_separator_char=str(ord(separator)).zfill(2)
    )
    expected = [dict(zip(names, row, strict=True)) for row in rows]
    check_positions(compressed(out.getvalue().encode(), chance), given, expected, chance)


def check_avro(chance: random.Random) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "n", "type": ["null", "long"]},
            {"name": "s", "type": {"type": "array", "items": "string"}},
            {"name": "d", "type": {"type": "map", "values": "double"}},
            {"name": "b", "type": "bytes"},
        ],
    }
    records = [
        {
            "n": chance.choice([None, chance.randint(-(2**63), 2**63 - 1)]),
            "s": [some_text(chance) for _ in range(chance.randint(0, 3))],
            "d": {some_text(chance): chance.uniform(-1, 1)},
            "b": chance.randbytes(4),
        }
        for _ in range(chance.randint(0, 40))
    ]
    out = io.BytesIO()
    codec = chance.choice(["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
    try:
        fastavro.writer(
            out, fastavro.parse_schema(schema), records, codec, sync_interval=chance.choice([20, 2000])
        )
    except ValueError:  # the package of this codec is missing
        return
    check_positions(out.getvalue(), settings(input_format="avro"), records, chance)


def test_parquet_is_read_without_loss() -> None:
    table = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int32()),
            "u": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "t": pa.array([datetime(2026, 1, 1, 1, 2, 3, 4000)] * 3, pa.timestamp("ms")),
            "us": pa.array([1_700_000_000_000_001, 2, None], pa.timestamp("us", "UTC")),
            "day": pa.array([date(2026, 1, 2), None, date(1, 1, 1)]),
            "at": pa.array([time(1, 2, 3)] * 3, pa.time32("ms")),
            "d": pa.array([Decimal("1.50"), None, Decimal("-3.25")], pa.decimal128(9, 2)),
            "l": pa.array([[1, None], [], None], pa.list_(pa.int64())),
            "s": pa.array([{"a": 1}, {"a": None}, None], pa.struct({"a": pa.int16()})),
            "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "e": pa.array(["x", "y", None]).dictionary_encode(),
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=2)
    given = settings(input_format="parquet", batch_size="1")
    items = all_items(out.getvalue(), given)
    assert plain(items[0].value) == {
        "i": 1,
        "u": Decimal(2**64 - 1),
        "t": datetime(2026, 1, 1, 1, 2, 3, 4000, tzinfo=UTC),
        "us": 1_700_000_000_000_001,
        "day": date(2026, 1, 2),
        "at": time(1, 2, 3),
        "d": Decimal("1.50"),
        "l": [1, None],
        "s": {"a": 1},
        "m": {"k": 1},
        "e": "x",
    }
    assert [plain(each.value)["l"] for each in items] == [[1, None], [], None]
    assert items[0].schema is not None
    assert items[0].schema.by_name["us"].schema.name == "io.debezium.time.MicroTimestamp"
    for number in range(4):
        assert all_items(out.getvalue(), given, number) == items[number:]


@pytest.mark.longer
def test_damaged_files_raise_data_errors_only() -> None:
    print(f"PENSTOCK_SEED={SEED}")
    chance = random.Random(SEED)
    avro, parquet = io.BytesIO(), io.BytesIO()
    rows = [{"a": number, "b": "x" * number} for number in range(50)]
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]
    fastavro.writer(
        avro, {"type": "record", "name": "r", "fields": fields}, rows, "deflate", sync_interval=99
    )
    pq.write_table(pa.Table.from_pylist(rows), parquet, row_group_size=10)
    lines = "".join(json.dumps(each) + "\n" for each in rows).encode()
    files = [("avro", avro.getvalue()), ("parquet", parquet.getvalue()), ("json", lines)]
    files += [("jsonl", way(lines)) for way in (gzip.compress, bz2.compress, zstandard.compress)]
    for _ in range(repetitions("PENSTOCK_FILES", gate=15, long=3000)):
        for format, data in files:
            damaged = bytearray(data)
            if chance.random() < 0.5:
                del damaged[chance.randrange(len(damaged)) :]
            for _ in range(chance.randint(0, 3)):
                if damaged:
                    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            with contextlib.suppress(DataError):
                all_items(bytes(damaged), settings(input_format=format))


@pytest.mark.parametrize("way", [gzip.compress, bz2.compress, zstandard.compress])
def test_a_compressed_file_that_is_cut_off_is_no_complete_one(way: Callable[[bytes], bytes]) -> None:
    data = way(b"some line\n" * 100)
    for size in range(5, len(data)):
        with pytest.raises(DataError):
            all_items(data[:size], settings(input_format="lines"))


def test_bad_records_stand_between_good_ones() -> None:
    items = all_items(
        b'{"a":1}\nnonsense\n{"a":99999999999999999999}\n{"a":2}\n', settings(input_format="jsonl")
    )
    assert [each.value for each in items] == [{"a": 1}, None, None, {"a": 2}]
    assert [bool(each.error) for each in items] == [False, True, True, False]
    assert items[1].raw == b"nonsense"

    given = settings(input_format="csv", csv_types="id:int32,name:string", record_max_bytes="40")
    items = all_items(b'1,a\nx,b\n3\n4,"no end\n' + b"5,c\n" * 12, given)
    assert [str(each.error)[:20] for each in items if each.error] == [
        "Invalid value 'x' of",
        "the row has 1 fields",
        "Invalid row of CSV: ",
    ]
    assert [each.value["id"] for each in items if not each.error] == [1, *[5] * 12]

    items = all_items(b'[{"a":1},{"a"}, {"a":2}, [1}, 7', settings(input_format="json"))
    assert [each.value for each in items] == [{"a": 1}, None, {"a": 2}, None, 7]
    assert items[3].raw == b"[1}"

    items = all_items(b"ab\n" + b"x" * 50 + b"\ncd", settings(input_format="lines", record_max_bytes="9"))
    assert [each.value for each in items if not each.error] == ["ab", "cd"]

    items = all_items("grün\n".encode("latin-1") + b"ok\n", settings(input_format="lines"))
    assert [each.value for each in items] == [None, "ok"]


@pytest.mark.parametrize("format", ["lines", "csv"])
def test_a_line_without_limit_is_one_bad_record_and_takes_no_memory(format: str) -> None:
    data = b"ab\n" + b"x" * 1_000_000 + b"\ncd\n" + b"y" * 400_000
    for compress in (bytes, gzip.compress):
        given = settings(input_format=format, record_max_bytes="1000")
        items = all_items(compress(data), given)
        assert [each.error is None for each in items] == [True, False, True, False]
        assert [each.position for each in items] == [3, 1_000_004, 1_000_007, len(data)]
        assert [each.raw for each in items] == [b"", b"x" * 1000, b"", b"y" * 1000]
        for number, item in enumerate(items, start=1):
            found = all_items(compress(data), given, item.position)
            assert [each.position for each in found] == [each.position for each in items[number:]]


def test_numbers_of_csv_have_all_digits_and_no_underscores() -> None:
    given = settings(input_format="csv", csv_types="d:decimal(2),i:int64,f:float")
    data = (
        b"\xef\xbb\xbf" + b"1" * 50 + b".25,1,1\n1_0,1,1\n1,1_0,1\n1,1,1_0\n1,1,1e39\n1,1,inf\n1e99999,1,1\n"
    )
    items = all_items(data, given)
    assert items[0].value["d"] == Decimal("1" * 50 + ".25")
    assert [each.error is None for each in items] == [True, False, False, False, False, True, False]


def test_csv_columns_have_types() -> None:
    types = "id:int64,price:decimal(2),at:timestamp,day:date,ok:boolean,x:double"
    given = settings(
        input_format="csv",
        csv_first_row_as_header="true",
        csv_types=types,
        csv_null_value="-",
        csv_skip_lines="1",
    )
    data = b"\xef\xbb\xbfid,price,at,day,ok,x,name\n7,1.5,2026-01-02T03:04:05Z,2026-01-02,yes,1e3,-\n,,,,,,\n"
    first, second = all_items(b"made by hand\n" + data.removeprefix(b"\xef\xbb\xbf"), given)
    assert first.value.to_dict() == {
        "id": 7,
        "price": Decimal("1.50"),
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "ok": True,
        "x": 1000.0,
        "name": None,
    }
    assert set(second.value.to_dict().values()) == {None, ""}
    with_mark = settings(input_format="csv", csv_first_row_as_header="true")
    assert all_items(data, with_mark)[0].value["id"] == "7"
    quoted = data.replace(b"id,", b'"id",')
    assert all_items(quoted, with_mark)[0].value["id"] == "7"
