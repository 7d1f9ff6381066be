"""Captures a real server under kills of connections, server and task: nothing lost, nothing twice, in order.

The oracle is the program that makes the changes: it knows what it committed, and in which order.
"""

import os
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from long_run import repetitions
from postgres_server import RunningServer, restartable_server

pytest.importorskip("psycopg")

import psycopg
from random_changes import Change, Storm
from task_worker import TaskWorker, is_row

from penstock.connect.data.records import SourceRecord
from penstock.connect.data.validation import validate_value
from penstock.connect.errors import ChangesLost, ConfigInvalid, ConnectError

STEPS = repetitions("PENSTOCK_CDC_STEPS", 300, 5000)
RESTARTS = repetitions("PENSTOCK_CDC_RESTARTS", 1, 20)
PLACES = repetitions("PENSTOCK_CDC_PLACES", 6, 100)
SEED = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with restartable_server() as running:
        yield running


@pytest.fixture
def where(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """The connection string of a database of the test's own."""
    name = request.node.name.split("[")[0].removeprefix("test_")[:60]
    with psycopg.connect(server.where("postgres"), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    yield server.where(name)
    with psycopg.connect(server.where("postgres"), autocommit=True) as connection:
        connection.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
            "where database = %s and not active",
            [name],
        )


def properties_of(where: str, **more: str) -> dict[str, str]:
    parts = dict(each.split("=") for each in where.split())
    name = parts["dbname"]
    return {
        "database.hostname": parts["host"],
        "database.port": parts["port"],
        "database.user": "postgres",
        "database.dbname": name,
        "slot.name": name,
        "poll.interval.ms": "50",
        "errors.retry.delay.initial.ms": "50",
        "errors.retry.delay.max.ms": "200",
        "status.update.interval.ms": "100",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def test_storms_with_kills(server: RunningServer, where: str) -> None:
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)
    storm = Storm(where, rng)
    sizes = {"max.batch.size": str(rng.choice([1, 7, 100])), "max.queue.size": str(rng.choice([10, 500]))}
    worker = TaskWorker(
        {**properties_of(where, table_exclude_list="public.left_out"), **sizes, "snapshot.mode": "no_data"}
    )
    worker.until(lambda: has_slot(where))
    restarts = 0
    try:
        for number in range(STEPS):
            storm.step()
            choice = rng.random()
            if choice < 0.03:
                terminate_senders(where)
            elif choice < 0.05:
                worker.crash()
            elif choice < 0.055 and restarts < RESTARTS:
                server.restart()
                storm.lose_sessions()
                restarts += 1
            elif number % 5 == 0:
                worker.step()
        worker.until_row("watermarks", storm.finish())
    finally:
        worker.stop()
        storm.close()
    assert [found for each in worker.committed if (found := change_of(each))] == storm.changes
    assert_whole_transactions(worker)


def test_resumes_after_any_record(where: str) -> None:
    print(f"PENSTOCK_SEED={SEED}")
    rng = random.Random(SEED)
    storm = Storm(where, rng, sessions=2)
    properties = properties_of(
        where,
        snapshot_mode="no_data",
        provide_transaction_metadata="true",
        table_exclude_list="public.left_out",
    )
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create publication dbz_publication for all tables")
        connection.execute("select pg_create_logical_replication_slot('kept', 'pgoutput')")
        for _ in range(80):
            storm.step()
        last = storm.finish()
        properties["slot.name"] = "whole"
        expected = captured(connection, properties, None, lambda found: has_ended(found, last))
        assert [found for each in expected if (found := change_of(each))] == storm.changes
        for number in range(PLACES):
            place = rng.randrange(len(expected) - 1)
            properties["slot.name"] = f"copy_{number}"
            after = expected[place + 1 :]
            offset = expected[place].source_offset
            rest = captured(connection, properties, offset, partial(has_count, len(after)))
            assert list(map(comparable, rest)) == list(map(comparable, after)), place
    storm.close()


def captured(
    connection: psycopg.Connection[Any],
    properties: Mapping[str, str],
    offset: Mapping[str, Any] | None,
    is_done: Callable[[list[SourceRecord]], bool],
) -> list[SourceRecord]:
    """What a task captures after an offset from a copy of the slot `kept`, which has all changes."""
    slot = properties["slot.name"]
    connection.execute("select pg_copy_logical_replication_slot('kept', %s)", [slot])
    confirmed_before = (offset or {}).get("lsn_commit")
    if confirmed_before is not None and confirmed_before % 16 == 0:  # some slots are as far as the offset
        connection.execute(
            "select pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s)", [slot, confirmed_before]
        )
    worker = TaskWorker(properties, offset)
    try:
        worker.until(lambda: is_done(worker.committed))
        worker.step()
    finally:
        worker.stop()
    drop_slot(connection, slot)
    return worker.committed


def drop_slot(connection: psycopg.Connection[Any], name: str) -> None:
    """Drop a slot once the server has noticed that nobody reads it."""
    while has_slot_named(connection, name):
        pass
    connection.execute("select pg_drop_replication_slot(%s)", [name])


def has_count(count: int, records: list[SourceRecord]) -> bool:
    return len(records) >= count


def has_ended(records: list[SourceRecord], last: int) -> bool:
    """Whether the transaction of the last row is captured with its END."""
    rows = [each for each in records[-2:] if each.value is not None and "after" in each.value]
    return bool(rows) and rows[0].topic.endswith("watermarks") and rows[0].value["after"]["id"] == last


def comparable(record: SourceRecord) -> tuple[Any, ...]:
    """The parts of a record that do not depend on when it was captured."""
    value = record.value.to_dict() if record.value is not None else {}
    for name in ("ts_ms", "ts_us", "ts_ns") if "op" in value else ():
        value.pop(name)
    return record.topic, record.key, value, record.source_offset


def test_a_snapshot_and_the_stream_meet(where: str) -> None:
    """Rows that change while the snapshot is taken, and a snapshot that has to begin again."""
    rng = random.Random(SEED)
    storm = Storm(where, rng)
    for _ in range(60):
        storm.step()
    storm.finish()
    storm.alters = False
    worker = TaskWorker({**properties_of(where), "max.batch.size": "5", "max.queue.size": "5"})
    worker.until(lambda: has_slot(where) or bool(worker.committed))
    try:
        for _ in range(20):
            storm.step()
            worker.step()
        worker.crash()
        for _ in range(60):
            storm.step()
            worker.step()
        worker.until_row("watermarks", storm.finish())
    finally:
        worker.stop()
    with psycopg.connect(where) as connection:
        for table in ("wide", "full_row", "changed", "left_out"):
            rows = connection.execute(f"select id, t from {table} order by id".encode()).fetchall()
            assert kept_rows(worker.committed, table) == rows
    storm.close()


def test_deletes_between_two_snapshots(where: str) -> None:
    """A row of a snapshot that was cut off is deleted before the next snapshot, which is cut off as well."""
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table kept (id int primary key, t text)")
        connection.execute("insert into kept select each, 'x' from generate_series(1, 40) each")
        worker = TaskWorker({**properties_of(where), "max.batch.size": "5", "max.queue.size": "5"})
        try:
            for deleted in (1, 2):
                worker.until(partial(has_count, 5 * deleted, worker.committed))
                assert worker.stored
                assert worker.stored.get("snapshot")
                connection.execute("delete from kept where id = %s", [deleted])
                worker.crash()
            worker.until(partial(has_snapshot_ended, worker))
            worker.crash()
            connection.execute("insert into kept values (99, 'end')")
            worker.until_row("kept", 99)
        finally:
            worker.stop()
        rows = connection.execute("select id, t from kept order by id").fetchall()
    assert kept_rows(worker.committed, "kept") == rows
    assert [each.key["id"] for each in worker.committed if each.value and each.value["op"] == "d"] == [1, 2]


def has_snapshot_ended(worker: TaskWorker) -> bool:
    return worker.stored is not None and bool(worker.stored.get("last_snapshot_record"))


def kept_rows(records: list[SourceRecord], table: str) -> list[tuple[int, str]]:
    """The rows that are left once all records are applied.

    The stream after a repeated snapshot has changes that the snapshot contains, so an insert may meet its
    row and a delete may find none.
    """
    rows: dict[int, str] = {}
    for each in records:
        if each.topic.endswith(f".{table}") and each.value is not None:
            if each.value["op"] == "d":
                rows.pop(each.key["id"], None)
            else:
                rows[each.key["id"]] = each.value["after"]["t"]
    return sorted(rows.items())


def test_changes_from_before_ddl(where: str) -> None:
    """The catalog is read after the changes, when columns, keys, types and tables are others already."""
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute(
            """create type mood as enum ('ok');
               create table renamed (id int primary key, a text, b int not null default 7, m mood);
               create table rekeyed (id int primary key, other int not null);
               create table dropped (id int primary key, a text);
               create table whole (id int primary key, a text);
               alter table whole replica identity full;
               create publication dbz_publication for all tables"""
        )
        connection.execute("select pg_create_logical_replication_slot(current_database(), 'pgoutput')")
        connection.execute(
            """insert into renamed values (1, null, 1, 'ok');
               update renamed set id = 2;
               insert into rekeyed values (1, 2);
               insert into dropped values (1, 'x');
               update dropped set a = 'y';
               insert into whole values (1, null);
               update whole set a = 'z';"""
        )
        connection.execute(
            """update renamed set a = 'filled';
               alter table renamed alter a set not null;
               alter table renamed rename b to c;
               alter table renamed drop m;
               drop type mood;
               alter table renamed add more text not null default 'm';
               alter table rekeyed drop constraint rekeyed_pkey, add primary key (other);
               drop table dropped;
               alter table whole alter a set not null;
               insert into renamed (id, a, c) values (3, 'new', 5);
               delete from renamed where id = 3;
               insert into rekeyed values (5, 6)"""
        )
        worker = TaskWorker(properties_of(where, snapshot_mode="no_data"))
        worker.until(lambda: bool(worker.committed) and is_row(worker.committed[-1], "rekeyed", 5))
        worker.stop()
    shown = [(each.key.to_dict(), after_of(each)) for each in worker.committed if each.value is not None]
    assert shown == [
        ({"id": 1}, {"id": 1, "a": None, "b": 1}),
        ({"id": 1}, None),
        ({"id": 2}, {"id": 2, "a": None, "b": 1}),
        ({"id": 1}, {"id": 1, "other": 2}),
        ({"id": 1}, {"id": 1, "a": "x"}),
        ({"id": 1}, {"id": 1, "a": "y"}),
        ({"id": 1}, {"id": 1, "a": None}),
        ({"id": 1}, {"id": 1, "a": "z"}),
        ({"id": 2}, {"id": 2, "a": "filled", "b": 1}),
        ({"id": 3}, {"id": 3, "a": "new", "c": 5, "more": "m"}),
        ({"id": 3}, None),
        ({"other": 6}, {"id": 5, "other": 6}),
    ]
    (updated,) = (each for each in worker.committed if each.topic == "pre.public.whole" and is_update(each))
    assert updated.value["before"].to_dict() == {"id": 1, "a": None}
    for each in worker.committed:
        if each.value_schema is not None:
            validate_value(each.value_schema, each.value)


def is_update(record: SourceRecord) -> bool:
    return bool(record.value["op"] == "u")


def after_of(record: SourceRecord) -> dict[str, Any] | None:
    after = record.value["after"]
    return None if after is None else after.to_dict()


def test_wal_is_confirmed_only_after_the_commit(where: str) -> None:
    worker = TaskWorker(properties_of(where, snapshot_mode="no_data", lsn_flush_mode="manual"))
    try:
        worker.until(lambda: has_slot(where))
        with psycopg.connect(where, autocommit=True) as connection:
            begin = confirmed(connection, where)
            connection.execute("create table seen (id int primary key)")
            connection.execute("insert into seen values (1)")
            worker.until_row("seen", 1)
            end = worker.committed[-1].source_offset["lsn"]
            worker.until(lambda: confirmed(connection, where) > end)
            begin = confirmed(connection, where)
            connection.execute("insert into seen select generate_series(2, 10)")
            taken: list[SourceRecord] = []
            while len(taken) < 9:
                taken += worker.task.poll() or ()
            worker.task.commit_record(taken[8], None)  # the first record is not in its topic yet
            worker.task.commit()
            for _ in range(5):
                worker.task.poll()
            assert confirmed(connection, where) == begin
            for record in taken[:8]:
                worker.task.commit_record(record, None)
            worker.task.poll()
            assert confirmed(connection, where) == begin
            worker.task.commit()
            worker.until(lambda: confirmed(connection, where) > begin)
    finally:
        worker.stop()


def test_an_idle_slot_advances(where: str) -> None:
    worker = TaskWorker(properties_of(where, snapshot_mode="no_data", table_include_list="public.none"))
    try:
        worker.until(lambda: has_slot(where))
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute("create table other as select generate_series(1, 1000)")
            row = connection.execute("select (pg_current_wal_lsn() - '0/0')::int8").fetchone()
            assert row is not None
            worker.until(lambda: confirmed(connection, where) >= row[0])
    finally:
        worker.stop()


def test_a_stop_cancels_the_statement_of_heartbeats(where: str) -> None:
    query = "select pg_sleep(20)"
    worker = TaskWorker(
        properties_of(
            where,
            snapshot_mode="no_data",
            heartbeat_interval_ms="20",
            heartbeat_action_query=query,
            slot_drop_on_stop="true",
        )
    )
    with psycopg.connect(where, autocommit=True) as connection:
        running = "select from pg_stat_activity where query = %s and state = 'active'"
        while not connection.execute(running, [query]).fetchall():
            worker.step()
        worker.stop()
        assert not connection.execute(running, [query]).fetchall()
        assert not has_slot(where)


def test_heartbeats_carry_the_position(where: str) -> None:
    worker = TaskWorker(properties_of(where, snapshot_mode="no_data", heartbeat_interval_ms="20"))
    try:
        worker.until(lambda: len(worker.committed) > 2)
        assert {each.topic for each in worker.committed} == {"__debezium-heartbeat.pre"}
        worker.until(lambda: worker.committed[-1].source_offset.get("lsn_commit") is not None)
    finally:
        worker.stop()


def test_lost_changes_are_noticed(where: str) -> None:
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table seen (id int primary key)")
        connection.execute("insert into seen values (1)")
        worker = TaskWorker(properties_of(where))
        worker.until_row("seen", 1)
        worker.stop()
        drop_slot(connection, connection.info.dbname)
        connection.execute("insert into seen values (2)")
        again = TaskWorker(properties_of(where), worker.stored)
        with pytest.raises(ChangesLost, match="the slot lost_changes_are_noticed does not exist"):
            again.until_row("seen", 2)
        again.stop()
        needed = TaskWorker(properties_of(where, snapshot_mode="when_needed"), worker.stored)
        needed.until_row("seen", 2)
        needed.stop()
        assert [each.value["op"] for each in needed.committed] == ["r", "r"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("initial", ["r", "c"]),
        ("initial_only", ["r"]),
        ("always", ["r", "c"]),
        ("never", ["c"]),
        ("when_needed", ["r", "c"]),
    ],
)
def test_snapshot_modes(server: RunningServer, mode: str, expected: list[str]) -> None:
    with psycopg.connect(server.where("postgres"), autocommit=True) as connection:
        connection.execute(f"create table {mode} (id int primary key)".encode())
        connection.execute(f"insert into {mode} values (1)".encode())
        properties = properties_of(server.where("postgres"), table_include_list=f"public.{mode}")
        worker = TaskWorker({**properties, "slot.name": mode, "snapshot.mode": mode})
        worker.until(lambda: bool(worker.committed) or (mode == "never" and has_slot_named(connection, mode)))
        connection.execute(f"insert into {mode} values (2)".encode())
        worker.until(lambda: len(worker.committed) == len(expected))
        worker.stop()
        assert [each.value["op"] for each in worker.committed] == expected
        if mode != "initial_only":
            drop_slot(connection, mode)


