"""Records of MariaDB's changes against those of Debezium 3.6.1, for all types and kinds of changes.

The file of cases holds what the server sent and what Debezium made of it. `make test-long` asks both again.
Debezium's tombstones without a key are left out. What else differs on purpose stands in meant_mariadb.txt,
one line each: run, table or type, place, ours and Debezium's.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mariadb_cases import RUNS, questions, type_cases
from record_text import differences, written

from penstock.connect.cdc.mysql.catalog import TableCatalog
from penstock.connect.cdc.mysql.events import read_event
from penstock.connect.cdc.mysql.filters import Filters
from penstock.connect.cdc.mysql.positions import ResumePoint
from penstock.connect.cdc.mysql.records import EventSettings, RecordWriter
from penstock.connect.cdc.mysql.schema_changes import SchemaChanges
from penstock.connect.cdc.mysql.schemas import ColumnRules, TableSchema, table_schema
from penstock.connect.cdc.mysql.table_maps import TableMap
from penstock.connect.cdc.selection.masks import Masks
from penstock.connect.data.records import SourceRecord
from penstock.connect.data.validation import validate_value
from recorded_answers import recorded

HERE = Path(__file__).parent
MEANT = HERE / "meant_mariadb.txt"
pytestmark = pytest.mark.timeout(600)  # asking Debezium takes a JVM for each run


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(recorded(HERE / "mariadb_cases.json.xz", questions(), _ask))
    return found


def _ask() -> str:
    pytest.importorskip("pymysql")
    from mariadb_run import AS_MYSQL, record
    from mariadb_server import mariadb_server

    from kafka_node import java_command
    from maven_jars import jars_of

    jars = jars_of(HERE / "debezium_binlog_pom.xml", "debezium-binlog-3.6.1")
    command = java_command(jars, str(HERE / "DebeziumRecords.java"), "-Xmx400m")
    with mariadb_server(AS_MYSQL) as server:
        return json.dumps(record(server, command))


@pytest.fixture(scope="module")
def ours(cases: dict[str, Any]) -> dict[str, list[SourceRecord]]:
    return {run: list(_records(cases[run], run)) for run in RUNS}


def test_records_equal_debeziums_but_for_meant_differences(
    cases: dict[str, Any], ours: dict[str, list[SourceRecord]]
) -> None:
    found = sorted({line for run in RUNS for line in _differences(run, ours[run], cases[run]["records"])})
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


def test_a_place_without_gtids_stays_without_them(ours: dict[str, list[SourceRecord]]) -> None:
    """A set that lacks older transactions would make the server send them again."""
    assert all(each.value is None or each.value["source"]["gtid"] for each in ours["defaults"])
    assert not any("gtids" in each.source_offset for each in ours["defaults"])


class Catalogs:
    """The recorded catalog, as it was when the event at hand was written.

    A table that did not exist then is that of the next catalog: CREATE TABLE … SELECT has events inside.
    """

    def __init__(self, recorded_catalogs: list[Any], filters: Filters) -> None:
        self.position = 0
        self._recorded = recorded_catalogs
        self._filters = filters

    def of(self, database: str, name: str) -> TableCatalog | None:
        if not self._filters.has_table(database, name):
            return None
        known = [[tuple(row) for row in rows if row[1] == name] for _, rows in self._recorded]
        place = sum(position <= self.position for position, _ in self._recorded) - 1
        return TableCatalog(known[place] or (known[place + 1 :] or [[]])[0], is_maria=True)


def _records(case: dict[str, Any], run: str) -> Iterator[SourceRecord]:
    properties = {"topic.prefix": "pre", "database.include.list": "cases", **RUNS[run]}
    settings = EventSettings.of(properties, "mysql", "3.6.1.Final", "run")
    filters = Filters.of(properties)
    making = (settings.values, settings.naming, ColumnRules(filters.column, Masks(properties).apply))
    catalogs = Catalogs(case["catalogs"], filters)

    def schema_of(table: TableMap) -> TableSchema | None:
        catalog = catalogs.of(table.database, table.table)
        return None if catalog is None else table_schema(table, catalog.declared, *making)

    changes = SchemaChanges(
        *("pre", "mysql", settings.naming.source, catalogs.of),
        lambda catalog: table_schema(catalog.table_map(), catalog.declared, *making),
    )
    writer = RecordWriter(settings, schema_of, changes, lambda: 0, ResumePoint(*case["start"]))
    for data in case["events"]:
        header, event = read_event(bytes.fromhex(data), has_checksum=True)
        catalogs.position = max(catalogs.position, header.end)
        yield from writer.records(header, event)


def _differences(run: str, records: list[SourceRecord], answers: list[dict[str, Any]]) -> Iterator[str]:
    ours = [written(each) for each in records if not each.topic.endswith(".ready")]
    answers = [each for each in answers if not _is_left_out(run, each)]
    assert [each["topic"] for each in ours] == [each["topic"] for each in answers]
    names = [kind for kind, _ in type_cases()]
    for mine, other in zip(ours, answers, strict=True):
        table = mine["topic"].split(".")[-1]
        name = names[int(table[1:])] if table[0] == "t" and table[1:].isdigit() else table
        for place, left, right in differences(_comparable(mine), _comparable(other), ""):
            yield f"{run} | {name} | {place} | {left[:80]} | {right[:80]}"


def _is_left_out(run: str, answer: dict[str, Any]) -> bool:
    """Whether Debezium alone has such records: tombstones without keys, DDL of tables not captured."""
    if answer["value"] is None:
        return answer["key"] is None
    is_excluded = "table.exclude.list" in RUNS[run] and answer["value"]["source"]["table"] == "left_out"
    return is_excluded and "ddl" in answer["value"]


def _comparable(record: dict[str, Any]) -> dict[str, Any]:
    """The record without times of processing, ids of runs, and offsets and GTIDs.

    The connector for MySQL does not understand MariaDB's GTIDs, with which transactions begin there.
    """
    made: dict[str, Any] = json.loads(json.dumps(record))
    for name, typed in made["headers"]:
        if name.endswith("runId"):
            typed[1] = "run"
    value = made["value"] or {}
    for name in ("ts_ms", "ts_us", "ts_ns"):
        value.pop(name, None)
    value.get("source", {}).pop("gtid", None)
    del made["offset"]
    return made
