"""Avro read by columns, compared with fastavro: random schemas, their evolution, random and damaged data."""

import io
import json
import random
from decimal import Decimal

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from avro_values import Schemas, expected

from penstock.arrow.avro.resolution import Projection, Unreadable
from penstock.client.settings import ConfigError
from penstock.registry.formats import parse


def root(schema):
    return parse("AVRO", json.dumps(schema)).root


def encoded(schema, values):
    parsed = fastavro.parse_schema(schema)
    out = []
    for value in values:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, value)
        out.append(buffer.getvalue())
    return out


def read(writer, reader, data):
    """Read the documents from one buffer; return the values as a list, and the bad rows."""
    lengths = np.array([len(each) for each in data], np.int64)
    starts = np.cumsum(lengths) - lengths
    projection = Projection(root(writer), root(reader))
    found = projection.read(np.frombuffer(b"".join(data), np.uint8), starts, lengths)
    found.array.validate(full=True)
    assert found.array.type == projection.type
    assert len(found.array) == len(data)
    return found.array.to_pylist(maps_as_pydicts="strict"), found.bad


@pytest.mark.parametrize("seed", range(40))
def test_random_values_of_random_schemas_are_read_as_they_were_written(seed):
    schemas = Schemas(seed)
    for _ in range(5):
        schema = {"type": "record", "name": "Root", "fields": [{"name": "v", "type": schemas.schema()}]}
        values = [schemas.value(schema) for _ in range(schemas.random.choice([1, 2, 30]))]
        found, bad = read(schema, schema, encoded(schema, values))
        assert bad == {}, (seed, schema)
        assert found == [expected(schema, each) for each in values], (seed, schema)


@pytest.mark.parametrize("seed", range(25))
def test_evolution_is_fastavros(seed):
    """Fields are removed, added with defaults, moved and widened: the values read equal fastavro's."""
    schemas = Schemas(1000 + seed)
    pick = schemas.random
    wider = {"int": ["long", "double"], "long": ["double"], "float": ["double"], "string": ["bytes"]}
    fields = [{"name": f"f{n}", "type": schemas.schema(2)} for n in range(6)]
    fields = [
        f if "union" not in str(f) and "[" not in str(f["type"]) else {**f, "type": "int"} for f in fields
    ]
    writer = {"type": "record", "name": "R", "fields": fields}
    kept = [dict(f) for f in fields if pick.random() < 0.7]
    for field in kept:
        if isinstance(field["type"], str) and field["type"] in wider and pick.random() < 0.6:
            field["type"] = pick.choice(wider[field["type"]])
        elif pick.random() < 0.3:
            field["type"] = ["null", field["type"]]
    kept += [{"name": "new", "type": ["null", "string"], "default": None}]
    kept += [{"name": "many", "type": {"type": "array", "items": "int"}, "default": [1, 2]}]
    kept += [{"name": "words", "type": {"type": "map", "values": "string"}, "default": {"a": "b"}}]
    pick.shuffle(kept)
    reader = {"type": "record", "name": "R", "fields": kept}
    data = encoded(writer, [schemas.value(writer) for _ in range(20)])
    found, bad = read(writer, reader, data)
    w, r = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    assert bad == {}, (seed, writer, reader)
    assert found == [fastavro.schemaless_reader(io.BytesIO(each), w, r) for each in data], (seed, writer)


@pytest.mark.parametrize("seed", range(30))
def test_damaged_data_is_bad_or_what_fastavro_reads(seed):
    """Damage affects only its own row."""
    schemas = Schemas(2000 + seed)
    pick = schemas.random
    schema = {"type": "record", "name": "Root", "fields": [{"name": "v", "type": schemas.schema()}]}
    values = [schemas.value(schema) for _ in range(24)]
    data = encoded(schema, values)
    damaged = {}
    for row in pick.sample(range(24), 8):
        piece = bytearray(data[row])
        match pick.randrange(3):
            case 0:
                del piece[pick.randrange(len(piece) + 1) :]
            case 1:
                piece += pick.randbytes(3)
            case 2:
                piece[pick.randrange(len(piece))] = pick.randrange(256) if piece else 0
        damaged[row] = data[row] = bytes(piece)
    found, bad = read(schema, schema, data)
    assert set(bad) <= set(damaged), (seed, schema)
    for row, value in enumerate(values):
        if row not in damaged:
            assert found[row] == expected(schema, value), (seed, schema, row)
        elif row in bad:
            assert found[row] is None


