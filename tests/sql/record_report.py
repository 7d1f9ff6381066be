"""The table of the language: each row, its number of cases, and where their expectations come from.

`python tests/sql/record_report.py` prints it as Markdown. The suite runs each case, so a row counts only
cases that pass there.
"""

import sys
from collections import Counter

from answer_cases import AnswerCase, answer_cases
from record_cases import RecordCase, record_cases


def origin(case: RecordCase | AnswerCase) -> str:
    if case.source.startswith("the oracle"):
        return "oracle"
    return "ksqlDB" if case.source else "own"


def language_table() -> str:
    cases = [*record_cases(), *answer_cases()]
    counts = Counter((case.row, origin(case)) for case in cases)
    lines = [
        "| what | cases | by the oracle | facts of ksqlDB | own |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in sorted({case.row for case in cases}):
        by = [counts[row, name] for name in ("oracle", "ksqlDB", "own")]
        lines.append(f"| {row} | {sum(by)} | {by[0]} | {by[1]} | {by[2]} |")
    totals = [sum(origin(case) == name for case in cases) for name in ("oracle", "ksqlDB", "own")]
    lines.append(f"| all | {len(cases)} | {totals[0]} | {totals[1]} | {totals[2]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(language_table() + "\n")
