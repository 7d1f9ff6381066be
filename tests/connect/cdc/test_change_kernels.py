"""Records that write themselves, by either kernel, against the Structs of the writer of events.

Both read what PostgreSQL sent in the recorded cases, in all configurations, and random rows.
"""

import json
import lzma
import os
import random
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from recorded_cases import RUNS

from long_run import IS_LONG
from penstock.connect import SourceTask
from penstock.connect.cdc.postgres import changes, events, layouts
from penstock.connect.cdc.postgres.catalog import Catalog
from penstock.connect.cdc.postgres.events import EventSettings, EventWriter, Position
from penstock.connect.cdc.postgres.kernels import changes_py
from penstock.connect.cdc.postgres.messages import Relation, RelationColumn
from penstock.connect.cdc.postgres.pgoutput import Decoder
from penstock.connect.cdc.postgres.schemas import ColumnRules, NamingSettings, table_schema
from penstock.connect.cdc.selection.masks import Masks
from penstock.connect.converters.headers import SimpleHeaderConverter
from penstock.connect.converters.json.converter import JsonConverter
from penstock.connect.data.encodable import EncodableRecord
from penstock.connect.data.records import SourceRecord
from penstock.connect.errors import DataError
from penstock.connect.tasks.harness import SourceTaskTest

try:
    from penstock.connect.cdc.postgres.kernels import changes as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

HERE = Path(__file__).parent
SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
REPETITIONS = 20 if IS_LONG else 1
CASES = [("compiled", "defaults"), ("compiled", "masked"), ("pure", "defaults")]
"""Kernels and configurations of recorded changes in the gate."""
CONVERTER_OF = {"defaults": 0, "masked": 1}
KERNELS = {"pure": changes_py, "compiled": compiled}
PLAIN_MAX = 70
"""Changes that are read in one call."""
MASKS = {
    "column.mask.with.3.chars": "public.t00.*",
    "column.mask.hash.SHA-256.with.salt.x": "public.t01.*",
    "column.truncate.to.2.chars": "public.t02.*",
}
CONVERTERS: list[dict[str, str]] = [
    {"schemas.enable": "false"},
    {"schemas.enable": "true"},
    {"schemas.enable": "false", "decimal.format": "NUMERIC", "replace.null.with.default": "false"},
]


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    text = lzma.decompress((HERE / "postgres_cases.json.xz").read_bytes()).decode()
    found: dict[str, Any] = json.loads(text.partition("\n")[2])
    return found


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """One of the kernels, in place of the one that this process uses."""
    found = KERNELS[request.param]
    if found is None:
        pytest.skip("no compiled kernel here")
    for name in ("Change", "read_changes"):
        monkeypatch.setattr(events, name, getattr(found, name))
    for name in ("key_json", "value_json"):
        monkeypatch.setattr(changes, name, getattr(found, name))
    for name in ("RowLayout", "EnvelopeLayout"):
        monkeypatch.setattr(layouts, name, getattr(found, name))
    return found


@pytest.mark.parametrize(
    ("kernel", "run"),
    [(kernel, run) for kernel in KERNELS for run in [*RUNS, "masked"]] if IS_LONG else CASES,
    indirect=["kernel"],
)
def test_recorded_changes_are_those_of_structs(cases: dict[str, Any], kernel: ModuleType, run: str) -> None:
    frames = [framed(lsn, bytes.fromhex(data)) for lsn, data in cases["messages"]]
    properties = {**RUNS["strings"], **MASKS} if run == "masked" else RUNS[run]
    plain = list(records(cases["catalog"], frames, properties))
    structs = list(records(cases["catalog"], frames, properties, by_structs=True))
    assert_equal(plain, structs, CONVERTERS if IS_LONG else [CONVERTERS[CONVERTER_OF[run]]])
    count = sum(isinstance(each, EncodableRecord) for each in plain)
    has_metadata = "provide.transaction.metadata" in properties
    assert count == 0 if has_metadata else count > 0.9 * len(plain)


COLUMNS = [
    *[("int2", -1), ("int4", -1), ("int8", -1), ("bool", -1), ("text", -1), ("date", -1), ("float8", -1)],
    *[("numeric", (12 << 16 | 2) + 4), ("numeric", (20 << 16 | 0) + 4), ("timestamp", -1), ("timestamp", 3)],
    *[("timestamptz", -1), ("timestamptz", 0), ("timestamptz", 3), ("uuid", -1)],
]
"""Types and modifiers of the random table."""
LETTERS = "abc \\\"\t\n\x01\x7fäß€𝄞'/"
NUMBERS = ("NaN", "0.00", "-0.00", "0.5", "1e3", "12.345")


