"""Any row of any schema is unchanged after each format that can carry it, and no bytes crash a reader.

Each run prints the seed that repeats it.
"""

from __future__ import annotations

import math
import pickle
import random
from decimal import Decimal

import pytest

from penstock.sql.catalog import Column, Role, WindowedKey
from penstock.sql.formats import FormatError, key_serde, value_serde
from penstock.sql.language import types
from penstock.sql.language.statements import WindowKind
from penstock.topology.errors import SerdeError
from penstock.topology.serdes import Window, Windowed
from small_registry import SmallRegistry

SIMPLE = (
    *(types.BOOLEAN, types.INTEGER, types.BIGINT, types.DOUBLE, types.STRING, types.BYTES),
    *(types.TIME, types.DATE, types.TIMESTAMP),
)
TEXTS = ("", "a", "é€😀", 'say "hi",\\ ', "\x01\x1b\n\r\t", "\\u001b", "-1", "null", " ")
REALS = (0.0, -0.0, 1.5, 1e7, 1e-3, 123456.789, 5e-324, 1.7976931348623157e308, math.inf, -math.inf)
ROWS = 20


@pytest.fixture
def seeded():
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture(scope="module")
def registry():
    with SmallRegistry().running() as running:
        yield running


def a_type(chance, depth, *, nested=True):
    """A random type; ``nested`` allows arrays directly in arrays, or maps in them, which Protobuf lacks."""
    kind = chance.randrange(12 if depth else 9)
    if kind < 8:
        return chance.choice(SIMPLE)
    if kind == 8:
        precision = chance.randint(1, 38)
        return types.Decimal(precision, chance.randint(0, precision))
    if kind == 9:
        element = a_type(chance, depth - 1, nested=nested)
        while not nested and isinstance(element, (types.Array, types.Map)):
            element = a_type(chance, depth - 1, nested=nested)
        return types.Array(element)
    if kind == 10:
        value = a_type(chance, depth - 1, nested=nested)
        while not nested and isinstance(value, (types.Array, types.Map)):
            value = a_type(chance, depth - 1, nested=nested)
        return types.Map(types.STRING, value)
    return types.Struct(
        tuple((f"F{n}", a_type(chance, depth - 1, nested=nested)) for n in range(chance.randint(1, 3)))
    )


def a_value(chance, type_, nulls):
    """A random value of the type; ``nulls`` allows elements to be null."""
    if nulls and chance.random() < 0.1:
        return None
    match type_:
        case types.Array(element):
            return [a_value(chance, element, nulls) for _ in range(chance.randrange(4))]
        case types.Map(_, value):
            return {chance.choice(TEXTS): a_value(chance, value, nulls) for _ in range(chance.randrange(4))}
        case types.Struct(fields):
            return {name: a_value(chance, each, nulls) for name, each in fields}
        case types.Decimal(precision, scale):
            unscaled = chance.randint(-(10**precision) + 1, 10**precision - 1)
            return Decimal(unscaled).scaleb(-scale)
        case types.BOOLEAN:
            return chance.random() < 0.5
        case types.INTEGER:
            return chance.choice((0, 1, -1, 127, 128, -(1 << 31), (1 << 31) - 1, chance.randrange(1 << 20)))
        case types.BIGINT:
            return chance.choice((0, -1, 1 << 40, -(1 << 63), (1 << 63) - 1, chance.randrange(1 << 50)))
        case types.DOUBLE:
            return chance.choice((*REALS, chance.uniform(-1e12, 1e12)))
        case types.STRING:
            return chance.choice((*TEXTS, str(chance.random())))
        case types.BYTES:
            return chance.randbytes(chance.randrange(6))
        case types.TIME:
            return chance.randrange(86_400_000)
        case types.DATE:
            return chance.randint(-300_000, 300_000)
    return chance.randint(-(10**13), 10**13)


def columns_of(chance, depth, *, nested=True):
    return [
        Column(chance.choice((f"C{n}", f"c{n}")), a_type(chance, depth, nested=nested))
        for n in range(chance.randint(1, 6))
    ]