def test_a_row_that_is_cut_short_at_any_byte_is_bad():
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": {"type": "array", "items": "string"}},
            {"name": "m", "type": {"type": "map", "values": "double"}},
            {"name": "u", "type": ["null", "long", "string"]},
            {"name": "d", "type": "double"},
        ],
    }
    whole = encoded(schema, [{"a": ["x", "yy"], "m": {"k": 1.5}, "u": "text", "d": 2.5}])[0]
    found, bad = read(schema, schema, [whole[:end] for end in range(len(whole))] + [whole])
    assert sorted(bad) == [*range(len(whole))]
    assert found[-1]["d"] == 2.5


POINT = {
    "type": "record",
    "name": "P",
    "fields": [{"name": "x", "type": "double"}, {"name": "b", "type": "boolean"}],
}
PAIR = {
    "type": "record",
    "name": "Q",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "long"}],
}
LONG_ARRAYS = {
    "int": lambda pick: pick.choice([0, -1, 2**31 - 1, pick.randint(-999, 999)]),
    "double": lambda pick: pick.random(),
    "boolean": lambda pick: pick.random() < 0.5,
    "nullable": lambda pick: pick.randint(-(2**63), 2**63 - 1),
    "sparse": lambda pick: pick.choice([None, 0.5]),
    "points": lambda pick: {"x": pick.random(), "b": True},
    "pairs": lambda pick: {"a": pick.randint(-9, 9), "b": pick.randint(-(2**40), 2**40)},
}
ITEMS = {"nullable": ["null", "long"], "sparse": ["double", "null"], "points": POINT, "pairs": PAIR}


@pytest.mark.parametrize("items", LONG_ARRAYS)
@pytest.mark.parametrize("is_kept", [True, False])
def test_long_arrays_are_read_as_short_ones(items, is_kept):
    """Arrays in several blocks and skipped arrays are read too, and damaged ones affect no other row."""
    pick = random.Random(5)
    array = {"type": "array", "items": ITEMS.get(items, items)}
    writer = record(("v", array, {}), ("n", "int", {}))
    reader = writer if is_kept else record(("n", "int", {}))
    counts = [0, 1, 70, 3000, 300, 2]
    values = [{"v": [LONG_ARRAYS[items](pick) for _ in range(size)], "n": size} for size in counts]
    data = encoded(writer, values)
    blocks = b"".join(each[:-1] for each in encoded(array, [values[3]["v"], values[4]["v"]]))
    twice = {"v": values[3]["v"] + values[4]["v"], "n": 4}
    cut = data[3][: len(data[3]) // 2]
    found, bad = read(writer, reader, [*data, blocks + b"\0\x08", cut, data[0]])
    whole = [*values, twice, None, values[0]]
    assert list(bad) == [7]
    assert found == [each and {name: each[name] for name in reader_names(reader)} for each in whole]


def reader_names(schema):
    return [field["name"] for field in schema["fields"]]


@pytest.mark.parametrize(
    ("items", "element", "reason"),
    [
        ("boolean", b"\x02", "a boolean is neither 0 nor 1"),
        ("int", b"\x80\x80\x80\x80\x40", "an int has more than 32 bits"),
        ("long", b"\xff" * 10 + b"\x01", "a long is longer than 10 bytes"),
        ("double", b"", "the data ends within an array"),
    ],
)
def test_an_element_of_a_long_array_may_be_bad(items, element, reason):
    schema = record(("v", {"type": "array", "items": items}, {}))
    good = b"\xa2\x01" + b"\x01" * 80 + b"\x00" + b"\x00"
    if items == "double":
        good = b"\xa2\x01" + b"\x01" * 81 * 8 + b"\x00"
    found, bad = read(schema, schema, [good, b"\xa2\x01" + b"\x01" * 80 + element + b"\x00", good])
    assert (found[0] is None, found[1], found[2] is None, list(bad)) == (False, None, False, [1])
    assert reason in bad[1]


HOSTILE = {
    "a negative length": ("string", b"\x01"),
    "a length beyond the data": ("bytes", b"\xfe\xff\xff\xff\x0f"),
    "a number without an end": ("long", b"\xff" * 11),
    "an int of 33 bits": ("int", b"\x80\x80\x80\x80\x20"),
    "a branch that is not there": (["null", "int"], b"\x04"),
    "a symbol that is not there": ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
    "a count beyond the data": (
        {"type": "array", "items": "int"},
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ),
    "the lowest count": ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\x01\x00"),
    "no UTF-8": ("string", b"\x02\xff"),
    "a boolean of two": ("boolean", b"\x02"),
    "a decimal of too many digits": (
        {"type": "bytes", "logicalType": "decimal", "precision": 2},
        b"\x04\x7f\xff",
    ),
    "a time beyond time": (
        {"type": "long", "logicalType": "timestamp-millis"},
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ),
    "nothing": ("int", b""),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_data_is_bad_and_told(what):
    schema, data = HOSTILE[what]
    wrapped = {"type": "record", "name": "R", "fields": [{"name": "v", "type": schema}]}
    found, bad = read(wrapped, wrapped, [data])
    assert found == [None]
    assert bad[0]


def test_lists_inside_themselves_can_be_skipped_and_not_read():
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "children", "type": {"type": "array", "items": "Tree"}}],
    }
    writer = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "tree", "type": tree}, {"name": "n", "type": "int"}],
    }
    reader = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    value = {"tree": {"children": [{"children": []}, {"children": [{"children": []}]}]}, "n": 7}
    deep = b"\x02" * 3000 + b"\x00" * 3001 + b"\x0e"
    found, bad = read(writer, reader, [*encoded(writer, [value]), deep])
    assert found == [{"n": 7}, None]
    assert "nested deeper than 64" in bad[1]
    with pytest.raises(ConfigError, match=r"field 'tree.children\[\]' .* contains itself"):
        read(writer, writer, [])


