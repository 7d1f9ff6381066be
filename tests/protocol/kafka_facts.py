"""The facts about the target release's own classes, recorded in ``kafka_4_3_1_facts.txt``."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parent


def facts(kind: str) -> list[list[str]]:
    """The words after ``kind`` of each line that begins with it."""
    lines = (DIRECTORY / "kafka_4_3_1_facts.txt").read_text("utf-8").splitlines()
    return [words[1:] for words in map(str.split, lines) if words[0] == kind]