def test_random_rows_are_those_of_structs(cases: dict[str, Any], kernel: ModuleType) -> None:
    rng = random.Random(SEED)
    print(f"PENSTOCK_SEED={SEED}")
    catalog = Catalog.of_rows(cases["catalog"]["types"], cases["catalog"]["relations"])
    oids = {kind.name: oid for oid, kind in catalog.types.items()}
    columns = tuple(
        RelationColumn(f"c{place}", oids[name], modifier, place == 0)
        for place, (name, modifier) in enumerate(COLUMNS)
    )
    relation = Relation(1, "public", "random", "d", columns, None)
    settings = EventSettings.of({"topic.prefix": "pre", "database.dbname": "cases"}, "3.6.1.Final", "run")
    table = table_schema(relation, None, catalog, settings.values, NamingSettings("pre"))
    writer = EventWriter(settings, lambda *_: table, lambda: 1_700_000_000_123_456, Position(lsn=7, xid=3))
    plan = writer.plan(table, len(COLUMNS))
    rows = [[random_text(rng, name) for name, _ in COLUMNS] for _ in range(100 * REPETITIONS)]
    plain = [writer.snapshot_row(plan, changes_py.tuple_data(row), "true") for row in rows]
    assert_equal(plain, [writer.snapshot(table, row, "true") for row in rows], CONVERTERS)


def random_text(rng: random.Random, kind: str) -> str | None:
    """A text that PostgreSQL might send for a type, or almost."""
    if rng.random() < 0.05:
        return None
    number = rng.choice((rng.randrange(100), rng.randrange(1 << 31), rng.randrange(1 << 62)))
    day = f"{rng.randrange(1, 9999):04}-{rng.randrange(1, 13):02}-{rng.randrange(1, 30):02}"
    time = f"{rng.randrange(25):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
    fraction = rng.choice(("", f".{rng.randrange(10)}", f".{rng.randrange(1_000_000):06}"))
    match kind:
        case "int2" | "int4" | "int8":
            return str(number % (1 << 8 * int(kind[3:]) - 1) * rng.choice((1, -1)))
        case "bool":
            return rng.choice("tf")
        case "date":
            return rng.choice((day, day + " BC", "infinity", f"1{day}"))
        case "timestamp":
            return rng.choice((f"{day} {time}{fraction}", f"{day} {time} BC", "-infinity"))
        case "timestamptz":
            return f"{day} {time}{fraction}" + rng.choice(("+00", "+00", "-03:30", "+05 BC"))
        case "numeric":
            return rng.choice((*NUMBERS, f"{number}", f"{number}.25", f"-{number % 1000}.{number % 100:02}"))
        case "float8":
            return rng.choice(("NaN", "1e+300", "-Infinity", "0.1", "5"))
    return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(12)))


MORE_COLUMNS = [
    *[("float4", -1), ("time", 3), ("time", -1), ("timetz", -1), ("bytea", -1), ("json", -1), ("_int4", -1)],
    *[("_text", -1), ("mood", -1), ("positive", -1), ("hstore", -1), ("interval", -1), ("money", -1)],
    *[("oid", -1), ("varchar", 14), ("numeric", -1), ("bit", 8)],
]
"""Further types of the random changes."""
VALUES = {
    "float4": ("NaN", "1e-45", "-0", "3.4028235e+38", "-Infinity", "0.1"),
    "time": ("00:00:00", "24:00:00", "12:34:56.789"),
    "timetz": ("00:00:00+00", "23:59:59.999999-11:30", "24:00:00+00"),
    "bytea": ("\\x", "\\x00ff41"),
    "json": ('{"a": [1, null, "\\u0001"]}', "null", '"𝄞"'),
    "_int4": ("{}", "{1,NULL,-2147483648}"),
    "_text": ('{NULL,"NULL","a\\"b\\\\",ä}', "{}"),
    "mood": ("sad", "ok"),
    "positive": ("1", "2147483647"),
    "hstore": ('"a"=>"1", "b"=>NULL', ""),
    "interval": ("1 year 2 mons -3 days +04:05:06.789", "00:00:00"),
    "money": ("$1,234.50", "-$0.01"),
    "oid": ("0", "4294967295"),
    "varchar": ("", "\u2028\ud7ff\ue000\uffff", "\x01\x1f\x7f"),
    "numeric": ("NaN", "-Infinity", "-0.0", "1E+400", f"{10**60}.{'0' * 30}1", "-0.001"),
    "bit": ("00000000", "10000001"),
}
RANDOM = 90_001
"""The oid of the random table."""


