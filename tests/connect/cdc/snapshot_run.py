"""Records the snapshots that Debezium takes of a database with all types, for the cases beside this file."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
from debezium_run import PREFIX, records_of_task
from recorded_cases import HERE, SNAPSHOT_RUNS, changes_of_types, snapshot_rows, tables_of_types

DATABASE = "snapshots"


def prepare(port: int) -> str:
    """Make the database, and return its connection string."""
    where = f"host=127.0.0.1 port={port} user=postgres"
    with psycopg.connect(where, autocommit=True) as maintenance:
        maintenance.execute(f"create database {DATABASE}")
    where += f" dbname={DATABASE}"
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute((HERE / "tables.sql").read_text())
        for statement in [*tables_of_types(), *changes_of_types(), *snapshot_rows()]:
            connection.execute(statement)
    return where


def properties(port: int, run: str) -> dict[str, str]:
    """The configuration of a run, for Debezium and for us."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "task.id": "0",
        "name": "cases",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": DATABASE,
        "topic.prefix": PREFIX,
        "plugin.name": "pgoutput",
        "slot.name": f"slot_{run}",
        "publication.name": f"publication_{run}",
        **SNAPSHOT_RUNS[run],
    }


def record_snapshots(port: int, command: list[str]) -> str:
    """Debezium's records of each run, as JSON."""
    prepare(port)
    return json.dumps({run: list(_records(port, command, run)) for run in SNAPSHOT_RUNS})


def _records(port: int, command: list[str], run: str) -> Iterator[dict[str, Any]]:
    for record in records_of_task(command, properties(port, run)):
        yield record
        if record["value"]["source"]["snapshot"] == "last":
            return
