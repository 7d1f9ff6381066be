"""Random patterns, moments and texts: the same dates as SimpleDateFormat in a JVM."""

import os
import random
import re
import subprocess
from pathlib import Path

from kafka_node import JAVA, PROGRAM_OPTIONS, compiled
from long_run import repetitions
from penstock.java.dates import SimpleDateFormat

ORACLE = Path(__file__).with_name("JavaDates.java")
IN_ENGLISH = ("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US")
PATTERNS = (
    "yyyy-MM-dd",
    "yyyyMMdd",
    "yyyyMMddHHmmssSSS",
    "yyyy-MM-dd'T'HH:mm:ss.SSSX",
    "yyyy-MM-dd'T'HH:mm:ssXXX",
    "EEE, d MMM yyyy HH:mm:ss Z",
    "EEEE d MMMM yyyy hh 'o''clock' a z",
    "yy/M/d",
    "d.M.yy h:m a",
    "YYYY-'W'ww-u",
    "yyyy-DDD",
    "yyyy-MM W E",
    "yyyy-MM F EEE",
    "G y",
    "kk:mm K:m",
    "S",
)
LETTERS = "GyMdkHmsSEDFwWahKzZYuXL"
ZONES = (
    "Z",
    "+0100",
    "-08",
    "+05:30",
    "GMT",
    "gmt+3:00",
    "GMT-12:30",
    "UTC",
    "EST",
    "pdt",
    "+2500",
    "x",
    "Z1",
    "+1",
)
NAMES = ("Mon", "sunday", "January", "feb", "SEPTEMBER", "May", "AM", "pm", "AD", "bc", "Anno Domini", "June")
CHRIST = -62_135_769_600_000
MANY_YEARS = 10**16
DAY_MS = 24 * 60 * 60 * 1000


def random_pattern(chance: random.Random) -> str:
    if chance.random() < 0.6:
        return chance.choice(PATTERNS)
    parts = []
    for _ in range(chance.randint(1, 6)):
        kind = chance.random()
        if kind < 0.7:
            parts.append(chance.choice(LETTERS) * chance.choice([1, 1, 2, 2, 3, 4, 5]))
        elif kind < 0.97:
            parts.append(chance.choice(["-", "/", " ", ":", "''", "'T'", "'it''s'", ", ", "."]))
        else:
            parts.append(chance.choice(["b", "'", "Q", "XXXX"]))
    return "".join(parts)


def random_millis(chance: random.Random) -> int:
    match chance.randrange(5):
        case 0:
            return chance.randint(-(10**13), 10**13)
        case 1:
            return chance.randint(-(10**15), 10**15)
        case 2:  # about the end of the Julian calendar
            return (-141_427 + chance.randint(-400, 400)) * DAY_MS + chance.randrange(DAY_MS)
        case 3:  # about the turn of a year
            return (chance.randint(-600, 600) * 36525 // 100 + chance.randint(-9, 9)) * DAY_MS
    return chance.randint(0, 2 * 10**12)


def random_text(chance: random.Random, pattern: str, formatted: str) -> str:
    """A text for a pattern: what it formats, perhaps damaged, or numbers and names in its places."""
    kind = chance.random()
    if kind < 0.35:
        return formatted
    if kind < 0.6:
        damaged = list(formatted)
        extra = ["", " ", "-", "9", "0", "x", "\t", *(() if "y" in pattern.lower() else ("1E1",))]
        for _ in range(chance.randint(1, 2)):
            at = chance.randrange(len(damaged) + 1)
            damaged[at : at + chance.randint(0, 1)] = chance.choice(extra)
        return "".join(damaged)
    made, at = "", 0
    while at < len(pattern):
        count = len(pattern[at:]) - len(pattern[at:].lstrip(pattern[at]))
        letter = pattern[at]
        if letter in "zZX":
            made += chance.choice(ZONES)
        elif letter in "EaG" or (letter in "ML" and count > 2):
            made += chance.choice(NAMES)
        elif letter.isalpha():
            number = str(
                chance.choice([chance.randint(0, 13), chance.randint(-99, 99), chance.randint(0, 99999)])
            )
            made += number.zfill(chance.choice([0, count]))
        elif letter != "'":
            made += letter * count
        at += count
    return made


def test_dates_as_java(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    cases = []
    for _ in range(repetitions("PENSTOCK_JAVA_DATES", gate=4_000, long=500_000)):
        pattern, millis = random_pattern(chance), random_millis(chance)
        formatted = shown(pattern, "format", millis)
        if is_refused(formatted) or chance.random() < 0.4:
            cases.append((pattern, "format", str(millis), formatted))
        else:
            text = random_text(chance, pattern, bytes.fromhex(formatted).decode())
            cases.append((pattern, "parse", text.encode().hex(), shown(pattern, "parse", text)))
    expected = answers(tmp_path, [case[:3] for case in cases])
    differences = [
        f"{operation} {pattern!r} {argument if operation == 'format' else bytes.fromhex(argument)}: "
        f"ours {ours}, Java {java}"
        for (pattern, operation, argument, ours), java in zip(cases, expected, strict=True)
        if ours != java
        and not (is_refused(ours) and is_refused(java))
        and not is_absurd(pattern, operation, argument, java)
    ]
    assert not differences, "\n".join(differences[:20])


def is_refused(answer: str) -> bool:
    return answer.startswith("refused ")


def is_absurd(pattern: str, operation: str, argument: str, java: str) -> bool:
    """Whether Java's `int` years overflow, its week years go wrong, or a pattern has two zones."""
    if sum(letters[0] in "zZX" for letters in re.findall(r"([zZX])\1*", pattern)) > 1:
        return True
    if operation == "format":
        return "Y" in pattern and int(argument) < CHRIST
    return java.lstrip("-").isdigit() and abs(int(java)) > MANY_YEARS


def shown(pattern: str, operation: str, argument: int | str) -> str:
    """Our answer, as the Java program shows its own."""
    try:
        date_format = SimpleDateFormat(pattern)
    except ValueError as error:
        return f"refused {str(error).encode().hex()}"
    if operation == "format":
        assert isinstance(argument, int)
        return date_format.format(argument).encode().hex()
    assert isinstance(argument, str)
    found = date_format.parse(argument)
    return "none" if found is None else str(found)


def answers(directory: Path, questions: list[tuple[str, str, str]]) -> list[str]:
    asked, answered = directory / "questions", directory / "answers"
    asked.write_text(
        "".join(
            f"{operation} {pattern.encode().hex()} {argument}\n" for pattern, operation, argument in questions
        )
    )
    command = [*JAVA, *PROGRAM_OPTIONS, *IN_ENGLISH, "-cp", str(compiled("", ORACLE)), "JavaDates"]
    subprocess.run([*command, asked, answered], check=True, timeout=600)
    return answered.read_text().split("\n")[:-1]
