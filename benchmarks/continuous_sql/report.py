"""The figures as a table of Markdown, and as a part of `docs/benchmarks.md`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from penstock.spark.launching.java import find_java
from side_by_side.machine import hardware

Line = tuple[str, str]

_HEAD: Final = """# The SQL server

This part measures `penstock sql server` on `local[*]` with one node. The clients run on the same cores.
`make bench-sql` measures and writes this part; with `BENCH=…` it only shows its figures.

## How it is measured

- **A backlog**: {records:,} orders of about 50 bytes of JSON are in {partitions} partitions before the
  statement is issued. Records/s are measured from the end of the first batch to the end of the last, from
  the offsets of the query's group.
- **{statements} statements at once**: filters, joins with a table, counts and windowed counts in equal
  parts, over one stream of {rate:,} orders/s for {seconds:g} s. Each result contains the time of day of its
  order. A consumer that reads committed records measures the age of each result on arrival. Only the second
  half of the run counts.
- **A push query** is followed over HTTP/1.1 while {pushed_per_s} rows a second are written. It is timed
  from just before a row is written until the line for it arrives. **Push queries at once** are clients that
  send their queries at the same moment and follow the same rows, 5 a second. The client of 100 push queries
  also uses a share of the cores.
- **Pull queries** look up keys of a table of {keys:,} through `/query-stream`, {lookups:,} a second on 16
  connections, while {updates:,} rows a second change. Each lookup is timed from the moment when it was due.
  For a source table, the server follows the topic itself. A table that a query makes changes with each
  batch. **Staleness** is the age of the change that an answer should have shown but did not.
"""


def page(found: Mapping[str, Any], pushed_per_s: int) -> str:
    """Return this part of the page. ``found`` has the figures of all parts."""
    machine = "\n".join(f"| {name} | {value} |" for name, value in _machine().items())
    return "\n".join(
        [
            _HEAD.format(**found["setting"], pushed_per_s=pushed_per_s),
            "## The machine\n\n| | |\n| --- | --- |",
            machine,
            "\n## Figures\n",
            table(found),
        ]
    )


def _machine() -> dict[str, str]:
    return {
        **hardware(Path.cwd()),
        "cores": str(os.cpu_count()),
        "penstock": f"{version('penstock')}, Python {sys.version.split()[0]}",
        "Spark": f"{version('pyspark')}, Java {find_java().version}",
    }


def table(found: Mapping[str, Any]) -> str:
    lines = [("", ""), ("---", "---:"), *_lines(found)]
    return "\n".join(f"| {name} | {figure} |" for name, figure in lines)


def _lines(found: Mapping[str, Any]) -> Iterator[Line]:
    yield "from the server's process to its answers", f"{found['server_start_s']:.1f} s"
    for name, row in found.get("throughput", {}).items():
        rate = "all in one batch" if row["records_per_s"] is None else f"{row['records_per_s']:,} records/s"
        yield f"{name}, a backlog of {row['records']:,}", rate
        yield f"{name}, from the statement to its first batch, to all", _pair(row)
    if "statements" in found:
        yield from _statements(found["statements"], found["setting"]["rate"])
    if "push" in found:
        yield from _push(found["push"])
    for name, row in found.get("pull", {}).items():
        yield f"pull queries of {name}, answered", f"{row['lookups_per_s']:,}/s"
        yield f"pull queries of {name}: p50, p99", _latency(row["latency_ms"])
        yield f"staleness of {name}: p50, p99", _latency(row["staleness_ms"])


def _statements(row: dict[str, Any], rate: int) -> Iterator[Line]:
    of = f"{row['statements']} statements at {rate:,} records/s"
    yield f"{of}: from a record to a result, p50, p99", _latency(row["latency_ms"])
    yield f"{row['statements']} statements accepted, running", f"{row['accepted_s']} s, {row['started_s']} s"


def _push(row: dict[str, Any]) -> Iterator[Line]:
    for name, latency in row["latency_ms"].items():
        yield f"push query, {name}, from a row to its line: p50, p99", _latency(latency)
    for number, start in row["starts"].items():
        heads = f"{start['first_ms']:,.0f} ms, {start['last_ms']:,.0f} ms"
        yield f"{number} push queries at once, to the first one's head, to the last one's", heads
        yield f"{number} push queries, from a row to its lines: p50, p99", _latency(start["latency_ms"])


def _pair(row: dict[str, Any]) -> str:
    return f"{row['first_batch_s']:.1f} s, {row['all_s']:.1f} s"


def _latency(latency_ms: dict[str, float]) -> str:
    if not latency_ms:
        return "none came"
    return f"{latency_ms['p50']:,.1f} ms, {latency_ms['p99']:,.1f} ms"
