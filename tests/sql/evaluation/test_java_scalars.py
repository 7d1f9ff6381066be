"""Functions on strings and numbers compared with the classes of Java that ksqlDB calls, on random values."""

from __future__ import annotations

import json
import math
import struct
import subprocess
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafka_node import java_command
from maven_jars import jars_of
from penstock.sql.evaluation.builtin import SCALARS
from penstock.sql.language import types

HERE = Path(__file__).parent
JARS_OF_AVRO = HERE.parents[1] / "registry" / "formats" / "avro_pom.xml"
"""Avro needs Jackson, Commons Lang and Commons Codec, which ksqlDB's functions call as well."""
VALUES = 4_000
LETTERS = (
    "abAB12 \t\u00a0\u2003\x1f-_=+/\\'\"uéßÉİıσǅª²①Ⓐⓐ٣ꜱ"
    "\ud83d\ude00\U0001f600\U00010400\U00010428\u2028\uffff\0"
)
"""There is no capital sigma: beside digits and symbols, Java finds the end of its word by other rules."""
ESCAPES = (
    "\\",
    "\\u",
    "\\u00e9",
    "\\u+0042",
    "\\n",
    "\\101",
    "\\400",
    "\\8",
    "\\\\",
    '\\"',
    "\\q",
    "\\uuud83d",
)
BASE64 = ("QQ", "QQ==", "QUI", "QUI=", "QUJD", "Q", "=", "-_", "+/", " ", "\n")
DOUBLES = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.1, 0.001, 2.0, -2.0, 3.0, 8.0, -27.0, 265.335),
    *(1e300, -1e300, 5e-324, 1.7976931348623157e308, 2.0**52 + 0.5, 2.0**53, 2.0**63, -(2.0**63), 9.2e18),
    *(0.49999999999999994, -0.49999999999999994, -0.5000000000000001, math.inf, -math.inf, math.nan, 1e-7),
)
UNITS_IN_LAST_PLACE = 4
"""Java allows its functions of roots, powers and angles an error of this size."""
ABOUT = ("CBRT", "SINH", "SIN", "COT", "EXP", "LN", "ACOS", "TANH", "POWER", "ATAN2")


def some_text(random: Random) -> str:
    pieces = random.choice((LETTERS, LETTERS, LETTERS[:20], ESCAPES, BASE64))
    text = "".join(random.choices(pieces, k=random.randrange(8)))
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def some_texts(random: Random) -> dict[str, Any]:
    text = some_text(random)
    cut = random.randrange(len(text) + 1)
    other = text[cut : cut + random.randrange(3)] if random.random() < 0.8 else some_text(random)
    return {"text": text, "other": other, "position": random.randrange(-8, 9), "count": random.randrange(9)}


def some_double(random: Random) -> float:
    match random.randrange(4):
        case 0:
            return random.choice(DOUBLES)
        case 1:
            return random.choice((-1, 1)) * random.randrange(10**6) / 1000
        case 2:
            return random.uniform(-1.1, 1.1)
    return struct.unpack("<d", random.randbytes(8))[0]


def some_doubles(random: Random) -> dict[str, Any]:
    one, other = some_double(random), some_double(random)
    return {
        "one": bits_of(one),
        "other": bits_of(one if random.random() < 0.1 else other),
        "places": random.choice((0, 1, 2, 3, -1, -5, 20, -400, 1_000)),
    }


def bits_of(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", math.nan if value != value else value))[0]


def double_of(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<q", bits))[0]


def called(name: str, *values: Any, of: types.SqlType = types.STRING) -> Any:
    """The result of a function, or "refused"."""
    try:
        return SCALARS[name].bind([of, *[None] * (len(values) - 1)], of)(*values)
    except ValueError:
        return "refused"


def of_texts(given: dict[str, Any]) -> dict[str, Any]:
    """The answers of our functions, in the form of Java's."""
    text, other, position, count = (given[name] for name in ("text", "other", "position", "count"))
    return {
        **{name: called(name, text) for name in ("LEN", "UCASE", "LCASE", "TRIM", "INITCAP")},
        "REPLACE": called("REPLACE", text, other, "<>"),
        "SPLIT": called("SPLIT", text, ""),
        "INSTR": called("INSTR", text, other, position, count),
        "SUBSTRING": called("SUBSTRING", text, count + 1),
        "RPAD": called("RPAD", text, count, other) if other else called("SUBSTRING", text, 1, count),
        "MASK": called("MASK", text, "U", "l", "d", "-"),
        "CHR": called("CHR", f"\\u0041{text}"),
        **{
            encoding: in_base64(called("TO_BYTES", text, encoding))
            for encoding in ("utf8", "ascii", "base64")
        },
        "lenient base64": in_base64_of_hex(called("ENCODE", text, "base64", "hex")),
        **{f"of {encoding}": recoded(text, encoding) for encoding in ("utf8", "ascii")},
    }


def in_base64(data: bytes | str) -> str:
    return data if isinstance(data, str) else b64encode(data).decode()


def in_base64_of_hex(digits: str) -> str:
    return b64encode(bytes.fromhex(digits)).decode()


def recoded(text: str, encoding: str) -> Any:
    return called("FROM_BYTES", text.encode("latin-1", "replace"), encoding)


def of_doubles(given: dict[str, Any]) -> dict[str, Any]:
    one, other, places = double_of(given["one"]), double_of(given["other"]), given["places"]

    def of_one(name: str, *values: Any) -> Any:
        return called(name, one, *values, of=types.DOUBLE)

    alone = ("DEGREES", "RADIANS", "SQRT", "CEIL", "FLOOR", "ABS", *ABOUT[:-2])
    return {
        **{name: bits_of(of_one(name)) for name in alone},
        **{name: bits_of(of_one(name, other)) for name in ABOUT[-2:]},
        **{name: of_one(name) for name in ("SIGN", "ROUND", "TRUNC")},
        "NULLIF": of_one("NULLIF", other) is None,
        **{
            f"{name} places": made if made == "refused" else bits_of(made)
            for name in ("ROUND", "TRUNC")
            for made in [of_one(name, places)]
        },
    }


def nearly_equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the answers are equal, except for the last places of what only has to be about right."""
    return one.keys() == other.keys() and all(
        value == other[name] or (name in ABOUT and abs(value - other[name]) <= UNITS_IN_LAST_PLACE)
        for name, value in one.items()
    )


def asked_of_java(questions: list[dict[str, Any]], libs: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        java_command(libs, str(HERE / "JavaScalars.java")),
        input="".join(f"{json.dumps(each)}\n" for each in questions).encode(),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


@pytest.mark.parametrize(
    ("question", "found_here"), [(some_texts, of_texts), (some_doubles, of_doubles)], ids=["texts", "doubles"]
)
def test_functions_answer_as_java_does(
    question: Callable[[Random], dict[str, Any]], found_here: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    random = Random(seed)
    questions = [question(random) for _ in range(VALUES)]
    answers = asked_of_java(questions, jars_of(JARS_OF_AVRO, "avro-1.12.1"))
    differing = [
        (given, {name: (value, answer[name]) for name, value in found.items() if value != answer[name]})
        for given, answer in zip(questions, answers, strict=True)
        if not nearly_equal(found := found_here(given), answer)
    ]
    assert differing == []
