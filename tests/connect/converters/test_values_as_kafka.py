"""Values are converted, printed and inferred from text as Connect's class Values does it in a JVM."""

import re
from pathlib import Path
from typing import Any

import pytest
from connect_values import (
    CHARACTERS,
    LOGICAL,
    SCALARS,
    Chance,
    comparable,
    exists_in_python,
    schema_of,
    shown_schema,
    shown_value,
    value_of,
)
from converter_oracle import answers, is_error, seed

from long_run import repetitions
from penstock.connect.data.schema import Type
from penstock.connect.data.values import convert_value, infer_schema, parse_text, value_text
from penstock.connect.errors import DataError

TOKENS = """
null true false True [ ] { } , : " \\ a abc é ٣ 1 -1 +7 127 128 -129 32768 2147483648 007 1_000 1d
0x1 NaN Infinity 9223372036854775807 9223372036854775808 12345678901234567890123 1.5 1.0 -0 -0.0
1e3 1e19 1E400 1e39 3.4028236e38 0.1 .5 5. 1e-7 1e --1 2019-08-23 2019-8-23 2019-13-45 1500-02-29
2019-02-29 0007-01-01 14:34:54.346Z 12:61:61.999Z 2019-08-23T14:34:54.346Z
2019-08-23T14\\:34\\:54.346Z [1,2] {"a":1} "x" ["a","b"] {1:2} [1,2.5] [null] [] {} {"a":null}
[true,false] [1,"a"] ["2019-08-23"] [[1],[2]] 1, [1,] {,} {"a":1,"b":"c"}
"""
WORDS = (*TOKENS.split(), " ", "\t")
ODD = (*CHARACTERS, *"0123456789-:.TZ[]{},")


def random_text(chance: Chance) -> str:
    match chance.random.randrange(4):
        case 0:
            return str(chance.choice(WORDS))
        case 1:
            return "".join(chance.choice(WORDS) for _ in range(chance.random.randint(1, 6)))
        case 2:
            return nested_text(chance, 3)
    return "".join(
        chance.choice((*CHARACTERS, *"0123456789-:.TZ[]{},")) for _ in range(chance.random.randint(0, 25))
    )


def nested_text(chance: Chance, depth: int) -> str:
    """Text that is an array or a map, or nearly so."""
    if depth == 0 or chance.happens(0.4):
        word = str(chance.choice(WORDS))
        return f'"{word}"' if chance.happens(0.4) else word
    space = chance.choice(["", "", " "])
    parts = [nested_text(chance, depth - 1) for _ in range(chance.random.randint(0, 3))]
    if chance.happens(0.5):
        return f"[{f'{space},{space}'.join(parts)}]"
    entries = [f"{nested_text(chance, 0)}{space}:{space}{each}" for each in parts]
    return f"{{{f'{space},'.join(entries)}}}"


def random_question(chance: Chance) -> dict[str, Any]:
    schema = chance.schema(2)
    value = chance.value(schema)
    match chance.random.randrange(5):
        case 0 | 1:
            return {"op": "parse", "text": random_text(chance)}
        case 2:
            return {"op": "text", "schema": schema, "value": value}
        case 3:
            return {"op": "infer", "value": value_of_python(chance)}
    if chance.happens(0.3):
        schema, value = {"type": "STRING", "optional": False}, ["string", random_text(chance)]
    return {"op": "convert", "to": target(chance), "from": schema, "value": value}


def value_of_python(chance: Chance) -> Any:
    """Describe a value whose types a value in Python has by itself."""
    chance.scalars = (Type.INT64, Type.FLOAT64, Type.BOOLEAN, Type.STRING, Type.BYTES)
    try:
        return chance.value(chance.schema(2))
    finally:
        chance.scalars = SCALARS


def target(chance: Chance) -> dict[str, Any]:
    if chance.happens(0.4):
        name = chance.choice(list(LOGICAL))
        more = {"parameters": {"scale": "2"}} if LOGICAL[name][0] == "decimal" else {}
        return {"type": LOGICAL[name][1].name, "name": name, "optional": False, **more}
    type_ = chance.choice([*(each.name for each in SCALARS), "ARRAY", "MAP", "STRUCT"])
    string = {"type": "STRING", "optional": False}
    contents: dict[str, Any] = {"items": string, "keys": string, "values": string, "fields": []}
    parts = {"ARRAY": ["items"], "MAP": ["keys", "values"], "STRUCT": ["fields"]}.get(type_, [])
    return {"type": type_, "optional": chance.happens(0.2), **{part: contents[part] for part in parts}}


def answer(question: dict[str, Any]) -> Any:
    """Answer as KafkaConverters.java does."""
    try:
        match question["op"]:
            case "parse":
                schema, value = parse_text(question["text"])
                return [shown_schema(schema), shown_value(value)]
            case "text":
                return value_text(schema_of(question["schema"]), value_of(question["value"]))
            case "infer":
                return shown_schema(infer_schema(value_of(question["value"])))
        to, source = schema_of(question["to"]), schema_of(question["from"])
        return shown_value(convert_value(to, source, value_of(question["value"])))
    except DataError as error:
        return {"error": str(error)}


def is_meant(question: dict[str, Any], expected: Any, found: Any) -> bool:
    """Whether a difference is one that we know."""
    match question, expected, found:
        case {"op": "infer"}, {"error": _}, None:
            return True  # only nulls have no common type; Kafka raises a NullPointerException in disguise
        case {"op": "convert"}, ["decimal", [one, scale]], ["decimal", [other, other_scale]]:
            # before version 19, Java prints some doubles with more digits than they need
            return float(f"{one}e{-scale}") == float(f"{other}e{-other_scale}")
    if question["op"] == "parse" and re.search(r"[]}]\s*:", question["text"]):
        return bool(found[1] == ["string", question["text"]])  # a list or a map cannot be a key in Python
    return not exists_in_python(expected)


@pytest.mark.kafka
@pytest.mark.longer
def test_values_are_those_of_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    chance = Chance(seed())
    questions = [
        random_question(chance) for _ in range(repetitions("PENSTOCK_CONVERTER_CASES", 6_000, 200_000))
    ]
    for question, expected in zip(questions, answers(kafka_libs, tmp_path, questions), strict=True):
        found = answer(question)
        is_same = is_error(found) if is_error(expected) else comparable(found) == comparable(expected)
        assert is_same or is_meant(question, expected, found), (question, expected, found)
