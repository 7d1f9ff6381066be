"""The table of other projects' suites on secured nodes in docs/compatibility.md: a row per run."""

import re
from pathlib import Path
from typing import NamedTuple

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- secured suites: generated -->", "<!-- secured suites: end -->"
ROW = re.compile(r"^\| (?!suite|---)(.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)


class Counts(NamedTuple):
    """How many tests of a run passed, failed, and were skipped."""

    passed: int
    failed: int
    skipped: int

    @property
    def cell(self) -> str:
        words = [f"{self.passed} of {sum(self)} passed"]
        if self.failed:
            words.append(f"{self.failed} failed")
        if self.skipped:
            words.append(f"{self.skipped} skipped")
        return ", ".join(words)


def write_row(suite: str, listener: str, counts: Counts, note: str = "") -> None:
    """Write the result of a suite on nodes that are secured so; other rows stay."""
    text = DOCUMENT.read_text()
    head, _, rest = text.partition(BEGIN)
    before, _, tail = rest.partition(END)
    rows = {(old, where): cell for old, where, cell in ROW.findall(before)}
    rows[suite, listener] = f"{counts.cell}: {note}" if note else counts.cell
    lines = [
        BEGIN,
        "| suite | listener | result |",
        "| --- | --- | --- |",
        *(f"| {name} | {where} | {cell} |" for (name, where), cell in sorted(rows.items())),
        END,
    ]
    DOCUMENT.write_text(head + "\n".join(lines) + tail)
