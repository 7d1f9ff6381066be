"""Cases of the engine's answers, as transcripts in text files.

A file below `cases/answers` begins with `row: NAME`, the row of the language table, and its cases are

    == a name
    source: where the expectation comes from, unless it is our own
    > CREATE STREAM s (id INT KEY, v INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=1);
    > INSERT INTO s VALUES (1, 2);
    > SELECT * FROM s;
    ID | V
    1 | 2

Statements follow `> `, and the answer to the last one stands below them; without an answer the statements
only have to succeed. Rows are JSON; those of a pull query are sorted alphabetically unless it has a LIMIT.
Other answers are written as the shell shows them; `! ` marks each line of an error, and a line `…` matches
any number of lines, also none. The folder `files` has the scripts and the Python functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ANSWERS = Path(__file__).parent / "cases" / "answers"
FILES = ANSWERS / "files"


@dataclass(frozen=True)
class Asked:
    """Statements, and the answer to the last one, or None if the case has none."""

    sql: str
    answer: str | None

    def is_answered_by(self, found: str) -> bool:
        """Return whether the answer found is the expected one."""
        if self.answer is None:
            return True
        lines = [".*" if line == "…" else re.escape(_close(line)) for line in self.answer.split("\n")]
        pattern = "\n".join(lines).replace("\n.*", "(\n.*)?").replace(".*\n", "(.*\n)?")
        return re.fullmatch(pattern, _close(found), re.DOTALL) is not None


def _close(text: str) -> str:
    """Collapse spaces: a table's column widths may depend on lines that the case leaves out."""
    return re.sub("  +", "  ", text)


@dataclass(frozen=True)
class AnswerCase:
    name: str
    row: str
    asked: tuple[Asked, ...]
    source: str = ""

    def __str__(self) -> str:
        return self.name


def answer_cases() -> list[AnswerCase]:
    return [case for path in sorted(ANSWERS.glob("*.txt")) for case in _cases_in(path)]


def _cases_in(path: Path) -> Iterator[AnswerCase]:
    head, *blocks = path.read_text().split("\n== ")
    row = head.removeprefix("row: ").split("\n", 1)[0]
    for block in blocks:
        name, *lines = block.rstrip("\n").split("\n")
        source = ""
        if lines[0].startswith("source: "):
            source = lines.pop(0).removeprefix("source: ")
        yield AnswerCase(f"{path.stem}: {name}", row, tuple(_asked(lines)), source)


def _asked(lines: list[str]) -> Iterator[Asked]:
    at = 0
    while at < len(lines):
        begin = at
        while at < len(lines) and lines[at].startswith("> "):
            at += 1
        sql = "\n".join(line[2:] for line in lines[begin:at])
        begin = at
        while at < len(lines) and not lines[at].startswith("> "):
            at += 1
        answer = "\n".join(lines[begin:at]).rstrip("\n")
        assert sql, f"found {answer!r} without a statement before it"
        yield Asked(sql, answer or None)
