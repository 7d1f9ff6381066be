"""Patterns of times compared with the formatters of Java that ksqlDB calls, on random patterns and times.

Java and Python have time zone databases of different releases. A case in which the zone has another offset
there, or daylight saving time only there, is left out.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pyspark

from kafka_node import java_command
from penstock.sql.evaluation.builtin.temporal import FUNCTIONS
from penstock.sql.evaluation.builtin.times.moments import moment_in
from penstock.sql.evaluation.builtin.times.patterns import pattern_of
from penstock.sql.evaluation.builtin.times.zones import region_names, zone_of

HERE = Path(__file__).parent
CASES = 3_000
DAY_MS = 86_400_000
DATE_LETTERS = "GuyYQqMLwWFEecdDg"
TIME_LETTERS = "aBhKHkmsSAnN"
LETTERS = DATE_LETTERS + TIME_LETTERS + "VvzZOXx"
# How many of a letter are right; of the other letters, one to five.
COUNTS = {
    **dict.fromkeys("uyY", (1, 2, 3, 4, 5, 7)),
    **dict.fromkeys("gAnN", (1, 2, 5, 9)),
    **dict.fromkeys("wdhHkKms", (1, 2)),
    **dict.fromkeys("WFa", (1,)),
    **dict.fromkeys("vO", (1, 4)),
    "D": (1, 2, 3),
    "c": (1, 3, 4, 5),
    "B": (1, 4, 5),
    "S": (1, 3, 6, 9),
    "V": (2,),
    "z": (1, 2, 3, 4),
}
COMMON = (
    *("yyyy-MM-dd", "yyyy-MM-dd[ HH:mm[:ss[.SSS]]]", "yyyy-MM-dd'T'HH:mm:ssX", "dd/MM/yyyy HH:mm:ss.SSS"),
    *("yyyyMMddHHmmssSSS", "EEE, d MMM yyyy HH:mm:ss Z", "yyyy-DDD HH", "YYYY-'W'ww-e", "uuuu-MM-dd HH:mm z"),
    *("d MMM yy h:mm a", "yyyy-MM-dd HH:mm:ss zzzz", "GGGG y MMMM d", "yyyy-MM-dd HH:mm VV", "hh:mm:ss a"),
    *("yyyy QQQ", "HH:mm:ss.n", "YYYY w EEE", "yyyy MM W EEE", "h B", "yyyy-MM-dd h:mm B", "g A", "D yyyy"),
    *("HHmm", "HH:mm:ss.SSSSSSSSS O", "uuuu-MM-dd'T'HH:mm:ss.SSSxxx'['VV']'", "yyyy-MM-dd HH:mm OOOO"),
)
SEPARATORS = (" ", "-", ":", ".", "/", ", ", "'T'", "''", "'o''clock'", "é", "[")
ZONES = ("UTC", "GMT", "Z", "+02:00", "-03:30", "GMT+2", "UTC-05:00", "UT", "+00:00:30", "America/New_York")


def some_pattern(random: Random, letters: str) -> str:
    if random.random() < 0.3:
        return random.choice(COMMON)
    parts = []
    for _ in range(random.randrange(1, 7)):
        letter = random.choice(letters)
        counts = COUNTS.get(letter, (1, 2, 3, 4, 5)) if random.random() < 0.97 else (2, 3, 6, 20)
        part = letter * random.choice(counts)
        if random.random() < 0.05:
            part = "p" * random.randrange(1, 12) + part
        if random.random() < 0.15:
            part = f"[{part}]"
        parts.append(part)
        if random.random() < 0.7:
            parts.append(random.choice(SEPARATORS))
    if random.random() < 0.02:
        parts.insert(random.randrange(len(parts)), random.choice(("b", "{", "#", "'", "p", "]", "i")))
    return "".join(parts)


def some_timestamp(random: Random) -> int:
    kind = random.random()
    if kind < 0.5:
        return random.randrange(0, 2_145_916_800_000)
    if kind < 0.9:
        return random.randrange(-62_135_596_800_000, 253_402_300_799_000)
    return random.randrange(-(10**15), 10**15)


def some_zone(random: Random, known: list[str]) -> str:
    return random.choice(ZONES) if random.random() < 0.3 else random.choice(known)


DATE_PARTS = (
    "y",
    "yy",
    "yyyy",
    "YYYY",
    "M",
    "MM",
    "MMM",
    "MMMM",
    "L",
    "d",
    "dd",
    "D",
    "DDD",
    "E",
    "EEEE",
    "u",
)
MORE_DATE_PARTS = (
    "G",
    "w",
    "W",
    "F",
    "a",
    "H",
    "HH",
    "K",
    "h",
    "k",
    "mm",
    "s",
    "S",
    "X",
    "XXX",
    "z",
    "Z",
    "'T'",
)


def some_date(random: Random) -> tuple[str, str]:
    """A text, and a pattern of PARSE_DATE that fits it, or nearly."""
    if random.random() < 0.4:
        days = random.randrange(-719_162, 200_000)
        pattern = random.choice(
            ("yyyy-MM-dd", "dd/MM/yyyy'Freya'", "yyyyMMdd", "EEE, d MMM yyyy", "yyyy-DDD")
        )
        return answer_here(("FORMAT_DATE", str(days), pattern, ""))[1:], pattern
    parts, texts = [], []
    for _ in range(random.randrange(1, 5)):
        part = random.choice(DATE_PARTS if random.random() < 0.8 else MORE_DATE_PARTS)
        between = random.choice(("-", " ", "/", ""))
        parts.append(part + between)
        number = random.choice((0, 1, 2, random.randrange(40), random.randrange(2200)))
        words = {
            "E": "Mon|tuesday",
            "G": "AD|bc",
            "a": "AM|pm",
            "X": "Z|+02",
            "z": "GMT|UTC|+0100",
            "Z": "+0000",
        }
        words |= {"'": "T", "M": "Jan|december|May"} if part != "MM" and part != "M" else {"'": "T"}
        if part[0] in "HKhkmsS":
            number = random.choice((0, 0, 0, 12, 24))
        texts.append(random.choice(words.get(part[0], str(number)).split("|")) + between)
    return "".join(texts), "".join(parts)


def broken(random: Random, text: str) -> str:
    """The text with some of its characters changed."""
    characters = list(text)
    for _ in range(random.randrange(1, 3)):
        at = random.randrange(len(characters) + 1)
        kind = random.random()
        if kind < 0.4 and at < len(characters):
            characters[at] = random.choice("0123456789+-: AZaz")
        elif kind < 0.7:
            characters.insert(at, random.choice("0123456789+-: AZaz"))
        elif at < len(characters):
            del characters[at]
    return "".join(characters)


def some_cases(random: Random, known: list[str]) -> list[tuple[str, ...]]:
    """Functions and their arguments: formatting something, and parsing what was formatted."""
    cases: list[tuple[str, ...]] = []
    while len(cases) < CASES:
        kind = random.random()
        zone = some_zone(random, known)
        if kind < 0.2:
            text, pattern = some_date(random)
            cases.append(("PARSE_DATE", text, pattern, ""))
            continue
        if kind < 0.7:
            given = some_timestamp(random)
            cases.append(("FORMAT_TIMESTAMP", str(given), some_pattern(random, LETTERS), zone))
            reader = "PARSE_TIMESTAMP"
        elif kind < 0.85:
            days = some_timestamp(random) // DAY_MS
            cases.append(("FORMAT_DATE", str(days), some_pattern(random, DATE_LETTERS + "a"), ""))
            reader = "STRINGTODATE"
        else:
            pattern = some_pattern(random, TIME_LETTERS * 4 + "yX")
            cases.append(("FORMAT_TIME", str(random.randrange(DAY_MS)), pattern, ""))
            reader = "PARSE_TIME"
        written = answer_here(cases[-1])
        if written != "!" and not is_unordered(cases[-1][2]):
            text = written[1:]
            text = random.choice((text, text, text.lower(), text.upper(), broken(random, text)))
            cases.append((reader, text, cases[-1][2], zone))
    return cases


def is_unordered(pattern: str) -> bool:
    """Return whether a pattern has the weekday twice, as a local number and otherwise.

    If they contradict each other, Java's answer depends on the order of its hash map.
    """
    local = re.search(r"(?<!e)ee?(?!e)|(?<!c)c(?!c)", pattern)
    return local is not None and re.search(r"E|eee|ccc", pattern) is not None


def answer_here(case: tuple[str, ...]) -> str:
    function, value, pattern, zone = case
    given: Any = int(value) if function.startswith("FORMAT") else value
    try:
        if function in ("FORMAT_TIMESTAMP", "PARSE_TIMESTAMP"):
            return f"={FUNCTIONS[function](given, pattern, zone)}"
        return f"={FUNCTIONS[function](given, pattern)}"
    except ValueError:
        return "!"


def asked_of_java(cases: list[tuple[str, ...]]) -> list[str]:
    [commons_lang] = (Path(pyspark.__file__).parent / "jars").glob("commons-lang3-*.jar")
    done = subprocess.run(
        java_command(commons_lang, str(HERE / "JavaTimes.java")),
        input="".join("\t".join(case) + "\n" for case in cases).encode(),
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().split("\n")[:-1]


def offset_asked(case: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the question for the offset that the case depends on, and the answer here."""
    function, value, pattern, name = case
    answer = answer_here(case)
    second_ms, zone = "0", zone_of("UTC")
    if function == "FORMAT_TIMESTAMP":
        second_ms, zone = value, zone_of(name)
    elif function == "PARSE_TIMESTAMP" and answer != "!":
        second_ms, zone = answer[1:], pattern_of(pattern).read(value).zone or zone_of(name)
    moment = moment_in(zone, int(second_ms))
    daylight = "d" if zone.has_daylight_saving_at(moment.epoch_second) else ""
    return ("offset", second_ms, "", zone.name), f"={moment.offset_seconds}{daylight}"


def test_patterns_are_java_s() -> None:
    seed = Random().randrange(2**32)
    print(f"seed {seed}")
    cases = some_cases(Random(seed), sorted(region_names()))
    offsets = [offset_asked(case) for case in cases]
    answers = asked_of_java([*cases, *(question for question, _ in offsets)])
    compared = [
        (case, answer)
        for case, answer, (_, here), there in zip(
            cases, answers[: len(cases)], offsets, answers[len(cases) :], strict=True
        )
        if here == there
    ]
    differing = {case: (found, answer) for case, answer in compared if (found := answer_here(case)) != answer}
    assert differing == {}
    assert len(compared) > 0.9 * len(cases)
    for function in {case[0] for case in cases}:
        refused = [answer == "!" for case, answer in compared if case[0] == function]
        assert 0 < sum(refused) < len(refused)
