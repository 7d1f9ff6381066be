"""Format the lines in PENSTOCK_SINK_REPORT of test_kill_exactly_once as the table in docs/exactly-once.md.

python tests/cluster/kill_report.py FILE
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

HEADER = (
    "| killed | when | times | batch was published | is published anew | readers waited at most, s | "
    "next batch, median, s |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |"
)


def table(events: list[dict[str, Any]]) -> str:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        groups[event["point"], event["victim"]].append(event)
    lines = [HEADER]
    for (point, victim), found in sorted(groups.items()):
        skipped = sum(event["outcome"] == "WAS_PUBLISHED" for event in found)
        stable_s = max(event["stable_s"] for event in found)
        resumed_s = sorted(event["resumed_s"] for event in found)[len(found) // 2]
        cells = (
            victim,
            point,
            len(found),
            skipped,
            len(found) - skipped,
            f"{stable_s:.2f}",
            f"{resumed_s:.1f}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in Path(sys.argv[1]).read_text().splitlines():
        fields = json.loads(line)
        by_run[fields["run"]].append(fields)
    for run, lines in by_run.items():
        events = [line for line in lines if "point" in line]
        ends = [line for line in lines if "records" in line]
        records = sum(end["records"] for end in ends)
        print(f"\n{run}: {len(events)} kills in {len(ends)} runs, {records} records\n\n{table(events)}")
        print(*(f"\nzombies: {end['zombies']}" for end in ends if end["zombies"]))


if __name__ == "__main__":
    main()
