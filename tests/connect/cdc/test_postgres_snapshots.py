"""Snapshots of all types against those of Debezium 3.6.1, with filters, masks and statements of their own.

What differs on purpose stands in meant_snapshots.txt, as for the stream in meant_differences.txt.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from record_text import differences, written
from recorded_cases import SNAPSHOT_RUNS, snapshot_questions, type_cases

from postgres_server import running_server
from recorded_answers import recorded

pytest.importorskip("psycopg")

from snapshot_run import prepare, properties, record_snapshots
from task_worker import TaskWorker

HERE = Path(__file__).parent
MEANT = HERE / "meant_snapshots.txt"
TIMES = {"ts_ms", "ts_us", "ts_ns", "ts_usec", "txId", "lsn", "sequence"}
"""Fields that depend on when the snapshot was taken."""


def _ask() -> str:
    from kafka_node import java_command
    from maven_jars import jars_of

    jars = jars_of(HERE / "debezium_pom.xml", "debezium-3.6.1")
    command = java_command(jars, str(HERE / "DebeziumRecords.java"), "-Xmx400m")
    with running_server() as port:
        return record_snapshots(port, command)


def test_snapshots_equal_debeziums_but_for_meant_differences() -> None:
    theirs = json.loads(recorded(HERE / "postgres_snapshots.json.xz", snapshot_questions(), _ask))
    with running_server() as port:
        prepare(port)
        ours = {run: _records(port, run) for run in SNAPSHOT_RUNS}
    found = sorted({line for run in SNAPSHOT_RUNS for line in _differences(run, ours[run], theirs[run])})
    if os.environ.get("PENSTOCK_REWRITE"):
        MEANT.write_text("\n".join(found) + "\n")
    assert found == MEANT.read_text().splitlines()


def _records(port: int, run: str) -> list[dict[str, Any]]:
    worker = TaskWorker(properties(port, run))
    try:
        worker.until(lambda: bool(worker.stored and worker.stored["snapshot_completed"]))
    finally:
        worker.stop()
    return [_comparable(written(each)) for each in worker.committed]


def _differences(run: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Iterator[str]:
    names = [kind for kind, _ in type_cases()]
    others = [_comparable(each) for each in theirs]
    order = [each["topic"] for each in others]
    yield from (f"{run} | {topic} | not ours" for topic in set(order) - {each["topic"] for each in ours})
    others = [each for each in others if each["topic"] != "pre.public.parted"]
    assert [each["topic"] for each in ours] == [each["topic"] for each in others]
    for mine, other in zip(ours, others, strict=True):
        table = mine["topic"].split(".")[-1]
        name = names[int(table[1:])] if table[0] == "t" and table[1:].isdigit() else table
        for place, left, right in differences(mine, other, ""):
            yield f"{run} | {name} | {place} | {left[:80]} | {right[:80]}"


def _comparable(record: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(record))
    for name, typed in made["headers"]:
        if name.endswith("runId"):
            typed[1] = "run"
    for part in (made["value"], made["value"]["source"], made["offset"]):
        for name in TIMES & part.keys():
            part[name] = None
    after = made["value"]["after"]
    if made["topic"] == "pre.public.defaults":
        after.update(ug=None, d2=None, tz2=None)
    if isinstance(after.get("v"), str) and after["v"].startswith('{"'):
        after["v"] = json.loads(after["v"])
    return made
