"""Captures a real MariaDB under kills of connections, server and task: nothing lost, nothing twice, in order.

The oracle is the program that makes the changes: it knows what it committed, and in which order.
"""

import os
import random
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from long_run import repetitions

pytest.importorskip("pymysql")

import pymysql
from mariadb_server import MariaServer, mariadb_server
from task_worker import TaskWorker, is_row

from penstock.connect.cdc.mysql.reading.connecting import READ_TIMEOUT_S
from penstock.connect.cdc.mysql.source import MariaDbTask
from penstock.connect.data.records import SourceRecord
from penstock.connect.data.validation import validate_value
from penstock.connect.errors import ChangesLost, ConfigInvalid, ConnectError, ReplicationProtocolError

STEPS = repetitions("PENSTOCK_MARIADB_STEPS", 150, 3000)
RESTARTS = repetitions("PENSTOCK_MARIADB_RESTARTS", 1, 20)
PLACES = repetitions("PENSTOCK_MARIADB_PLACES", 12, 60)
SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
pytestmark = pytest.mark.long

Change = tuple[str, str, int, int | None]
"""The table, the operation, the row's id, and its value."""


@pytest.fixture(scope="module")
def server() -> Iterator[MariaServer]:
    with mariadb_server("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1") as running:
        yield running


@pytest.fixture
def database(server: MariaServer, request: pytest.FixtureRequest) -> str:
    """A database of the test's own."""
    name = request.node.name.split("[")[0].removeprefix("test_")[:60]
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"drop database if exists {name}")
        cursor.execute(f"create database {name}")
    return name


class Storm:
    """Makes random transactions and DDL, and notes what it committed."""

    def __init__(self, server: MariaServer, database: str, rng: random.Random) -> None:
        self._server, self._database, self._rng = server, database, rng
        self.changes: list[Change] = []
        self._rows: dict[str, dict[int, int]] = {"a": {}, "b": {}}
        self._next_id = 1
        self._columns = 0
        self._connection = server.connect(database)
        for table in self._rows:
            self._run(f"create table {table} (id int primary key, v int)")
        self._run("create table watermarks (id int primary key)")

    def reconnect(self) -> None:
        self._connection = self._server.connect(self._database)

    def _run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def step(self) -> None:
        choice = self._rng.random()
        if choice < 0.03:
            self._columns += 1
            self._run(f"alter table a add column c{self._columns} varchar(10) default 'd{self._columns}'")
        elif choice < 0.05:
            self._run("flush binary logs")
        else:
            self._transaction(is_rolled_back=choice > 0.95)

    def _transaction(self, is_rolled_back: bool) -> None:
        rows = {table: dict(each) for table, each in self._rows.items()}
        changes: list[Change] = []
        self._run("begin")
        for _ in range(self._rng.choice([1, 1, 3, 30])):
            self._change(rows, changes)
        self._run("rollback" if is_rolled_back else "commit")
        if not is_rolled_back:
            self._rows = rows
            self.changes += changes

    def _change(self, rows: dict[str, dict[int, int]], changes: list[Change]) -> None:
        table = self._rng.choice(sorted(rows))
        known, choice = rows[table], self._rng.random()
        if choice < 0.4 or not known:
            count = self._rng.choice([1, 1, 5])
            new = {self._next_id + number: self._rng.randrange(1000) for number in range(count)}
            self._next_id += count
            values = ", ".join(f"({key}, {value})" for key, value in new.items())
            self._run(f"insert into {table} (id, v) values {values}")
            known.update(new)
            changes += [(table, "c", key, value) for key, value in new.items()]
            return
        key = self._rng.choice(sorted(known))
        if choice < 0.7:
            value = known[key] + 1000
            self._run(f"update {table} set v = {value} where id = {key}")
            known[key] = value
            changes.append((table, "u", key, value))
        elif choice < 0.85:
            self._run(f"delete from {table} where id = {key}")
            changes.append((table, "d", key, known.pop(key)))
        else:
            new_key, self._next_id = self._next_id, self._next_id + 1
            self._run(f"update {table} set id = {new_key} where id = {key}")
            value = known.pop(key)
            known[new_key] = value
            changes += [(table, "d", key, value), (table, "c", new_key, value)]

    def finish(self) -> int:
        """Insert a last row; returns its id."""
        self._run(f"insert into watermarks values ({self._next_id})")
        return self._next_id


