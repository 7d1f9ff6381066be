"""Random versions and ranges of versions are compared as Maven's classes do, which Kafka Connect uses."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.connect.errors import PluginVersionInvalid
from penstock.connect.plugins.versions import Version, compared, required_versions

CASES = repetitions("PENSTOCK_VERSION_CASES", gate=2_000, long=200_000)
NUMBERS = ("0", "1", "2", "10", "00", "01", "3")
WORDS = ("alpha", "beta", "rc", "cr", "snapshot", "sp", "x", "SNAPSHOT", "a", "b", "m")
STRANGE = (
    "",
    "[1",
    "(1.0)",
    "[2,1]",
    "[1,1)",
    "[1,2],[1.5,3]",
    "[1,2]x",
    "[,1],[2,)",
    "latest",
    "[]",
    "(,)",
    "[ 1 , 2 )",
)


def random_version(chance: random.Random) -> str:
    version = ".".join(chance.choice(NUMBERS) for _ in range(chance.randint(1, 4)))
    if chance.random() < 0.4:
        version += "-" + chance.choice(WORDS)
        version += chance.choice(("", "", chance.choice(NUMBERS), "-" + chance.choice(NUMBERS)))
    return version


def random_range(chance: random.Random) -> str:
    if chance.random() < 0.2:
        return chance.choice(STRANGE)
    if chance.random() < 0.3:
        return chance.choice(("", "[")) + random_version(chance) + chance.choice(("", "]"))
    ends = [chance.choice(("", random_version(chance))) for _ in range(2)]
    return f"{chance.choice('[(')}{ends[0]},{ends[1]}{chance.choice('])')}"


def answer(question: list[str]) -> list[Any]:
    required, one, other = question
    order = compared(Version(one), Version(other))
    try:
        versions = required_versions(required)
    except PluginVersionInvalid as error:
        return [order, str(error)]
    return [order, None if versions is None else [str(versions), one in versions, other in versions]]


@pytest.mark.longer
def test_versions_are_compared_as_by_maven(kafka_libs: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    questions = [[random_range(chance), random_version(chance), random_version(chance)] for _ in range(CASES)]
    asked = tmp_path / "questions"
    asked.write_text("".join(json.dumps(question) + "\n" for question in questions))
    source = Path(__file__).with_name("MavenVersions.java")
    answers = run_java(kafka_libs, str(source), str(asked)).splitlines()
    for question, line in zip(questions, answers, strict=True):
        assert answer(question) == json.loads(line), question


@pytest.mark.parametrize(
    ("older", "newer"),
    [("1.0-alpha", "1.0"), ("1.0-rc1", "1.0"), ("1.9", "1.10"), ("1.0-SNAPSHOT", "1.0"), ("1.0", "1.0.1")],
)
def test_versions_have_an_order(older: str, newer: str) -> None:
    assert Version(older) < Version(newer)
    assert Version("1.0") == Version("1.0.0")
    assert len({Version("1.0"), Version("1")}) == 1
