"""The records and notifications of an incremental snapshot against Debezium's own, on the same server."""

import json
from pathlib import Path
from typing import Any

import pytest
from record_text import differences, written

from kafka_node import java_command
from maven_jars import jars_of
from penstock.connect.data.records import SourceRecord
from postgres_server import restartable_server

pytest.importorskip("psycopg")

import psycopg
from debezium_run import records_of_task
from task_worker import TaskWorker

HERE = Path(__file__).parent
PREFIX = "pre"
TABLES = """
create table signals (id text primary key, type text, data text);
create table orders (id int primary key, t text, n numeric(8,2), at timestamptz);
insert into orders select n, 'row ' || n, n / 3.0, to_timestamp(n * 1e5) from generate_series(1, 7) n;
create table lines (order_id int, line bigint, code uuid, primary key (line, order_id));
insert into lines select n % 3, n * 5000000000, md5(n::text)::uuid from generate_series(1, 5) n;
create table keyless (id int);
insert into keyless values (1);
create table nothing (id int primary key);
create publication everything for all tables;
"""


@pytest.mark.long
def test_incremental_snapshots_equal_debeziums() -> None:
    jars = jars_of(HERE / "debezium_pom.xml", "debezium-3.6.1")
    command = java_command(jars, str(HERE / "DebeziumRecords.java"), "-Xmx400m")
    with restartable_server() as server:
        properties = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "task.id": "0",
            "name": "cases",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "postgres",
            "database.password": "none",
            "database.dbname": "postgres",
            "topic.prefix": PREFIX,
            "plugin.name": "pgoutput",
            "snapshot.mode": "no_data",
            "publication.name": "everything",
            "publication.autocreate.mode": "disabled",
            "signal.data.collection": "public.signals",
            "incremental.snapshot.chunk.size": "3",
            "notification.enabled.channels": "sink",
            "notification.sink.topic.name": "told",
        }
        prepare(server.where("postgres"))
        theirs = []
        for record in records_of_task(command, {**properties, "slot.name": "theirs"}):
            theirs.append(record)
            if record["topic"] == "told" and record["value"]["type"] == "COMPLETED":
                break
        worker = TaskWorker({**properties, "slot.name": "ours"})
        worker.until(lambda: any(is_completed(each) for each in worker.committed))
        worker.stop()
        continued = rows_after(theirs, {**properties, "slot.name": "continued"})
    assert continued == [("orders", each) for each in (5, 6, 7)] + [
        ("lines", each) for each in (1, 2, 0, 1, 2)
    ]
    ours = [written(each) for each in worker.committed]
    expected, found = comparable(theirs), comparable(ours)
    assert [each["topic"] for each in found] == [each["topic"] for each in expected]
    for mine, other in zip(found, expected, strict=True):
        assert not list(differences(mine, other, "")), (mine, other)


def rows_after(theirs: list[dict[str, Any]], properties: dict[str, str]) -> list[tuple[str, int]]:
    """The rows that a task reads after Debezium's offset of the fourth row: tables, and parts of keys."""
    rows = [each for each in theirs if each["topic"].endswith("orders")]
    worker = TaskWorker(properties, rows[3]["offset"])
    worker.until(lambda: any(is_completed(each) for each in worker.committed))
    worker.stop()
    found = [each for each in worker.committed if each.value is not None and "after" in each.value]
    return [
        (each.topic.rpartition(".")[2], each.value["after"].own_values[0])
        for each in found
        if each.value["op"] == "r"
    ]


def is_completed(record: SourceRecord) -> bool:
    return record.topic == "told" and bool(record.value["type"] == "COMPLETED")


def prepare(where: str) -> None:
    """Make the tables and slots, and the signal after them."""
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute(TABLES)
        for slot in ("theirs", "ours", "continued"):
            connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        tables = ["public.orders", "public.keyless", "public.nothing", "public.lines", "public.missing"]
        connection.execute(
            "insert into signals values ('all', 'execute-snapshot', %s)",
            [json.dumps({"data-collections": tables, "type": "incremental"})],
        )


def comparable(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows and notifications, without what depends on the time or the run."""
    made = []
    for record in json.loads(json.dumps(records)):
        value = record["value"]
        if record["topic"] == "told":
            value.pop("timestamp")
            if value["aggregate_type"] == "Initial Snapshot":
                value["id"] = record["key"]["id"] = "random"
        elif value.get("op") == "r":
            for name in ("ts_ms", "ts_us", "ts_ns"):
                value.pop(name)
                value["source"].pop(name)
            for name in ("sequence", "lsn", "txId"):  # of the last event, and watermarks are events
                value["source"].pop(name)
        else:
            continue
        record["headers"] = [each for each in record["headers"] if not each[0].endswith("runId")]
        record["offset"] = {
            name: each for name, each in record["offset"].items() if name.startswith("incremental")
        }
        made.append(record)
    return made
