"""Cases of formats in text files: a source, then what its keys and values read, write and refuse.

    value reads {"id":5} -> [5, null]
    key writes ["a"] @ 2000..3000 -> hex: 22 61 22 00 …
    value refuses [1] -> found list [1], expected an object

Bytes are UTF-8 as they stand, or `hex:`; rows are JSON, with bytes as base64 and decimals as texts.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from record_cases import from_json

from penstock.sql.analysis import analyze
from penstock.sql.catalog import Catalog, Column, Role
from penstock.sql.formats import FormatError, format_settings, key_serde, value_serde
from penstock.sql.language import types
from penstock.sql.language.parsing.script import parse
from penstock.topology.errors import SerdeError
from penstock.topology.serdes import Window, Windowed
from small_registry import SmallRegistry

CASES = Path(__file__).parents[1] / "cases" / "formats"
LINE = re.compile(r"(key|value) (reads|writes|refuses) (.*?) ?-> (.*)")


def cases():
    for path in sorted(CASES.glob("*.txt")):
        for text in re.split(r"^== ", path.read_text(), flags=re.M)[1:]:
            name, statement, *lines = [each for each in text.splitlines() if each.strip()]
            yield pytest.param(statement, lines, id=f"{path.stem}: {name}")


def row_of(text, columns):
    values, _, window = text.partition(" @ ")
    row = tuple(from_json(value, each.type) for value, each in zip(json.loads(values), columns, strict=True))
    if not window:
        return row
    return Windowed(row, Window(*map(int, window.split(".."))))


def bytes_of(text):
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()


def serde_of(source, side, url):
    settings = format_settings(source, {"schema.registry.url": url})
    if side == "key":
        return source.keys, key_serde(source.keys, source.key_format, settings, source.window, topic="t")
    columns = [each for each in source.columns if each.role is Role.VALUE]
    return columns, value_serde(columns, source.value_format, settings, topic="t")


@pytest.mark.parametrize(("statement", "lines"), list(cases()))
def test_bytes_and_rows(statement, lines):
    source = analyze(parse(statement), Catalog()).catalog.source("S")
    with SmallRegistry().running() as registry:
        for line in lines:
            side, what, given, expected = LINE.fullmatch(line).groups()
            columns, serde = serde_of(source, side, registry.url)
            match what:
                case "writes":
                    made = serde.serialize(row_of(given, columns))
                    assert made == (None if expected == "nothing" else bytes_of(expected)), line
                case "reads":
                    wanted = row_of(expected, columns)
                    # Twice, because a reader that has learnt from a text must still read it the same way.
                    for _ in range(2):
                        found = serde.deserialize(bytes_of(given))
                        assert (found, list(map(type, found))) == (wanted, list(map(type, wanted))), line
                case "refuses":
                    for _ in range(2):
                        with pytest.raises((FormatError, SerdeError)) as refused:
                            serde.deserialize(bytes_of(given))
                        assert str(refused.value) == expected, line


def test_objects_of_thousands_of_fields() -> None:
    """A generated sum of that many texts would be too deep for Python's compiler."""
    columns = tuple(Column(f"C{n}", types.INTEGER, Role.VALUE) for n in range(3_000))
    serde = value_serde(columns, "JSON", {})
    row = tuple(n if n % 2 else None for n in range(3_000))
    data = serde.serialize(row)
    assert (
        data
        == json.dumps(dict(zip([each.name for each in columns], row, strict=True))).replace(" ", "").encode()
    )
    assert serde.deserialize(data) == row