SETTINGS = {
    "JSON": {},
    "JSON_SR": {},
    "AVRO": {},
    "PROTOBUF": {"VALUE_PROTOBUF_NULLABLE_REPRESENTATION": "OPTIONAL"},
    "PROTOBUF_NOSR": {"VALUE_PROTOBUF_NULLABLE_REPRESENTATION": "WRAPPER"},
}


@pytest.mark.parametrize("format_", SETTINGS)
def test_any_row_comes_back(format_, seeded, registry):
    is_protobuf = format_.startswith("PROTOBUF")
    for number in range(20):
        columns = columns_of(seeded, 2, nested=not is_protobuf)
        settings = {"schema.registry.url": registry.url, **SETTINGS[format_]}
        serde = value_serde(columns, format_, settings, topic=f"{format_}{number}{seeded.random()}")
        serde = pickle.loads(pickle.dumps(serde))
        for _ in range(ROWS):
            row = tuple(a_value(seeded, each.type, nulls=not is_protobuf) for each in columns)
            assert serde.deserialize(serde.serialize(row)) == row, [str(each.type) for each in columns]


@pytest.mark.parametrize("mark", [",", "|", "TAB", "SPACE"])
def test_any_row_of_simple_values_comes_back_delimited(mark, seeded):
    for _ in range(20):
        columns = columns_of(seeded, 0)
        serde = value_serde(columns, "DELIMITED", {"VALUE_DELIMITER": mark})
        for _ in range(ROWS):
            row = tuple(a_value(seeded, each.type, nulls=True) for each in columns)
            if len(row) == 1 and row[0] in (None, "", b""):
                continue  # an empty line
            wanted = tuple(None if value in ("", b"") else value for value in row)
            assert serde.deserialize(serde.serialize(row)) == wanted


@pytest.mark.parametrize("format_", ["JSON", "DELIMITED", "KAFKA", "AVRO", "JSON_SR"])
def test_keys_come_back_in_windows_too(format_, seeded, registry):
    windows = [WindowedKey(WindowKind.TUMBLING, 1000), WindowedKey(WindowKind.SESSION)]
    for window in windows:
        for type_ in (types.INTEGER, types.BIGINT, types.DOUBLE):
            columns = [Column("K", type_, Role.KEY)]
            settings = {"schema.registry.url": registry.url}
            serde = key_serde(columns, format_, settings, window, topic=f"{format_}{type_}")
            start = seeded.randrange(1 << 40)
            end = start + (window.size_ms or seeded.randrange(1000))
            key = Windowed((a_value(seeded, type_, nulls=False),), Window(start, end))
            assert serde.deserialize(serde.serialize(key)) == key


@pytest.mark.parametrize("format_", [*SETTINGS, "DELIMITED", "KAFKA"])
def test_damaged_bytes_are_refused_or_read_and_never_crash(format_, seeded, registry):
    for number in range(10):
        depth = 0 if format_ in ("DELIMITED", "KAFKA") else 2
        columns = columns_of(seeded, depth, nested=False)
        if format_ == "KAFKA":
            columns = [Column("C", types.STRING)]
        settings = {"schema.registry.url": registry.url}
        serde = value_serde(columns, format_, settings, topic=f"d{format_}{number}{seeded.random()}")
        row = tuple(a_value(seeded, each.type, nulls=False) for each in columns)
        good = serde.serialize(row)
        assert good is not None
        for _ in range(60):
            bad = bytearray(good)
            for _ in range(seeded.randint(1, 3)):
                if bad and seeded.random() < 0.8:
                    bad[seeded.randrange(len(bad))] = seeded.randrange(256)
                elif bad:
                    del bad[seeded.randrange(len(bad)) :]
                else:
                    bad += seeded.randbytes(3)
            try:
                found = serde.deserialize(bytes(bad))
            except (FormatError, SerdeError):
                continue
            assert len(found) == len(columns)
