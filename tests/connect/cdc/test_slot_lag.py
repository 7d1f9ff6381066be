"""The lag of a slot in metrics, its ceiling, heartbeats without a table, and slots that others moved."""

from collections.abc import Iterator
from typing import Any

import pytest
from task_worker import TaskWorker

from penstock.connect.errors import ChangesLost, ConnectError
from postgres_server import RunningServer, restartable_server

psycopg = pytest.importorskip("psycopg")

NAME = "behind"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with restartable_server() as running:
        yield running


@pytest.fixture
def connection(server: RunningServer) -> Iterator[Any]:
    with psycopg.connect(server.where("postgres"), autocommit=True) as opened:
        opened.execute("drop table if exists seen")
        opened.execute("create table seen (id int primary key)")
        yield opened
        while opened.execute("select 1 from pg_replication_slots where active").fetchall():
            pass
        opened.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")


def started(server: RunningServer, **more: str) -> TaskWorker:
    worker = TaskWorker(
        {
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "postgres",
            "database.dbname": "postgres",
            "slot.name": NAME,
            "snapshot.mode": "no_data",
            "poll.interval.ms": "20",
            "status.update.interval.ms": "50",
            "errors.retry.delay.initial.ms": "50",
            "slot.lag.check.interval.ms": "20",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
    )
    worker.until(lambda: worker.task.gauges() != {})
    return worker


def insert(connection: Any, worker: TaskWorker, row_id: int) -> None:
    connection.execute("insert into seen values (%s)", [row_id])
    worker.until_row("seen", row_id)


@pytest.mark.long
def test_gauges_show_the_lag(server: RunningServer, connection: Any) -> None:
    worker = started(server)
    insert(connection, worker, 1)
    gauges = worker.task.gauges()
    assert gauges.keys() == {"slot_behind_bytes", "slot_kept_bytes", "slot_confirmed_lsn"}
    worker.until(lambda: worker.task.gauges()["slot_confirmed_lsn"] > gauges["slot_confirmed_lsn"])
    worker.stop()


def test_a_ceiling_fails_the_task(server: RunningServer, connection: Any) -> None:
    worker = started(server, slot_lag_max_bytes="1000000", slot_lag_action="fail")
    with connection.transaction():
        connection.execute("insert into seen select generate_series(1, 30000)")
        with pytest.raises(ConnectError, match=r"keeps \d+ bytes .* allows 1000000"):
            worker.until(lambda: False)
    worker.stop()


def test_heartbeats_write_messages(server: RunningServer, connection: Any) -> None:
    query = "select pg_current_wal_insert_lsn() - '0/0'"
    before = connection.execute(query).fetchone()[0]
    worker = started(
        server, heartbeat_interval_ms="20", heartbeat_emit_message="true", lsn_flush_mode="manual"
    )
    worker.until(lambda: (worker.stored or {}).get("lsn_commit", 0) > before)
    worker.stop()
    assert {each.topic for each in worker.committed} == {"__debezium-heartbeat.pre"}


def test_a_slot_that_is_moved_between_two_sessions(server: RunningServer, connection: Any) -> None:
    worker = started(server, errors_retry_delay_initial_ms="1000")
    insert(connection, worker, 1)
    connection.execute("select pg_terminate_backend(active_pid) from pg_replication_slots where active")
    move(connection)
    with pytest.raises(ChangesLost, match=r"moved to .* by someone else"):
        worker.until(lambda: False)
    worker.stop()


@pytest.mark.parametrize("strategy", ["trust_offset", pytest.param("no_validation", marks=pytest.mark.long)])
def test_a_slot_that_is_moved_while_the_task_is_stopped(
    server: RunningServer, connection: Any, strategy: str
) -> None:
    worker = started(server, offset_mismatch_strategy=strategy, heartbeat_interval_ms="20")
    insert(connection, worker, 1)
    for row_id in (2, 3):
        worker.crash()
        insert(connection, worker, row_id)
    worker.stop()
    move(connection)
    if strategy == "trust_offset":
        worker.crash()
        with pytest.raises(ChangesLost, match="someone else moved it"):
            worker.until(lambda: False)
    else:
        worker.crash()
        insert(connection, worker, 5)
    worker.stop()


def move(connection: Any) -> None:
    """Make a change, and advance the slot past it once no session reads it."""
    connection.execute("insert into seen values (4)")
    while connection.execute("select 1 from pg_replication_slots where active").fetchall():
        pass
    connection.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", [NAME])
