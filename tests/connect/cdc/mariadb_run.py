"""Records what MariaDB sends and what Debezium makes of it, for the cases beside this file.

Debezium's connector for MariaDB is not in every registry, but the one for MySQL shares its code. It runs here
against a MariaDB that calls itself MySQL 5.7.19, which keeps the driver to queries that MariaDB answers.
"""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from debezium_run import records_of_task
from mariadb_cases import RUNS, changes_of_types, is_ddl, other_changes, tables_of_types
from mariadb_server import MariaServer

from penstock.connect.cdc.mysql.catalog import COLUMNS_QUERY
from penstock.connect.cdc.mysql.events import FORMAT, has_checksums
from penstock.connect.cdc.mysql.positions import ResumePoint
from penstock.connect.cdc.mysql.reading.binlog_session import BinlogSession
from penstock.connect.cdc.mysql.reading.connecting import Server
from penstock.connect.cdc.mysql.reading.server_state import read_state

DATABASE, PREFIX = "cases", "pre"
AS_MYSQL = "--version=5.7.19-MariaDB-log"
END_TOPIC = f"{PREFIX}.{DATABASE}.the_end"


def record(server: MariaServer, command: list[str]) -> dict[str, Any]:
    """For each run: the server's events, its catalog after each statement, and Debezium's records."""
    return {name: record_run(server, command, more) for name, more in RUNS.items()}


def record_run(server: MariaServer, command: list[str], more: dict[str, str]) -> dict[str, Any]:
    connection = server.connect()
    cursor = connection.cursor()
    for statement in (
        f"drop database if exists {DATABASE}",
        f"create database {DATABASE}",
        f"use {DATABASE}",
    ):
        cursor.execute(statement)
    cursor.execute("create table ready (id int auto_increment primary key)")
    for statement in tables_of_types():
        cursor.execute(statement)
    with (
        tempfile.TemporaryDirectory() as directory,
        closing(records_of_task(command, debezium_properties(server, Path(directory), more))) as records,
    ):
        started = threading.Event()
        ticking = threading.Thread(target=tick, args=(server, started))
        ticking.start()
        for each in records:
            if each["topic"] == f"{PREFIX}.{DATABASE}.ready":
                break
        started.set()
        ticking.join()
        with server.connect() as state:
            begin = read_state(state).end
        catalogs = list(make_changes(server))
        theirs = []
        for each in records:
            if each["topic"] != f"{PREFIX}.{DATABASE}.ready":
                theirs.append(each)
            if each["topic"] == END_TOPIC:
                break
    events = [each.hex() for each in raw_events(server, begin)]
    start = [begin.file, begin.position]
    return {"start": start, "events": events, "catalogs": catalogs, "records": theirs}


def tick(server: MariaServer, started: threading.Event) -> None:
    """Insert rows until Debezium has seen one."""
    with server.connect(DATABASE) as connection, connection.cursor() as cursor:
        while not started.wait(0.3):
            cursor.execute("insert into ready values ()")


def debezium_properties(server: MariaServer, directory: Path, more: dict[str, str]) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "task.id": "0",
        "name": "cases",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": "7777",
        "topic.prefix": PREFIX,
        "snapshot.mode": "no_data",
        "database.include.list": DATABASE,
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(directory / "history"),
        **more,
    }


def make_changes(server: MariaServer) -> Iterator[list[Any]]:
    """Make all changes; gives the catalog at first and after each block of DDL, with the log's position."""
    with server.connect(DATABASE) as connection, connection.cursor() as cursor:
        yield catalog(connection)
        cursor.execute("begin")
        for statement in changes_of_types():
            cursor.execute(statement)
        cursor.execute("commit")
        for block in other_changes():
            if not is_ddl(block):
                cursor.execute("begin")
                for statement in block:
                    cursor.execute(statement)
                cursor.execute("commit")
                continue
            for statement in block:
                cursor.execute(statement)
                yield catalog(connection)


def catalog(connection: Any) -> list[Any]:
    """The position in the log, and the rows of all tables' columns."""
    state = read_state(connection)
    query = COLUMNS_QUERY.replace("and c.table_name = %s", "").replace("%s", f"'{DATABASE}'")
    with connection.cursor() as cursor:
        cursor.execute(query)
        rows = [list(row) for row in cursor.fetchall()]
    return [state.position, rows]


def raw_events(server: MariaServer, begin: ResumePoint) -> Iterator[bytes]:
    """The events after a place, as the server sends them."""
    with server.connect() as connection:
        end = read_state(connection)
    session = BinlogSession(Server("127.0.0.1", server.port, "root", ""), 7778, True, False)
    session.start(begin, by_gtids=False)
    while True:
        data = session.read_raw()
        if data[4] == FORMAT:
            assert has_checksums(data)
        position = int.from_bytes(data[13:17], "little")
        if data[4] not in (4, 27, FORMAT):
            yield data
        if position >= end.position and data[4] not in (4, FORMAT):
            session.close()
            return