def test_publications(where: str) -> None:
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("create table a (id int primary key); create table b (id int primary key)")

        def tables_of(name: str, **more: str) -> set[str]:
            worker = TaskWorker(properties_of(where, publication_name=name, slot_name=name, **more))
            worker.until(lambda: has_slot_named(connection, name))
            worker.stop()
            found = connection.execute("select tablename from pg_publication_tables where pubname=%s", [name])
            drop_slot(connection, name)
            return {row[0] for row in found}

        assert tables_of("for_all") == {"a", "b"}
        assert tables_of("chosen", publication_autocreate_mode="filtered", table_include_list=".*a") == {"a"}
        assert tables_of("chosen", publication_autocreate_mode="filtered", table_include_list=".*b") == {"b"}
        assert tables_of("empty", publication_autocreate_mode="no_tables") == set()
        tables_of("without_updates", skipped_operations="u,m")
        operations = (
            "select pubinsert, pubupdate, pubdelete, pubtruncate from pg_publication where pubname = %s"
        )
        assert connection.execute(operations, ["for_all"]).fetchone() == (True, True, True, True)
        assert connection.execute(operations, ["without_updates"]).fetchone() == (True, False, True, True)
        for mode, problem in (("disabled", "does not exist"), ("filtered", "would have no tables")):
            worker = TaskWorker(
                properties_of(
                    where, publication_name="n", publication_autocreate_mode=mode, table_include_list="x"
                )
            )
            with pytest.raises(ConfigInvalid, match=problem):
                worker.until(lambda: False)
            worker.stop()


