"""Incremental and blocking snapshots on a real server, beside changes and under kills.

The oracle is strict: the records are applied in order, and each row of a snapshot must be equal to what the
records before it made of that row. A row that is stale, ahead of the stream, or deleted already fails.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from random_changes import Storm
from task_worker import TaskWorker, is_row

from long_run import repetitions
from penstock.connect.data.records import SourceRecord
from postgres_server import RunningServer, restartable_server

psycopg = pytest.importorskip("psycopg")

STEPS = repetitions("PENSTOCK_CDC_STEPS", 30, 4000)
SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
CONCURRENT = repetitions("PENSTOCK_CDC_TRANSACTIONS", 30, 2000)
TABLES = ("wide", "full_row", "changed")


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with restartable_server() as running:
        yield running


@pytest.fixture
def where(server: RunningServer, request: pytest.FixtureRequest) -> str:
    """The connection string of a database of the test's own, with a signal table."""
    name = request.node.name.replace("[", "_").rstrip("]").removeprefix("test_")[:54]
    with psycopg.connect(server.where("postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    with psycopg.connect(server.where(name), autocommit=True) as connection:
        connection.execute("create table signals (id text primary key, type text not null, data text)")
    return server.where(name)


def properties_of(where: str, **more: str) -> dict[str, str]:
    parts = dict(each.split("=") for each in where.split())
    return {
        "database.hostname": parts["host"],
        "database.port": parts["port"],
        "database.user": "postgres",
        "database.dbname": parts["dbname"],
        "slot.name": parts["dbname"],
        "snapshot.mode": "no_data",
        "poll.interval.ms": "20",
        "errors.retry.delay.initial.ms": "50",
        "errors.retry.delay.max.ms": "200",
        "status.update.interval.ms": "100",
        "signal.data.collection": "public.signals",
        "signal.poll.interval.ms": "20",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": "told",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def send(connection: Any, id_: str, kind: str, **data: Any) -> None:
    content = json.dumps({name.replace("_", "-"): value for name, value in data.items()})
    connection.execute("insert into signals values (%s, %s, %s)", [id_, kind, content])


def started(where: str, **more: str) -> TaskWorker:
    worker = TaskWorker(properties_of(where, **more))
    with psycopg.connect(where, autocommit=True) as connection:
        query = "select 1 from pg_replication_slots where database = %s"
        worker.until(lambda: bool(connection.execute(query, [connection.info.dbname]).fetchall()))
    return worker


def told(worker: TaskWorker, status: str) -> list[dict[str, Any]]:
    """The notifications with a status."""
    found = [each.value for each in worker.committed if each.topic == "told"]
    return [each.to_dict() for each in found if each["type"] == status]


def applied(worker: TaskWorker, table: str) -> dict[int, str | None]:
    """The rows that the records make, each checked against those before."""
    rows: dict[int, str | None] = {}
    for record in worker.committed:
        if not record.topic.endswith(f".{table}") or record.value is None:
            continue
        operation, after, row_id = record.value["op"], record.value["after"], record.key["id"]
        if operation == "d":
            rows[row_id] = "deleted"
        elif operation == "r":
            assert rows.get(row_id, after["t"]) == after["t"], (table, row_id, rows[row_id], after["t"])
            rows[row_id] = after["t"]
        else:
            rows[row_id] = after["t"]
    return {row_id: text for row_id, text in rows.items() if text != "deleted"}


def read_rows(worker: TaskWorker, table: str) -> list[SourceRecord]:
    """The records of snapshots of a table."""
    records = [each for each in worker.committed if each.topic == f"pre.public.{table}"]
    return [each for each in records if each.value is not None and each.value["op"] == "r"]


def assert_equal_rows(where: str, worker: TaskWorker) -> None:
    with psycopg.connect(where) as connection:
        for table in TABLES:
            rows = connection.execute(f"select id, t from {table}".encode()).fetchall()
            assert applied(worker, table) == dict(rows), table


@pytest.mark.parametrize(
    "strategy",
    [
        "insert_insert",
        pytest.param("insert_delete", marks=pytest.mark.long),
        pytest.param("read_only", marks=pytest.mark.long),
    ],
)
def test_snapshots_under_crashes(server: RunningServer, where: str, strategy: str) -> None:
    """All rows arrive, whatever ends the task, its sessions and the server.

    This storm rarely changes rows of a chunk that waits; the tests of changes below do.
    """
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)
    storm = Storm(where, rng)
    storm.alters = False
    for _ in range(60):
        storm.step()
    storm.finish()
    more = {"incremental_snapshot_watermarking_strategy": strategy}
    if strategy == "read_only":
        more = {"read_only": "true"}
    worker = started(where, incremental_snapshot_chunk_size=str(rng.choice([20, 70])), **more)
    restarts = 0
    try:
        with psycopg.connect(where, autocommit=True) as connection:
            send(connection, "first", "execute-snapshot", data_collections=["public.(wide|full_row|changed)"])
            for number in range(STEPS):
                storm.step()
                choice = rng.random()
                if choice < 0.02:
                    query = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s "
                    wanted = "and application_name like 'penstock%%'"
                    connection.execute(query + wanted, [connection.info.dbname])
                elif choice < 0.05:
                    worker.crash()
                elif number % 3 == 0:
                    worker.step()
                if choice > 0.995 and restarts < repetitions("PENSTOCK_CDC_RESTARTS", 0, 10):
                    server.restart()
                    storm.lose_sessions()
                    connection = psycopg.connect(where, autocommit=True)
                    restarts += 1
        last = storm.finish()
        worker.until(lambda: any(is_row(each, "watermarks", last) for each in worker.committed))
        worker.until(lambda: bool(told(worker, "COMPLETED")))
    finally:
        worker.stop()
        storm.close()
    assert_equal_rows(where, worker)
    assert [each["id"] for each in told(worker, "STARTED")] == ["first"]
    assert {each["id"] for each in told(worker, "COMPLETED")} == {"first"}
    scanned = [each["additional_data"]["scanned_collection"] for each in told(worker, "TABLE_SCAN_COMPLETED")]
    assert set(scanned) == {f"public.{table}" for table in TABLES}
    assert any(each.value is not None and each.value.get("op") == "r" for each in worker.committed)


def test_a_quiet_database(where: str) -> None:
    worker = started(where, incremental_snapshot_chunk_size="3", table_include_list="public.orders")
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table orders (id int primary key, t text)")
        connection.execute("create table keyless (id int, t text)")
        connection.execute("insert into orders select each, 'x' from generate_series(1, 10) each")
        conditions = [{"data-collection": "public.orders", "filter": "id > 4"}]
        send(
            connection,
            "some",
            "execute-snapshot",
            data_collections=["public.orders", "public.missing"],
            additional_conditions=conditions,
        )
        worker.until(lambda: bool(told(worker, "COMPLETED")))
    worker.stop()
    rows = [
        each for each in worker.committed if each.topic == "pre.public.orders" and each.value["op"] == "r"
    ]
    assert [each.value["after"]["id"] for each in rows] == [5, 6, 7, 8, 9, 10]
    assert {each.value["source"]["snapshot"] for each in rows} == {"incremental"}
    statuses = [each["additional_data"]["status"] for each in told(worker, "TABLE_SCAN_COMPLETED")]
    assert statuses == ["SUCCEEDED", "UNKNOWN_SCHEMA"]
    assert [each["additional_data"]["last_processed_key"] for each in told(worker, "IN_PROGRESS")] == [
        "7",
        "10",
    ]
    assert worker.stored is not None
    assert not any(name.startswith("incremental") for name in worker.stored)


def test_pause_resume_and_stop(where: str) -> None:
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table orders (id int primary key, t text)")
        connection.execute("insert into orders select each, 'x' from generate_series(1, 150) each")
        connection.execute("create table later (id int primary key, t text)")
        connection.execute("insert into later values (1, 'x')")
        worker = started(where, incremental_snapshot_chunk_size="1")
        send(connection, "a", "execute-snapshot", data_collections=["public.orders", "public.later"])
        worker.until(lambda: bool(told(worker, "IN_PROGRESS")))
        send(connection, "b", "pause-snapshot")
        worker.until(lambda: bool(told(worker, "PAUSED")))
        worker.crash()  # it stays paused
        connection.execute("insert into orders values (1001, 'x')")
        worker.until_row("orders", 1001)
        assert not told(worker, "COMPLETED")
        send(connection, "c", "resume-snapshot")
        worker.until(lambda: bool(told(worker, "RESUMED")))
        send(connection, "d", "stop-snapshot", data_collections=["public.orders"])
        worker.until(lambda: bool(told(worker, "COMPLETED")))
        worker.stop()
    assert [each["additional_data"]["data_collections"] for each in told(worker, "ABORTED")] == [
        "public.orders"
    ]
    assert any(is_row(each, "later", 1) for each in worker.committed)
    rows = [
        each for each in worker.committed if each.topic == "pre.public.orders" and each.value["op"] == "r"
    ]
    assert len(rows) < 150


def test_keys_of_all_kinds(where: str) -> None:
    """Compound keys, keys with nulls and repetitions, and tables without a key."""
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table two (a text, b int, primary key (b, a))")
        connection.execute(
            "insert into two select chr(65 + each % 7) || '''\\', each / 7 from generate_series(0, 40) each"
        )
        connection.execute("create table nulls (n int, t text)")
        connection.execute("alter table nulls replica identity full")
        connection.execute(
            "insert into nulls select nullif(each % 4, 0), each::text from generate_series(0, 30) each"
        )
        worker = started(where, incremental_snapshot_chunk_size="4")
        send(connection, "a", "execute-snapshot", data_collections=["public.two", "public.nulls"])
        worker.until(lambda: len(told(worker, "COMPLETED")) == 1)
        send(connection, "b", "execute-snapshot", data_collections=["public.nulls"], surrogate_key="n")
        worker.until(lambda: len(told(worker, "COMPLETED")) == 2)
        worker.stop()
        expected = connection.execute("select a, b from two order by b, a").fetchall()
    two = [each.value["after"] for each in worker.committed if each.topic == "pre.public.two"]
    assert [(each["a"], each["b"]) for each in two] == expected
    nulls = [each.value["after"]["t"] for each in worker.committed if each.topic == "pre.public.nulls"]
    assert sorted(nulls, key=int) == [str(each) for each in range(31)]
    statuses = [each["additional_data"]["status"] for each in told(worker, "TABLE_SCAN_COMPLETED")]
    assert statuses == ["SUCCEEDED", "NO_PRIMARY_KEY", "SUCCEEDED"]


def test_a_blocking_snapshot(where: str) -> None:
    print(f"PENSTOCK_SEED={SEED}")
    storm = Storm(where, random.Random(SEED))
    storm.alters = False
    for _ in range(60):
        storm.step()
    storm.finish()
    worker = started(where)
    with psycopg.connect(where, autocommit=True) as connection:
        send(
            connection,
            "b",
            "execute-snapshot",
            type="blocking",
            data_collections=["public.wide", "public.full_row", "public.changed"],
        )
    for number in range(60):
        storm.step()
        if number % 20 == 10:
            worker.crash()
    last = storm.finish()
    worker.until(lambda: any(is_row(each, "watermarks", last) for each in worker.committed))
    worker.until(lambda: bool(told(worker, "COMPLETED")))
    worker.stop()
    storm.close()
    assert_equal_rows(where, worker)
    assert worker.stored is not None
    assert "blocking_snapshot" not in worker.stored


def test_signals_in_a_file(where: str, tmp_path: Path) -> None:
    signals = tmp_path / "signals"
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table orders (id int primary key, t text)")
        connection.execute("insert into orders select each, 'x' from generate_series(1, 5) each")
    worker = started(
        where, signal_enabled_channels="source,file", signal_file=str(signals), signal_data_collection=""
    )
    data = {"data-collections": ["public.orders"]}
    signals.write_text("nothing\n" + json.dumps({"id": "f", "type": "execute-snapshot", "data": data}) + "\n")
    worker.until(lambda: bool(told(worker, "COMPLETED")))
    worker.until(lambda: signals.read_text() == "")
    worker.stop()
    assert [each["id"] for each in told(worker, "COMPLETED")] == ["f"]
    assert sum(each.topic == "pre.public.orders" for each in worker.committed) == 5
    assert not [each for each in worker.committed if each.topic.endswith("message")]


@pytest.mark.parametrize("rows", [pytest.param(0, marks=pytest.mark.long), 2])
def test_notifications_of_the_first_snapshot(where: str, rows: int) -> None:
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table orders (id int primary key, t text)")
        connection.execute("insert into orders select each, 'x' from generate_series(1, %s) each", [rows])
    worker = TaskWorker(properties_of(where, snapshot_mode="initial", table_include_list="public.orders"))
    worker.until(lambda: bool(told(worker, "COMPLETED")))
    assert worker.stored is not None
    assert worker.stored["snapshot_completed"]
    worker.crash()
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("insert into orders values (9, 'x')")
    worker.until_row("orders", 9)
    worker.stop()
    found = [each.value for each in worker.committed if each.topic == "told"]
    types = [each["type"] for each in found]
    table = ["IN_PROGRESS", "TABLE_SCAN_COMPLETED"]
    assert types == ["STARTED", *table, *table, "COMPLETED", "SKIPPED"]
    assert found[2]["additional_data"] == {
        "connector_name": "pre",
        "data_collections": "public.orders,public.signals",
        "scanned_collection": "public.orders",
        "status": "SUCCEEDED",
        "total_rows_scanned": str(rows),
    }


@pytest.mark.parametrize("kind", ["incremental", pytest.param("blocking", marks=pytest.mark.long)])
def test_rows_that_change_while_they_are_read(where: str, kind: str) -> None:
    """Sessions change the rows of chunks that wait, in transactions that overlap, while the task crashes."""
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table kept (id int primary key, t text)")
        connection.execute("insert into kept select each, 'first' from generate_series(1, 60) each")
        worker = started(where, incremental_snapshot_chunk_size="30")
        threads = [Thread(target=change, args=(where, place)) for place in range(3)]
        for each in threads:
            each.start()
        rounds = 0
        while any(each.is_alive() for each in threads):
            if len(told(worker, "COMPLETED")) == rounds:
                rounds += 1
                name = ["public.kept"]
                send(connection, f"s{rounds}", "execute-snapshot", data_collections=name, type=kind)
            worker.step()
            if rng.random() < 0.01:
                worker.crash()
        for each in threads:
            each.join()
        connection.execute("insert into kept values (1001, 'last')")
        worker.until(lambda: any(is_row(each, "kept", 1001) for each in worker.committed))
        worker.until(lambda: len(told(worker, "COMPLETED")) >= rounds)
        worker.stop()
        rows = connection.execute("select id, t from kept").fetchall()
    assert applied(worker, "kept") == dict(rows)
    assert read_rows(worker, "kept")


def change(where: str, seed: int) -> None:
    """Change, delete and insert rows that no other session has locked."""
    rng = random.Random(seed)
    with psycopg.connect(where) as connection:
        for number in range(CONCURRENT):
            for _ in range(rng.randint(1, 4)):
                row_id, text = rng.randint(1, 60), f"{seed} {number} {rng.random()}"
                locked = "select id from kept where id = %s for update skip locked"
                if not connection.execute(locked, [row_id]).fetchall():
                    continue
                if rng.random() < 0.2:
                    connection.execute("delete from kept where id = %s", [row_id])
                    connection.execute("insert into kept values (%s, %s)", [row_id, text])
                else:
                    connection.execute("update kept set t = %s where id = %s", [text, row_id])
            connection.commit()


ROWS_OF_WINDOWS = """
create table kept (id int primary key, t text);
insert into kept select each, 'first' from generate_series(1, 40) each;
create table loose (n int, t text);
alter table loose replica identity full;
insert into loose select each % 3, 'row ' || each / 2 from generate_series(0, 59) each;
"""
CHANGES_IN_WINDOWS = """
do $$
begin
    update kept set t = t || ' changed' where id % 4 = 0;
    update kept set t = t || ' twice' where id % 4 = 0;
    begin  -- a subtransaction
        delete from kept where id % 10 = 1;
        update kept set id = id + 1000 where id % 10 = 2 and id < 1000;
    exception when division_by_zero then null;
    end;
    insert into kept select max(id) + 1, 'new' from kept;
    update loose set t = t || '.' where t like '%5';
    update loose set t = t || '.' where t like '%5.';
    delete from loose where t like '%3' and n = 1;
    insert into loose values (0, 'row 2'), (1, 'new');
end $$
"""


def test_changes_between_a_chunk_and_its_rows(where: str) -> None:
    """A transaction commits while a chunk is read, and the stream has its changes before the rows.

    Sessions write a message when they begin. The moment of the chunk is after it and so after all commits.
    """
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute(ROWS_OF_WINDOWS.encode())
        worker = started(
            where,
            incremental_snapshot_chunk_size="100",
            read_only="true",
            lsn_flush_mode="manual",
            database_initial_statements="select pg_logical_emit_message(false, 'noise', '')",
            message_prefix_exclude_list="noise",
        )
        connection.execute("select pg_advisory_lock(1)")
        waits = "pg_advisory_xact_lock_shared(1) is not null"
        for number, (table, key) in enumerate([("kept", "id"), ("loose", "n")]):
            send(
                *(connection, table, "execute-snapshot"),
                data_collections=[f"public.{table}"],
                additional_conditions=[{"data-collection": f"public.{table}", "filter": waits}],
                surrogate_key=key,
            )
            change_while_chunks_are_read(worker, connection, number + 1)
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name like 'penstock incremental%' and datname = current_database()"
            )
        connection.execute("insert into kept values (9999, 'last')")
        worker.until_row("kept", 9999)
        worker.stop()
        kept = connection.execute("select id, t from kept").fetchall()
        loose = connection.execute("select n, t from loose").fetchall()
    assert applied(worker, "kept") == dict(kept)
    assert read_rows(worker, "kept")
    found: Counter[tuple[int, str]] = Counter()
    is_read = False
    for record in worker.committed:
        is_read = is_read or is_row(record, "signals", "loose")
        if is_read and record.topic == "pre.public.loose":
            for image, count in (("before", -1), ("after", 1)):
                if record.value[image] is not None:
                    found[record.value[image]["n"], record.value[image]["t"]] += count
    assert set(+found) == set(loose)
    assert not Counter(loose) - found  # some rows come both from the stream and from a later chunk


def change_while_chunks_are_read(worker: TaskWorker, connection: Any, completed: int) -> None:
    """Change rows whenever a statement waits for the lock, until so many snapshots are complete."""
    query = "select 1 from pg_locks where locktype = 'advisory' and not granted"

    def is_complete() -> bool:
        return len(told(worker, "COMPLETED")) == completed

    while not is_complete():
        worker.until(lambda: is_complete() or bool(connection.execute(query).fetchall()))
        connection.execute(CHANGES_IN_WINDOWS.encode())
        connection.execute("select pg_advisory_unlock(1)")
        connection.execute("select pg_advisory_lock(1)")  # after the session that waited has ended its chunk


def test_a_crash_between_rows_with_the_same_key(where: str) -> None:
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table loose (n int, t text)")
        connection.execute("alter table loose replica identity full")
        connection.execute("insert into loose select each / 10, each::text from generate_series(0, 39) each")
        worker = started(where, incremental_snapshot_chunk_size="15", max_batch_size="1", max_queue_size="1")
        send(connection, "a", "execute-snapshot", data_collections=["public.loose"], surrogate_key="n")
        for _ in range(3):
            count = len(read_rows(worker, "loose"))
            worker.until(lambda: len(read_rows(worker, "loose")) > count)  # noqa: B023
            worker.crash()
        worker.until(lambda: bool(told(worker, "COMPLETED")))
        worker.stop()
    texts = [each.value["after"]["t"] for each in read_rows(worker, "loose")]
    assert texts == [str(each) for each in range(40)]


def test_a_stop_outlives_a_crash(where: str) -> None:
    """Also while the snapshot is paused; the next one is not paused."""
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table orders (id int primary key, t text)")
        connection.execute("insert into orders select each, 'x' from generate_series(1, 50) each")
        worker = started(where, incremental_snapshot_chunk_size="5")
        send(connection, "a", "execute-snapshot", data_collections=["public.orders"])
        send(connection, "b", "pause-snapshot")
        worker.until(lambda: bool(told(worker, "PAUSED")))
        with connection.transaction():
            send(connection, "c", "stop-snapshot")
        worker.until(lambda: any(is_row(each, "signals", "c") for each in worker.committed))
        assert worker.stored is not None
        assert not any(name.startswith("incremental") for name in worker.stored)
        worker.until(lambda: bool(told(worker, "ABORTED")))
        send(connection, "d", "execute-snapshot", data_collections=["public.orders"])
        worker.until(lambda: bool(told(worker, "COMPLETED")))
        worker.stop()
    assert [each["id"] for each in told(worker, "COMPLETED")] == ["d"]
    assert [each["id"] for each in told(worker, "ABORTED")] == ["a"]


def test_statements_that_are_not_valid(where: str) -> None:
    """They end the snapshot of their table only, and cannot leave their place in the query."""
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table orders (id int primary key, t text)")
        connection.execute("create table later (id int primary key, t text)")
        connection.execute("insert into orders values (1, 'x')")
        connection.execute("insert into later values (1, 'x')")
        worker = started(where)
        names = ["public.orders", "public.later"]
        for number, (kind, bad) in enumerate(
            [
                ("blocking", "select nothing from orders"),
                ("incremental", "nothing > 3"),
                ("incremental", "true)) to program 'touch never' --"),
                ("blocking", "select * from orders) s) to program 'touch never' --"),
                ("blocking", "select * from orders) s) to stdout; commit; drop table orders; --"),
            ]
        ):
            filters = [{"data-collection": "public.orders", "filter": bad}]
            more = {"data_collections": names, "additional_conditions": filters}
            send(connection, f"s{number}", "execute-snapshot", type=kind, **more)
            completed = number + 1
            worker.until(lambda: len(told(worker, "COMPLETED")) == completed)  # noqa: B023
        worker.stop()
        assert connection.execute("select * from orders").fetchall()
        assert not Path(connection.execute("show data_directory").fetchone()[0], "never").exists()
    assert not read_rows(worker, "orders")
    assert len(read_rows(worker, "later")) == 5
    statuses = [each["additional_data"]["status"] for each in told(worker, "TABLE_SCAN_COMPLETED")]
    assert statuses == ["SQL_EXCEPTION", "SUCCEEDED"] * 5


def test_a_stop_in_a_blocking_snapshot(where: str) -> None:
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table orders (id int primary key, t text)")
        connection.execute("insert into orders values (1, 'x')")
        worker = started(where, max_batch_size="10", max_queue_size="10")
        statement = "select each as id, pg_sleep(1)::text as t from generate_series(1, 100) each"
        filters = [{"data-collection": "public.orders", "filter": statement}]
        data = {"data_collections": ["public.orders"], "additional_conditions": filters}
        send(connection, "a", "execute-snapshot", type="blocking", **data)
        query = "select 1 from pg_stat_activity where application_name like 'penstock blocking%'"
        query += " and query like 'copy%' and datname = current_database()"
        worker.until(lambda: bool(connection.execute(query).fetchall()))
        worker.stop()
        assert not read_rows(worker, "orders")
