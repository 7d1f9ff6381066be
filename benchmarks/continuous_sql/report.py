"""The figures as a table of Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Line = tuple[str, str]


def table(found: dict[str, Any]) -> str:
    lines = [("", "figure"), ("---", "---"), *_lines(found)]
    return "\n".join(f"| {name} | {figure} |" for name, figure in lines)


def _lines(found: dict[str, Any]) -> Iterator[Line]:
    yield "from the server's process to its answers", f"{found['server_start_s']:.1f} s"
    for name, row in found.get("throughput", {}).items():
        rate = "all in one batch" if row["records_per_s"] is None else f"{row['records_per_s']:,} records/s"
        yield f"{name}, a backlog of {row['records']:,}", rate
        yield f"{name}, from the statement to its first batch, to all", _pair(row)
    if "statements" in found:
        yield from _statements(found["statements"], found["setting"]["rate"])
    for name, latency in found.get("push", {}).items():
        yield f"push query, {name}, from a row to its line: p50, p99", _latency(latency)
    for name, row in found.get("pull", {}).items():
        yield f"pull queries of {name}, answered", f"{row['lookups_per_s']:,}/s"
        yield f"pull queries of {name}: p50, p99", _latency(row["latency_ms"])
        yield f"staleness of {name}: p50, p99", _latency(row["staleness_ms"])


def _statements(row: dict[str, Any], rate: int) -> Iterator[Line]:
    of = f"{row['statements']} statements at {rate:,} records/s"
    yield f"{of}: from a record to a result, p50, p99", _latency(row["latency_ms"])
    yield f"{row['statements']} statements accepted, running", f"{row['accepted_s']} s, {row['started_s']} s"


def _pair(row: dict[str, Any]) -> str:
    return f"{row['first_batch_s']:.1f} s, {row['all_s']:.1f} s"


def _latency(latency_ms: dict[str, float]) -> str:
    if not latency_ms:
        return "none came"
    return f"{latency_ms['p50']:,.1f} ms, {latency_ms['p99']:,.1f} ms"