@pytest.mark.parametrize("by_root", [False, True])
def test_partitions(server: RunningServer, by_root: bool) -> None:
    """Snapshot and stream give rows of partitions the same name, that of the partition or of the table."""
    name = f"by_root_{by_root}".lower()
    with psycopg.connect(server.where("postgres"), autocommit=True) as connection:
        connection.execute(
            f"""create schema {name};
                create table {name}.parted (id int primary key) partition by range (id);
                create table {name}.low partition of {name}.parted for values from (0) to (10);
                create table {name}.high partition of {name}.parted for values from (10) to (20);
                insert into {name}.parted values (1), (11)""".encode()
        )
        properties = {
            **properties_of(server.where("postgres"), schema_include_list=name, publication_name=name),
            "slot.name": name,
            "publish.via.partition.root": str(by_root).lower(),
        }
        worker = TaskWorker(properties)
        worker.until(lambda: len(worker.committed) == 2)
        connection.execute(f"insert into {name}.parted values (2), (12)".encode())
        worker.until(lambda: len(worker.committed) == 4)
        worker.stop()
        found = sorted((each.value["after"]["id"], each.topic.split(".")[-1]) for each in worker.committed)
        low, high = ("parted", "parted") if by_root else ("low", "high")
        assert found == [(1, low), (2, low), (11, high), (12, high)]
        drop_slot(connection, name)


