"""The table of librdkafka's tests in docs/compatibility.md: a row per test, a column per cluster size."""

import re
from dataclasses import dataclass
from pathlib import Path

from librdkafka_security import description

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"
BEGIN, END = "<!-- librdkafka: generated -->", "<!-- librdkafka: end -->"
SIZES = {1: "one node", 3: "three nodes"}
ROW = re.compile(r"^\| (\d{4}_\w+) \| (.*) \| (.*) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """One test's result: PASSED, FAILED, SKIPPED (by the suite itself) or LATER."""

    name: str
    result: str
    seconds: float
    detail: str

    @property
    def cell(self) -> str:
        detail = f": {self.detail.replace('|', '/')}" if self.detail else ""
        return self.result.lower() + detail


def write_document(package: str, nodes: int, outcomes: list[Outcome], *, all_of_them: bool) -> None:
    """Write the results of all or some tests for one cluster size into docs/compatibility.md."""
    text = DOCUMENT.read_text()
    head, _, rest = text.partition(BEGIN)
    before, _, tail = rest.partition(END)
    rows = {name: dict(zip(SIZES, cells, strict=True)) for name, *cells in ROW.findall(before)}
    if all_of_them:
        for cells in rows.values():
            cells[nodes] = ""
    for outcome in outcomes:
        rows.setdefault(outcome.name, dict.fromkeys(SIZES, ""))[nodes] = outcome.cell
    rows = {name: cells for name, cells in sorted(rows.items()) if any(cells.values())}
    lines = [
        BEGIN,
        f"{counted(rows)} pass (librdkafka of npm package `{package}`, not in quick mode; "
        "on one node topics have one replica, on three what each test asks for).",
        f"{description()}.",
        "",
        f"| test | {' | '.join(SIZES.values())} |",
        "| --- | --- | --- |",
        *(f"| {name} | {' | '.join(cells.values())} |" for name, cells in rows.items()),
        END,
    ]
    DOCUMENT.write_text(head + "\n".join(lines) + tail)


def counted(rows: dict[str, dict[int, str]]) -> str:
    """The numbers of passed and of tried tests, for each size."""
    counts = []
    for nodes, words in SIZES.items():
        tried = [cells[nodes] for cells in rows.values() if cells[nodes]]
        counts.append(f"{sum(cell == 'passed' for cell in tried)} of {len(tried)} on {words}")
    return f"Of the tests that need a broker, {', '.join(counts)}"