def change_of(record: SourceRecord) -> Change | None:
    """The change that a record is, but for tombstones, schema changes and watermarks."""
    value = record.value
    if value is None or "op" not in value or record.topic.endswith(".watermarks"):
        return None
    row = value["after"] if value["op"] in "cu" else value["before"]
    return record.topic.split(".")[-1], value["op"], row["id"], row["v"]


def changes_of(records: list[SourceRecord]) -> list[Change]:
    return [found for each in records if (found := change_of(each)) is not None]


def kill_dumps(server: MariaServer) -> None:
    """End the connections that read the binary log."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("select id from information_schema.processlist where command = 'Binlog Dump'")
        for (number,) in cursor.fetchall():
            with suppress(pymysql.err.MySQLError):  # it has ended meanwhile
                cursor.execute(f"kill {number}")


@pytest.mark.timeout(900)
def test_storms_with_kills(server: MariaServer, database: str) -> None:
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)
    storm = Storm(server, database, rng)
    properties = server.properties(snapshot_mode="initial", database_include_list=database)
    properties["max.batch.size"] = str(rng.choice([1, 7, 100]))
    properties["max.queue.size"] = str(rng.choice([10, 500]))
    storm._run("insert into watermarks values (0)")
    worker = TaskWorker(properties, task_class=MariaDbTask)
    worker.until_row("watermarks", 0)
    restarts = 0
    try:
        for number in range(STEPS):
            storm.step()
            choice = rng.random()
            if choice < 0.03:
                kill_dumps(server)
            elif choice < 0.05:
                worker.crash()
            elif (choice < 0.055 or number == STEPS // 2) and restarts < RESTARTS:
                server.restart()
                storm.reconnect()
                restarts += 1
            elif number % 5 == 0:
                worker.step()
        worker.until_row("watermarks", storm.finish())
    finally:
        worker.stop()
    assert changes_of(worker.committed) == storm.changes
    for record in worker.committed:
        if record.value_schema is not None:
            validate_value(record.value_schema, record.value)


@pytest.mark.timeout(900)
def test_resumes_after_any_record(server: MariaServer, database: str) -> None:
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)
    storm = Storm(server, database, rng)
    properties = server.properties(
        snapshot_mode="initial", database_include_list=database, provide_transaction_metadata="true"
    )
    storm._run("insert into watermarks values (0)")
    worker = TaskWorker(properties, task_class=MariaDbTask)
    worker.until_row("watermarks", 0)
    begin = worker.stored
    for _ in range(60):
        storm.step()
    last = storm.finish()
    worker.until_row("watermarks", last)
    worker.stop()
    expected = [comparable(each) for each in worker.committed[1:]]
    for place in sorted(rng.sample(range(1, len(expected)), min(PLACES, len(expected) - 1))):
        offset = dict(worker.committed[place].source_offset)
        again = TaskWorker(properties, offset, MariaDbTask)
        again.until_row("watermarks", last)
        again.stop()
        found = [comparable(each) for each in again.committed]
        rest = expected[place:]
        repeated = len(found) - len(rest)
        assert 0 <= repeated <= 2, (place, offset, begin)  # a changed key repeats as a whole
        assert found[repeated:] == rest
        if repeated:
            assert found == expected[place - repeated :]


def comparable(record: SourceRecord) -> tuple[Any, ...]:
    value = record.value
    if value is None:
        return record.topic, record.key, None
    if "op" not in value:
        return record.topic, record.key, value.get("status"), value.get("event_count"), value.get("ddl")
    parts = (value["op"], value["before"], value["after"], value["transaction"], value["source"])
    return record.topic, record.key, *map(str, parts)


def test_the_snapshot_has_what_the_stream_has(server: MariaServer, database: str) -> None:
    from mariadb_cases import changes_of_types, tables_of_types

    properties = server.properties(database_include_list=database, skipped_operations="none")
    with server.connect(database) as connection, connection.cursor() as cursor:
        for statement in ["create table the_end (id int primary key)", *tables_of_types()]:
            cursor.execute(statement)
        cursor.execute("insert into the_end values (1)")
        first = TaskWorker(properties, task_class=MariaDbTask)
        first.until_row("the_end", 1)
        cursor.execute("begin")
        for statement in changes_of_types():
            cursor.execute(statement)
        cursor.execute("commit")
        cursor.execute("insert into the_end values (2)")
    first.until_row("the_end", 2)
    first.stop()
    second = TaskWorker(properties, task_class=MariaDbTask)
    second.until(lambda: len(second.committed) >= len(rows_of(first)))
    second.stop()
    assert rows_of(second) == rows_of(first)


def rows_of(worker: TaskWorker) -> dict[tuple[str, int], Any]:
    """The last state of each row, by topic and id."""
    return {
        (each.topic, each.key["id"]): (each.value["after"], each.value_schema)
        for each in worker.committed
        if each.value is not None and "op" in each.value
    }


def test_discarded_logs_are_noticed(server: MariaServer, database: str) -> None:
    properties = server.properties(database_include_list=database)
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create table a (id int primary key)")
        cursor.execute("insert into a values (1)")
        worker = TaskWorker(properties, task_class=MariaDbTask)
        worker.until_row("a", 1)
        worker.stop()
        cursor.execute("insert into a values (2)")
        cursor.execute("flush binary logs")
        cursor.execute("show master status")
        file = cursor.fetchall()[0][0]
        while True:  # the server keeps what a session that ends still reads
            kill_dumps(server)
            cursor.execute(f"purge binary logs to '{file}'")
            cursor.execute("show binary logs")
            if cursor.fetchall()[0][0] == file:
                break
    again = TaskWorker(properties, worker.stored, MariaDbTask)
    with pytest.raises(ChangesLost, match="changes after the stored offset are lost"):
        again.until_row("a", 2)
    again.stop()
    needed = TaskWorker({**properties, "snapshot.mode": "when_needed"}, worker.stored, MariaDbTask)
    needed.until_row("a", 2)
    needed.stop()


def test_a_setting_that_is_missing(server: MariaServer, database: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("set global binlog_row_metadata = 'NO_LOG'")
        try:
            worker = TaskWorker(server.properties(), task_class=MariaDbTask)
            with pytest.raises(ConfigInvalid, match="binlog_row_metadata is NO_LOG; expected FULL"):
                worker.until_row("a", 1)
            worker.stop()
        finally:
            cursor.execute("set global binlog_row_metadata = 'FULL'")


def test_changes_by_a_statement_are_noticed(server: MariaServer, database: str) -> None:
    properties = server.properties(database_include_list=database)
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create table a (id int primary key)")
        cursor.execute("create table left_out (id int primary key)")
        cursor.execute("insert into a values (1)")
        worker = TaskWorker({**properties, "table.exclude.list": ".*left_out"}, task_class=MariaDbTask)
        worker.until_row("a", 1)
        cursor.execute("set session binlog_format = 'STATEMENT'")
        cursor.execute("insert into left_out values (1)")
        cursor.execute("set session binlog_format = 'ROW'")
        cursor.execute("insert into a values (2)")
        worker.until_row("a", 2)
        cursor.execute("set session binlog_format = 'STATEMENT'")
        cursor.execute("insert into a values (3)")
        with pytest.raises(ReplicationProtocolError, match=rf"rows of {database}\.a were changed"):
            worker.until_row("a", 3)
        worker.stop()


def test_rows_without_all_columns_are_noticed(server: MariaServer, database: str) -> None:
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create table a (id int primary key, b int, c blob)")
        cursor.execute("insert into a values (1, 1, 'c')")
        worker = TaskWorker(server.properties(database_include_list=database), task_class=MariaDbTask)
        worker.until_row("a", 1)
        cursor.execute("set session binlog_row_image = 'NOBLOB'")
        cursor.execute("update a set b = 2")
        with pytest.raises(ReplicationProtocolError, match=rf"a row of {database}\.a lacks columns"):
            worker.until(lambda: worker.committed[-1].value["op"] == "u")
        worker.stop()


def test_latin1_without_a_character_in_cp1252(server: MariaServer, database: str) -> None:
    properties = server.properties(database_include_list=database)
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create table a (id int primary key, t varchar(9) character set latin1)")
        cursor.execute("insert into a values (1, _latin1 x'41818D80E4')")
        worker = TaskWorker(properties, task_class=MariaDbTask)
        worker.until_row("a", 1)
        cursor.execute("insert into a values (2, _latin1 x'41818D80E4')")
        worker.until_row("a", 2)
        worker.stop()
    texts = [each.value["after"]["t"] for each in worker.committed if is_row(each, "a", each.key["id"])]
    assert texts == ["A\x81\x8d\u20acä"] * 2


def test_prepared_transactions(server: MariaServer, database: str) -> None:
    properties = server.properties(database_include_list=database, provide_transaction_metadata="true")
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create table a (id int primary key)")
        cursor.execute("insert into a values (1)")
        worker = TaskWorker(properties, task_class=MariaDbTask)
        worker.until_row("a", 1)
        for statement in ("start 'x'", "end 'x'", "prepare 'x'", "commit 'x'"):
            cursor.execute(f"xa {statement}")
            if "start" in statement:
                cursor.execute("insert into a values (2)")
        cursor.execute("insert into a values (3)")
        worker.until_row("a", 3)
        worker.stop()
    metadata = [each.value["status"] for each in worker.committed if each.topic == "pre.transaction"]
    assert metadata == ["BEGIN", "END"] * (len(metadata) // 2)


def test_a_silent_server_does_not_keep_the_task_from_stopping(server: MariaServer, database: str) -> None:
    """It would wait for a minute, or in a snapshot without end."""
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create table a (id int primary key)")
        cursor.execute("insert into a values (1)")
        worker = TaskWorker(server.properties(database_include_list=database), task_class=MariaDbTask)
        worker.until_row("a", 1)
        server.signal(signal.SIGSTOP)
        try:
            stopping = threading.Thread(target=worker.stop, daemon=True)
            stopping.start()
            stopping.join(READ_TIMEOUT_S / 2)
            assert not stopping.is_alive()
        finally:
            server.signal(signal.SIGCONT)


def test_a_wrong_password_ends_the_task(server: MariaServer) -> None:
    properties = {**server.properties(), "database.password": "wrong"}
    worker = TaskWorker(properties, task_class=MariaDbTask)
    with pytest.raises(ConnectError, match="Access denied"):
        worker.until_row("a", 1)
    worker.stop()


def test_captures_over_tls() -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)  # the server has a user of its own
        certificate.private_key_pem.write_to_path(str(directory / "key.pem"))
        certificate.cert_chain_pems[0].write_to_path(str(directory / "cert.pem"))
        authority.cert_pem.write_to_path(str(directory / "ca.pem"))
        for each in directory.iterdir():
            each.chmod(0o644)
        options = (f"--ssl-cert={directory}/cert.pem", f"--ssl-key={directory}/key.pem")
        with mariadb_server(*options, "--require-secure-transport=ON") as server:
            _capture_over_tls(server, str(directory / "ca.pem"))


def _capture_over_tls(server: MariaServer, authority: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("create database d")
        cursor.execute("create table d.a (id int primary key)")
        cursor.execute("insert into d.a values (1)")
        trusting = server.properties(database_ssl_mode="verify_identity", database_ssl_ca=authority)
        worker = TaskWorker(trusting, task_class=MariaDbTask)
        worker.until_row("a", 1)
        cursor.execute("insert into d.a select seq from d.seq_2_to_3000")
        worker.until_row("a", 3000)
        worker.stop()
    for mode, message in {
        "verify_ca": "CERTIFICATE_VERIFY_FAILED",
        "disabled": "insecure transport|Access denied",
    }.items():
        refused = TaskWorker(server.properties(database_ssl_mode=mode), task_class=MariaDbTask)
        with pytest.raises(ConnectError, match=message):
            refused.until_row("a", 1)
        refused.stop()


def test_statements_and_heartbeats(server: MariaServer, database: str) -> None:
    properties = server.properties(
        database_include_list=database, include_query="true", heartbeat_interval_ms="1"
    )
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create table a (id int primary key)")
        worker = TaskWorker(properties, task_class=MariaDbTask)
        worker.until(lambda: any(each.topic == "__debezium-heartbeat.pre" for each in worker.committed))
        cursor.execute("insert into a values (1)")
        worker.until_row("a", 1)
        worker.stop()
    record = next(each for each in worker.committed if is_row(each, "a", 1))
    assert record.value["source"]["query"] == "insert into a values (1)"