def test_messages_by_prefix(where: str) -> None:
    worker = TaskWorker(properties_of(where, snapshot_mode="no_data", message_prefix_include_list="a.*"))
    worker.until(lambda: has_slot(where))
    with psycopg.connect(where) as connection:
        connection.execute(
            "select pg_logical_emit_message(true, 'b', 'no'), pg_logical_emit_message(false, 'ab', '1')"
        )
        connection.execute("select pg_logical_emit_message(true, 'aa', '2')")
    worker.until(lambda: len(worker.committed) == 2)
    worker.stop()
    assert [each.value["message"]["content"] for each in worker.committed] == [b"1", b"2"]


def test_a_server_that_is_not_there_fails_the_task() -> None:
    worker = TaskWorker(properties_of("host=127.0.0.1 port=1 dbname=nothing"))
    with pytest.raises(ConnectError, match="reading PostgreSQL failed"):
        worker.until(lambda: False)
    worker.stop()


def change_of(record: SourceRecord) -> Change | None:
    """The change that a record shows; None for tombstones and records of transactions."""
    if record.value is None or "op" not in record.value:
        return None
    return Change(record.topic.split(".")[-1], record.value["op"], record.key["id"])


def assert_whole_transactions(worker: TaskWorker) -> None:
    """No transaction of PostgreSQL has records on both sides of an end of a Kafka transaction."""
    for end in worker.transactions[:-1]:
        left, right = (worker.committed[place].source_offset["txId"] for place in (end - 1, end))
        assert left != right


def terminate_senders(where: str) -> None:
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_replication")


def has_slot(where: str) -> bool:
    with psycopg.connect(where, autocommit=True) as connection:
        return has_slot_named(connection, connection.info.dbname)


def has_slot_named(connection: psycopg.Connection[Any], name: str) -> bool:
    query = (
        "select from pg_replication_slots where slot_name = %s and active and confirmed_flush_lsn is not null"
    )
    found = connection.execute(query, [name])
    return found.fetchone() is not None


def confirmed(connection: psycopg.Connection[Any], where: str) -> int:
    query = "select (confirmed_flush_lsn - '0/0')::int8 from pg_replication_slots where slot_name = %s"
    row = connection.execute(query, [connection.info.dbname]).fetchone()
    assert row is not None
    return int(row[0])
