"""Records of PostgreSQL's changes against those of Debezium 3.6.1, for all types and kinds of changes.

The file of cases holds what the server sent and what Debezium made of it. `make test-long` asks both again.
What differs on purpose stands in meant_differences.txt, one line each: run, table or type, place, ours and
Debezium's.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from record_text import differences, written
from recorded_cases import RUNS, questions, type_cases

from penstock.connect.cdc.postgres.catalog import Catalog
from penstock.connect.cdc.postgres.events import EventSettings, EventWriter, Position
from penstock.connect.cdc.postgres.pgoutput import Decoder
from penstock.connect.cdc.postgres.schemas import NamingSettings, table_schema
from penstock.connect.data.records import SourceRecord
from penstock.connect.data.validation import validate_value
from recorded_answers import recorded

HERE = Path(__file__).parent
MEANT = HERE / "meant_differences.txt"
WITHOUT_IDENTITY = {"pre.public.by_index"}
"""Topics of tables whose replica identity lacks a column of the key; Debezium makes up keys for them."""


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(recorded(HERE / "postgres_cases.json.xz", questions(), _ask))
    return found


def _ask() -> str:
    pytest.importorskip("psycopg")
    from debezium_run import record

    from kafka_node import java_command
    from maven_jars import jars_of
    from postgres_server import running_server

    jars = jars_of(HERE / "debezium_pom.xml", "debezium-3.6.1")
    command = java_command(jars, str(HERE / "DebeziumRecords.java"), "-Xmx400m")
    with running_server() as port:
        return json.dumps(record(port, command))


@pytest.fixture(scope="module")
def ours(cases: dict[str, Any]) -> dict[str, list[SourceRecord]]:
    return {run: list(_records(cases, run)) for run in RUNS}


def test_records_equal_debeziums_but_for_meant_differences(
    cases: dict[str, Any], ours: dict[str, list[SourceRecord]]
) -> None:
    found = sorted({line for run in RUNS for line in _differences(run, ours[run], cases["runs"][run])})
    if os.environ.get("PENSTOCK_REWRITE"):
        MEANT.write_text("\n".join(found) + "\n")
    assert found == MEANT.read_text().splitlines()


@pytest.mark.parametrize("run", RUNS)
def test_values_fit_their_schemas(ours: dict[str, list[SourceRecord]], run: str) -> None:
    for record in ours[run]:
        if record.value_schema is not None:
            validate_value(record.value_schema, record.value)
        if record.key_schema is not None:
            validate_value(record.key_schema, record.key)


def test_a_key_outside_the_replica_identity_is_not_made_up(ours: dict[str, list[SourceRecord]]) -> None:
    records = [each for each in ours["defaults"] if each.topic in WITHOUT_IDENTITY]
    assert [(each.value["op"], each.key and each.key["id"]) for each in records] == [
        ("c", 1),
        ("u", 1),
        ("u", 1),
        ("d", None),
    ]


def _records(cases: dict[str, Any], run: str) -> Iterator[SourceRecord]:
    properties = {"topic.prefix": "pre", "database.dbname": "cases", **RUNS[run]}
    settings = EventSettings.of(properties, "3.6.1.Final", "run")
    naming = NamingSettings.of(properties)
    catalog = Catalog.of_rows(cases["catalog"]["types"], cases["catalog"]["relations"])
    start = cases["runs"]["metadata"][0]["offset"]["lsn_proc"]
    writer = EventWriter(
        settings,
        lambda relation, nullable: table_schema(
            relation, catalog.tables.get(relation.oid), catalog, settings.values, naming, nullable=nullable
        ),
        lambda: 0,
        Position(processed=start),
    )
    decoder = Decoder(1)
    for lsn, data in cases["messages"]:
        yield from writer.records(decoder.decode(bytes.fromhex(data), lsn), lsn)


def _differences(run: str, records: list[SourceRecord], answers: list[dict[str, Any]]) -> Iterator[str]:
    ignored = {*WITHOUT_IDENTITY, *(["pre.public.keyed"] if "message.key.columns" in RUNS[run] else [])}
    ours = [each for each in map(written, records) if each["topic"] not in ignored]
    theirs = [each for each in answers if each["topic"] not in ignored]
    assert [each["topic"] for each in ours] == [each["topic"] for each in theirs]
    names = [kind for kind, _ in type_cases()]
    for mine, other in zip(ours, theirs, strict=True):
        table = mine["topic"].split(".")[-1]
        name = names[int(table[1:])] if table[0] == "t" and table[1:].isdigit() else table
        for place, left, right in differences(_comparable(mine), _comparable(other), ""):
            yield f"{run} | {name} | {place} | {left[:80]} | {right[:80]}"


def _comparable(record: dict[str, Any]) -> dict[str, Any]:
    """The record without times of processing, ids of runs and orders that mean nothing."""
    made: dict[str, Any] = json.loads(json.dumps(record))
    for name, typed in made["headers"]:
        if name.endswith("runId"):
            typed[1] = "run"
    value = made["value"] or {}
    if "op" in value:
        for name in ("ts_ms", "ts_us", "ts_ns"):
            value.pop(name, None)
    if value.get("data_collections"):
        counts = {each["data_collection"]: each["event_count"] for each in value["data_collections"]}
        value["data_collections"] = _without_messages(counts)
    made["offset"] = _without_messages(made["offset"])
    made["offset"].pop("lsn_records", None)
    for row in (value.get("before") or {}, value.get("after") or {}):
        if isinstance(row.get("v"), str) and row["v"].startswith('{"'):
            row["v"] = json.loads(row["v"])
    return made


def _without_messages(counts: dict[str, Any]) -> dict[str, Any]:
    """The counts without those of logical messages and of tables that are compared elsewhere."""
    return {
        name: count
        for name, count in counts.items()
        if not name.endswith(("message", "by_index")) and "LogicalDecodingMessageId" not in name
    }
