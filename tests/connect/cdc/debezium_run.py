"""Records what PostgreSQL sends and what Debezium makes of it, for the cases beside this file.

The changes are made first; then each Debezium run, and a reader of our own, read them from a replication slot
that was created before. All of them therefore see the same messages and the same catalog.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import psycopg
from recorded_cases import HERE, RUNS, changes_of_types, other_changes, tables_of_types

from penstock.connect.cdc.postgres.catalog import RELATIONS_QUERY, TYPES_QUERY
from penstock.connect.cdc.postgres.framing import XLogData, read_frame

DATABASE = "cases"
PREFIX = "pre"
RUN_TIMEOUT_S = 120
END_TABLE = "the_end"


def record(port: int, command: list[str]) -> dict[str, Any]:
    """Make all changes on the server at this port, and return messages, catalog and Debezium's records."""
    where = f"host=127.0.0.1 port={port} user=postgres"
    with psycopg.connect(where, autocommit=True) as maintenance:
        maintenance.execute(f"create database {DATABASE}")
    where += f" dbname={DATABASE}"
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute((HERE / "tables.sql").read_text())
        for statement in tables_of_types():
            connection.execute(statement)
        connection.execute("create publication everything for all tables")
        for slot in [*RUNS, "ours"]:
            connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        with connection.transaction():
            for statement in changes_of_types():
                connection.execute(statement)
        for block in other_changes():
            with connection.transaction():
                for statement in block:
                    connection.execute(statement)
        connection.execute("select pg_logical_emit_message(false, 'not transactional', 'x')")
        connection.execute(f"insert into {END_TABLE} values (1)")
        end = connection.execute("select pg_current_wal_lsn() - '0/0'").fetchone()
        assert end is not None
        catalog = {
            "types": [list(row) for row in connection.execute(TYPES_QUERY)],
            "relations": [list(row) for row in connection.execute(RELATIONS_QUERY)],
        }
    runs = {name: debezium_records(port, command, name, more) for name, more in RUNS.items()}
    return {"catalog": catalog, "messages": list(messages(where, int(end[0]))), "runs": runs}


def messages(where: str, end: int) -> Iterator[list[Any]]:
    """The messages in the slot `ours`: LSN and bytes in hexadecimal."""
    options = "proto_version '1', publication_names 'everything', messages 'true'"
    with closing(psycopg.connect(f"{where} replication=database", autocommit=True)) as replication:
        replication.execute(f"START_REPLICATION SLOT ours LOGICAL 0/0 ({options})")
        while True:
            size, data = replication.pgconn.get_copy_data(0)
            assert size > 0, replication.pgconn.error_message
            frame = read_frame(bytes(data))
            if isinstance(frame, XLogData):
                yield [frame.start, bytes(frame.payload).hex()]
            if frame.end > end or (isinstance(frame, XLogData) and frame.start > end):
                return


def debezium_records(port: int, command: list[str], slot: str, more: dict[str, str]) -> list[dict[str, Any]]:
    """The records of one run, up to the row of the last table, with its commit if that makes a record."""
    properties = {
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
        "slot.name": slot,
        "snapshot.mode": "no_data",
        "publication.name": "everything",
        "publication.autocreate.mode": "disabled",
        **more,
    }
    is_last = _ends_run(more.get("provide.transaction.metadata") == "true")
    records = []
    for each in records_of_task(command, properties):
        records.append(each)
        if is_last(each):
            return records
    raise AssertionError(f"Debezium's run {slot} ended after {len(records)} records, before the last change")


def records_of_task(command: list[str], properties: dict[str, str]) -> Generator[dict[str, Any]]:
    """Run a task of Debezium's, and give its records as they come; closing the iterator ends the task."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    watchdog = threading.Timer(RUN_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        process.stdin.write(json.dumps(properties) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            yield json.loads(line)
    finally:
        process.kill()
        process.wait()
        watchdog.cancel()


def _ends_run(with_metadata: bool) -> Callable[[dict[str, Any]], bool]:
    last_topic = f"{PREFIX}.public.{END_TABLE}"
    seen = []

    def is_last(record: dict[str, Any]) -> bool:
        if record["topic"] == last_topic:
            seen.append(record)
        return bool(seen) and (not with_metadata or record["value"].get("status") == "END")

    return is_last
