"""Functions on URLs and JSON compared with the classes of Java that ksqlDB calls, on random texts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

from kafka_node import java_command
from penstock.sql.evaluation.builtin import json_texts, urls

HERE = Path(__file__).parent
TEXTS = 3_000
SCHEMES = (
    "",
    "http://",
    "HTTP://Host.Com",
    "http://h/p?",
    "ftp://u@h:21/",
    "http:",
    "//",
    "mailto:a@b",
    "urn:x:",
)
PIECES_OF_URLS = (
    *(
        "http",
        "://",
        "//",
        "/",
        "?",
        "#",
        "@",
        ":",
        "+",
        " ",
        "~",
        "a",
        "b.c",
        "B.C",
        "-",
        "_",
        ".",
        "..",
        "[",
        "]",
    ),
    *(
        "%",
        "%4",
        "%41",
        "%C3%A9",
        "%ff",
        "%+f",
        "%-0",
        "%2",
        "%zz",
        "\\",
        "^",
        "{",
        "|",
        "'",
        "(",
        "*",
        ";",
        "$",
        ",",
    ),
    *(
        "[::1]",
        "[1::2%eth0]",
        "[::1.2.3.4]",
        "1.2.3.4",
        "256.1.1.1",
        "1.2.3",
        "8080",
        "99999999999",
        "0",
        "http:",
    ),
    *(
        "é",
        "\u00a0",
        "\u2028",
        "𝔸",
        "=",
        "&",
        "x=1",
        "&x",
        "user:pw@",
        "!",
        '"',
        "<",
        "\t",
        "\x7f",
        "?q=a+b",
        "#f",
    ),
)
VALUES = (
    *(
        "1",
        "-0",
        "-0.0",
        "1.10",
        "1e5",
        "1E+5",
        "-1.50e-3",
        "1e-9",
        "0.0000001",
        "123456789012345678901234567890",
    ),
    *(
        '"a"',
        '"\\u00e9"',
        '"é"',
        '"\\u001f\\u000b"',
        '"\x7f"',
        '"a\\"b\\\\"',
        '"\\u2028"',
        "null",
        "true",
        "false",
    ),
)
PIECES_OF_JSON = (
    *VALUES,
    *(
        "01",
        "1.",
        "-",
        ".5",
        "+1",
        '"\\q"',
        '"\t"',
        "nul",
        "truex",
        "NaN",
        "Infinity",
        "/*c*/",
        "#x",
        "{",
        "}",
        "[",
    ),
    *("]", ",", ":", " ", "\t", "\n", "\u00a0", "'a'", "a", "\x0b", "1_0", "1e99999", "1e9999999999"),
)


def some_url(random: Random) -> str:
    return random.choice(SCHEMES) + "".join(random.choices(PIECES_OF_URLS, k=random.randrange(7)))


def some_json(random: Random) -> str:
    """A text in JSON, or nearly."""
    letters = list(some_value(random))
    if random.random() < 0.3:
        for _ in range(random.randrange(1, 3)):
            letters.insert(random.randrange(len(letters) + 1), random.choice(PIECES_OF_JSON))
    if random.random() < 0.2:
        letters.append(random.choice(PIECES_OF_JSON))
    return "".join(letters)


def some_value(random: Random, depth: int = 0) -> str:
    kind = random.random() if depth < 4 else 0
    if kind < 0.5:
        return random.choice(VALUES)
    members = [some_value(random, depth + 1) for _ in range(random.randrange(4))]
    if kind < 0.75:
        return f"[{','.join(members)}]"
    named = (random.choice(('"a"', '"b" ', '"é"', '"\\u0001"')) + f":{each}" for each in members)
    return f"{{{', '.join(named)}}}"


def asked_of_java(texts: list[str], libs: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        java_command(libs, str(HERE / "JavaFunctions.java")),
        input="".join(f"{json.dumps(each)}\n" for each in texts).encode(),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


def found_here(text: str) -> dict[str, Any]:
    """The answers of our functions, in the form of Java's."""
    return {
        **parts_of_url(text),
        **json_of(text),
        "decoded": result_of("URL_DECODE_PARAM", text),
        "encoded": result_of("URL_ENCODE_PARAM", text),
    }


def result_of(function: str, text: str) -> Any:
    try:
        return urls.FUNCTIONS[function](text)
    except ValueError:
        return "refused"


def parts_of_url(text: str) -> dict[str, Any]:
    return {
        part: result_of(f"URL_EXTRACT_{part.upper()}", text)
        for part in ("protocol", "host", "port", "path", "query", "fragment")
    }


def json_of(text: str) -> dict[str, Any]:
    try:
        return {"json": json_texts.FUNCTIONS["EXTRACTJSONFIELD"](text, "$"), **plain_json_of(text)}
    except ValueError:
        return {"json": "refused", "plain": "refused"}


def plain_json_of(text: str) -> dict[str, Any]:
    try:
        return {"plain": json_texts.FUNCTIONS["JSON_CONCAT"](text)}
    except ValueError:
        return {"plain": "refused"}


def test_urls_and_json_are_read_as_java_reads_them(kafka_libs: Path) -> None:
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    random = Random(seed)
    texts = [(some_url if random.random() < 0.5 else some_json)(random) for _ in range(TEXTS)]
    answers = asked_of_java(texts, kafka_libs)
    differing = {
        text: (found, answer)
        for text, answer in zip(texts, answers, strict=True)
        if (found := found_here(text)) != answer
    }
    assert differing == {}
    for part in ("host", "json", "decoded"):
        refused = sum(answer[part] == "refused" for answer in answers)
        assert 0 < refused < TEXTS