@pytest.mark.parametrize("run", ["defaults", "strings", "doubles"] if IS_LONG else ["defaults"])
def test_random_changes_are_those_of_structs(cases: dict[str, Any], kernel: ModuleType, run: str) -> None:
    """Changes of a table that is altered between them: columns NOT NULL or not, and any replica identity."""
    rng = random.Random(SEED)
    print(f"PENSTOCK_SEED={SEED}")
    catalog = Catalog.of_rows(cases["catalog"]["types"], cases["catalog"]["relations"])
    oids = {kind.name: oid for oid, kind in catalog.types.items()}
    for _ in range(REPETITIONS):
        columns = [*COLUMNS, *MORE_COLUMNS]
        facts = [[f"c{place}", rng.random() < 0.3 or not place, None] for place in range(len(columns))]
        table = [RANDOM, "public", "random", facts, ["c0"]]
        frames = [framed(1, struct.pack(">cQqI", b"B", 9, 1, 5))]
        for _ in range(4):
            columns = columns[: rng.randrange(5, len(columns) + 1)]
            identity = rng.choice("dfni")
            frames.append(framed(2, relation_message(columns, identity, oids)))
            frames += [framed(rng.randrange(3, 6), random_change(rng, columns, identity)) for _ in range(25)]
        rows = {**cases["catalog"], "relations": [*cases["catalog"]["relations"], table]}
        plain = list(records(rows, frames, RUNS[run]))
        assert_equal(plain, list(records(rows, frames, RUNS[run], by_structs=True)), CONVERTERS)


def relation_message(columns: list[tuple[str, int]], identity: str, oids: dict[str, int]) -> bytes:
    made = struct.pack(">cI", b"R", RANDOM) + b"public\0random\0" + identity.encode()
    return (
        made
        + len(columns).to_bytes(2, "big")
        + b"".join(
            struct.pack(">B", not place) + f"c{place}\0".encode() + struct.pack(">Ii", oids[name], modifier)
            for place, (name, modifier) in enumerate(columns)
        )
    )


def random_change(rng: random.Random, columns: list[tuple[str, int]], identity: str) -> bytes:
    def row(unchanged: float, key: str) -> bytes:
        made = bytearray(changes_py.tuple_data([key])[2:])
        for name, _ in columns[1:]:
            if rng.random() < unchanged:
                made += b"u"
            else:
                found = rng.choice((*VALUES[name], None)) if name in VALUES else random_text(rng, name)
                made += changes_py.tuple_data([found])[2:]
        return len(columns).to_bytes(2, "big") + made

    key = rng.choice(("1", "-32768", "32767"))
    head, kind = struct.pack(">I", RANDOM), rng.choice("IUUUD")
    only_key = changes_py.tuple_data([key, *[None] * (len(columns) - 1)])
    old = b"O" + row(0.0, key) if identity == "f" else b"K" + only_key
    if kind == "I":
        return b"I" + head + b"N" + row(0.0, key)
    if kind == "D":
        return b"D" + head + old
    changed = key if rng.random() < 0.8 else "7"
    return b"U" + head + (old if identity == "f" or key != changed else b"") + b"N" + row(0.2, changed)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_row_without_json_is_skipped_alone(
    cases: dict[str, Any], kernel: ModuleType, exactly_once: bool
) -> None:
    """NaN has no precise decimal, and the column may not be null."""
    catalog = Catalog.of_rows(cases["catalog"]["types"], cases["catalog"]["relations"])
    oids = {kind.name: oid for oid, kind in catalog.types.items()}
    columns = [("int4", -1), ("numeric", (12 << 16 | 2) + 4)]
    facts = [["c0", True, None], ["c1", True, None]]
    table = [RANDOM, "public", "random", facts, ["c0"]]
    inserts = [("1", "1.50"), ("2", "NaN"), ("3", "-2.00"), ("4", "NaN")]
    frames = [
        framed(1, struct.pack(">cQqI", b"B", 9, 1, 5)),
        framed(2, relation_message(columns, "d", oids)),
        *[
            framed(3 + at, struct.pack(">cI", b"I", RANDOM) + b"N" + changes_py.tuple_data(row))
            for at, row in enumerate(inserts)
        ],
    ]
    rows = {**cases["catalog"], "relations": [*cases["catalog"]["relations"], table]}
    polled = list(records(rows, frames, {}))
    assert all(isinstance(each, EncodableRecord) for each in polled)

    with harness(polled, exactly_once) as test:
        assert [json.loads(each.key)["c0"] for each in test.poll()] == [1, 3]
        assert [each.stage for each in test.failed] == ["VALUE_CONVERTER"] * 2
        assert test.offset(polled[0].source_partition) == polled[2].source_offset