def record(*fields):
    return {"type": "record", "name": "R", "fields": [{"name": n, "type": t, **m} for n, t, m in fields]}


@pytest.mark.parametrize(
    ("writer", "reader", "told"),
    [
        (record(("a", "string", {})), record(("a", "int", {})), "field 'a' was written as string, which int"),
        (record(("a", "int", {})), record(("b", "int", {})), "field 'b' was not written, .* no default"),
        (record(("a", "long", {})), record(("a", "int", {})), "field 'a' was written as long"),
        (record(("a", ["null"], {})), record(("a", "int", {})), "field 'a' was written as null"),
        (
            record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, {})),
            record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, {})),
            "field 'a' was written as bytes .decimal.",
        ),
    ],
)
def test_what_no_row_can_be_read_as_is_told(writer, reader, told):
    with pytest.raises(Unreadable, match=told):
        read(writer, reader, [])


def test_a_branch_or_symbol_that_the_reader_has_not_is_bad_in_its_rows_alone():
    writer = record(
        ("u", ["string", "long"], {}), ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, {})
    )
    reader = record(("u", "long", {}), ("e", {"type": "enum", "name": "E", "symbols": ["A"]}, {}))
    rows = [{"u": 1, "e": "A"}, {"u": "x", "e": "A"}, {"u": 2, "e": "B"}]
    found, bad = read(writer, reader, encoded(writer, rows))
    assert found == [{"u": 1, "e": "A"}, None, None]
    assert bad[1] == "field 'u' was written as string, which long can't read"
    assert bad[2] == "the symbol 'B' is not in the reader's enum"


def test_aliases_and_defaults_of_enums_count():
    writer = {
        "type": "record",
        "name": "Old",
        "fields": [
            {"name": "was", "type": "int"},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        ],
    }
    reader = {
        "type": "record",
        "name": "New",
        "aliases": ["Old"],
        "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "X"], "default": "X"}},
            {"name": "is", "aliases": ["was"], "type": "long"},
        ],
    }
    found, bad = read(writer, reader, encoded(writer, [{"was": 4, "e": "A"}, {"was": 5, "e": "B"}]))
    assert (found, bad) == ([{"e": "A", "is": 4}, {"e": "X", "is": 5}], {})


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
UUID = {"type": "fixed", "size": 16, "name": "U", "logicalType": "uuid"}


@pytest.mark.parametrize(
    ("kind", "default", "found"),
    [
        (DECIMAL, (10**38 - 1).to_bytes(16, "big").decode("latin-1"), Decimal("9" * 36 + ".99")),
        (UUID, bytes(range(16)).decode("latin-1"), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    ],
)
def test_a_default_is_what_a_value_of_the_same_bytes_is(kind, default, found):
    writer, reader = record(("a", "int", {})), record(("a", "int", {}), ("b", kind, {"default": default}))
    assert read(writer, reader, [b"\x02"]) == ([{"a": 1, "b": found}], {})
    length = b"\x20" if kind is DECIMAL else b""
    assert read(reader, reader, [b"\x02" + length + default.encode("latin-1")])[0] == [{"a": 1, "b": found}]


def test_a_uuid_is_text():
    schema = record(("u", {"type": "fixed", "size": 16, "name": "U", "logicalType": "uuid"}, {}))
    found, bad = read(schema, schema, [bytes(range(16))])
    assert (found, bad) == ([{"u": "00010203-0405-0607-0809-0a0b0c0d0e0f"}], {})


def test_no_rows_are_a_column_of_the_type():
    schema = Schemas(7).schema()
    wrapped = record(("v", schema, {}))
    assert read(wrapped, wrapped, []) == ([], {})
    assert pa.types.is_struct(Projection(root(wrapped), root(wrapped)).type)
