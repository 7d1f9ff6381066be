"""Random changes with DDL in between, captured by Debezium 3.6.1 and by us from the same server."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from record_text import differences, written

from postgres_server import restartable_server

pytest.importorskip("psycopg")

import psycopg
from debezium_run import PREFIX, records_of_task
from random_changes import Storm
from task_worker import TaskWorker

from kafka_node import java_command
from maven_jars import jars_of

HERE = Path(__file__).parent
SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
STEPS = 1500


@pytest.mark.long
@pytest.mark.parametrize("metadata", ["false", "true"])
def test_records_equal_debeziums(metadata: str) -> None:
    print(f"PENSTOCK_SEED={SEED}")
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
            "table.exclude.list": "public.left_out",
            "provide.transaction.metadata": metadata,
        }
        last = storm(server.where("postgres"))
        theirs = []
        for record in records_of_task(command, {**properties, "slot.name": "theirs"}):
            theirs.append(record)
            if record["topic"] == f"{PREFIX}.public.watermarks":
                break
        worker = TaskWorker({**properties, "slot.name": "ours"})
        worker.until_row("watermarks", last)
        worker.stop()
    ours = [written(each) for each in worker.committed][: len(theirs)]  # without the END after the last row
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert not list(differences(comparable(mine), comparable(other), "")), mine


def storm(where: str) -> int:
    """Make the changes, for the slots `theirs` and `ours`; returns the id of the last row."""
    changes = Storm(where, random.Random(SEED))
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create publication everything for all tables")
        for slot in ("theirs", "ours"):
            connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    for _ in range(STEPS):
        changes.step()
    last = changes.finish()
    changes.close()
    return last


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """The record without what depends on the time, the run, or the order of a hash map in Java.

    Debezium does not know the last commit until it has seen one.
    """
    made: dict[str, Any] = json.loads(json.dumps(record))
    for name, typed in made["headers"]:
        if name.endswith("runId"):
            typed[1] = "run"
    value = made["value"] or {}
    if "op" in value:
        for name in ("ts_ms", "ts_us", "ts_ns"):
            value.pop(name)
        value["source"]["sequence"] = json.loads(value["source"]["sequence"])[1]
    if value.get("data_collections"):
        value["data_collections"].sort(key=lambda each: each["data_collection"])
    for name in ("lsn_records", "lsn_commit", "lsn_proc"):
        made["offset"].pop(name, None)
    return made