def harness(polled: list[SourceRecord], exactly_once: bool = False) -> SourceTaskTest:
    """A task that returns these records once, with the converters whose bytes records can write."""
    batches = [polled]

    class Once(SourceTask):
        def poll(self) -> list[SourceRecord]:
            return batches.pop() if batches else []

    return SourceTaskTest(
        Once(),
        {"errors.tolerance": "all"},
        exactly_once=exactly_once,
        key_converter=made(CONVERTERS[0], True),
        value_converter=made(CONVERTERS[0], False),
        header_converter=SimpleHeaderConverter(),
    )


def test_names_like_the_numbers_of_a_sample_stay_as_they_are(
    cases: dict[str, Any], kernel: ModuleType
) -> None:
    name = "t7310000000000000001"
    catalog = Catalog.of_rows(cases["catalog"]["types"], cases["catalog"]["relations"])
    relation = Relation(1, "public", name, "d", (RelationColumn("id", 23, -1, True),), None)
    settings = EventSettings.of({"topic.prefix": "pre", "database.dbname": "cases"}, "3.6.1.Final", "run")
    table = table_schema(relation, None, catalog, settings.values, NamingSettings("pre"))
    writer = EventWriter(settings, lambda *_: table, lambda: 1, Position(lsn=7, xid=3))
    record = writer.snapshot_row(writer.plan(table, 1), changes_py.tuple_data(["1"]), "true")
    with harness([record]) as test:
        (found,) = test.poll()
        assert json.loads(found.value)["source"]["table"] == name


def test_a_modifier_beyond_six_digits_is_left_to_python(kernel: ModuleType) -> None:
    cell = changes_py.Cell(b"", 0, changes_py.Scalar.ZONED, 4000, b"null", b"null", lambda text: b"called")
    row = changes_py.tuple_data(["2024-01-02 03:04:05+00"])
    change = kernel.Change(None, "r", row, 0, -1, 1, (None, None, None), 0, 0)
    assert kernel.key_json(change, kernel.RowLayout(b"", [cell], b"")) == b"called"


@pytest.mark.skipif(compiled is None, reason="no compiled kernel here")
def test_the_kernels_agree_on_rows_of_copy() -> None:
    rng = random.Random(SEED)
    print(f"PENSTOCK_SEED={SEED}")
    for _ in range(500 * REPETITIONS):
        line = "".join(rng.choice("ab\\\\\\tnNvä\t\t") for _ in range(rng.randrange(20)))
        data = f"{line.rstrip(chr(92))}\n".encode()
        assert compiled.copied_row(data) == changes_py.copied_row(data), data
    for kernel in (compiled, changes_py):
        with pytest.raises(ValueError, match="line feed"):
            kernel.copied_row(b"a")
        with pytest.raises(UnicodeDecodeError):
            kernel.copied_row(b"a\t\xff\n")


class AnyPlan:
    """A table with three columns, of which the first is the key."""

    required = b"\x01\x00\x00"
    key_places = (0,)
    has_tombstones = True
    is_identified = True


@pytest.mark.skipif(compiled is None, reason="no compiled kernel here")
def test_the_kernels_take_the_same_frames() -> None:
    rng = random.Random(SEED)
    print(f"PENSTOCK_SEED={SEED}")
    for _ in range(500 * REPETITIONS):
        frames = [random_frame(rng) for _ in range(rng.randrange(6))]
        assert read_by(compiled, frames) == read_by(changes_py, frames), frames


def random_frame(rng: random.Random) -> bytes:
    """A change, which may be damaged."""
    texts = (b"t\0\0\0\1a", b"t\0\0\0\2bc", b"t\0\0\0\0", b"u", b"n")

    def row() -> bytes:
        count = 3 if rng.random() < 0.95 else rng.randrange(6)
        cells = [rng.choice(texts) for _ in range(count)]
        if cells and rng.random() < 0.8:
            cells[0] = texts[0]
        return count.to_bytes(2, "big") + b"".join(cells)

    kind = rng.choice("IUD")
    old = {
        "I": b"",
        "U": rng.choice((b"", b"O" + row(), b"K" + row())),
        "D": rng.choice((b"O", b"K")) + row(),
    }
    new = b"" if kind == "D" else b"N" + row()
    payload = kind.encode() + rng.choice((1, 1, 1, 2)).to_bytes(4, "big") + old[kind] + new
    frame = bytearray(framed(rng.randrange(1, 4), payload))
    if rng.random() < 0.2:
        frame[rng.randrange(len(frame))] = rng.choice(b"tnubNOKwk\0\1\xff")
    return bytes(frame[: rng.randrange(len(frame) + 1)]) if rng.random() < 0.1 else bytes(frame)


def read_by(kernel: ModuleType, frames: list[bytes]) -> tuple[Any, ...]:
    """What a kernel makes of frames: where it ends, and the changes."""
    out: list[Any] = []
    times = iter(range(100))
    plans = {1: AnyPlan()}
    ended = kernel.read_changes(
        frames, 0, plans, (1, 2, 3), 2, 5, lambda: next(times), lambda change: change, out
    )
    return ended, [
        (each.operation, each.new, each.old, each.lsn, each.now_us, each.records, each.is_tombstone)
        for each in out
    ]


def framed(lsn: int, payload: bytes) -> bytes:
    return struct.pack(">cQQq", b"w", lsn, lsn, 0) + payload


def records(
    catalog_rows: dict[str, Any],
    frames: list[bytes],
    more: Mapping[str, str],
    by_structs: bool = False,
) -> Iterator[SourceRecord]:
    """The records of a stream, as `reading.streaming` makes them."""
    properties = {"topic.prefix": "pre", "database.dbname": "cases", **more}
    settings = EventSettings.of(properties, "3.6.1.Final", "run")
    naming = NamingSettings.of(properties)
    catalog = Catalog.of_rows(catalog_rows["types"], catalog_rows["relations"])
    rules = ColumnRules(masked=Masks(properties).apply)
    times = iter(range(1_700_000_000_000_000, 1 << 62, 1_234_567))
    writer = EventWriter(
        settings,
        lambda relation, nullable: table_schema(
            *(relation, catalog.tables.get(relation.oid), catalog, settings.values, naming, rules, nullable)
        ),
        lambda: next(times),
        Position(processed=7),
    )
    decoder, at = Decoder(1), 0
    while at < len(frames):
        if not by_structs:
            plain, at = writer.plain_records(frames, at, PLAIN_MAX)
            assert len(plain) <= 2 * PLAIN_MAX
            yield from plain
            if plain:
                continue
        (lsn,) = struct.unpack_from(">Q", frames[at], 1)
        yield from writer.records(decoder.decode(frames[at][25:], lsn), lsn)
        at += 1


def assert_equal(
    plain: list[SourceRecord], structs: list[SourceRecord], properties_of: list[dict[str, str]]
) -> None:
    assert [each.topic for each in plain] == [each.topic for each in structs]
    converters = [(made(properties, True), made(properties, False)) for properties in properties_of]
    for mine, other in zip(plain, structs, strict=True):
        assert mine.source_offset == other.source_offset
        assert list(mine.source_offset) == list(other.source_offset)
        assert (mine.headers, mine.source_partition) == (other.headers, other.source_partition)
        for keys, values in converters if isinstance(mine, EncodableRecord) else []:
            assert isinstance(mine, EncodableRecord)
            assert mine.key_json(keys) == keys.to_bytes(other.topic, other.key_schema, other.key)
            assert own_value(mine, values) == converted_value(other, values), other.value
        assert (mine.key_schema, mine.key) == (other.key_schema, other.key)
        assert (mine.value_schema, repr(mine.value)) == (other.value_schema, repr(other.value))


def made(properties: dict[str, str], is_key: bool) -> JsonConverter:
    converter = JsonConverter()
    converter.configure(properties, is_key)
    return converter


def own_value(record: EncodableRecord, converter: JsonConverter) -> object:
    try:
        return record.value_json(converter)
    except DataError:
        return DataError


def converted_value(record: SourceRecord, converter: JsonConverter) -> object:
    try:
        return converter.to_bytes(record.topic, record.value_schema, record.value)
    except DataError:
        return DataError
