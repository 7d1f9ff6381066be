"""The SQL connectors in real workers on a real node, which are killed, and so is the database."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sql_databases import SqlDatabase, opened

from penstock.connect.herding.worker_client import WorkerClient
from penstock.testing import Cluster
from waiting import wait_until

pytestmark = pytest.mark.long

ROWS, ROUNDS = 2000, 6
PROGRAM = """
import json, sys
from penstock.connect.worker import start
worker = start(json.loads(sys.argv[1]))
worker.wait_until_ready()
print(worker.advertised_url, flush=True)
worker.join()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with Cluster(settings) as cluster:
        yield cluster


@contextmanager
def killed_at_the_end(cluster: Cluster, group: str) -> Iterator[str]:
    """Run a worker as a process of its own, which is killed by SIGKILL; gives its address."""
    properties = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "exactly.once.source.support": "enabled",
        # The next worker cannot read its offsets while a transaction of this one is open.
        "producer.transaction.timeout.ms": "3000",
        "listeners": "http://127.0.0.1:0",
        "offset.flush.interval.ms": "200",
        "session.timeout.ms": "2000",
        "heartbeat.interval.ms": "200",
        "scheduled.rebalance.max.delay.ms": "0",
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", PROGRAM, json.dumps(properties)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, "the worker ended before it was ready"
            yield url
        finally:
            process.kill()


def create(url: str, name: str, config: dict[str, str]) -> None:
    body = json.dumps(config).encode()

    def is_created() -> bool:
        answer = WorkerClient().ask("PUT", f"{url}connectors/{name}/config", body)
        assert answer.status in (200, 201, 409, 500), answer.message
        return answer.status in (200, 201)

    wait_until(is_created)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_each_row_arrives_once_although_everything_dies(cluster: Cluster, kind: str) -> None:
    with opened(kind) as database:
        group = f"sql-{kind}"
        database.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, item VARCHAR(20) NOT NULL)")
        source = {
            "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
            "connection.url": database.url,
            "connection.backoff.ms": "100",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": "orders",
            "topic.prefix": f"{kind}-",
            "poll.interval.ms": "50",
        }
        sink = {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "connection.url": database.url,
            "connection.backoff.ms": "100",
            "topics": f"{kind}-orders",
            "table.name.format": "copies",
            "auto.create": "true",
            "retry.backoff.ms": "100",
            "max.retries": "100",
            "offsets.table.name": "connect_offsets",
            "consumer.override.isolation.level": "read_committed",
            "consumer.override.auto.offset.reset": "earliest",
            "consumer.override.session.timeout.ms": "2000",
            "consumer.override.heartbeat.interval.ms": "200",
            "consumer.override.metadata.max.age.ms": "500",
        }
        for number in range(ROUNDS):
            with killed_at_the_end(cluster, group) as url:
                if number == 0:
                    create(url, "source", {"name": "source", **source})
                    create(url, "sink", {"name": "sink", **sink})
                insert(database, number * ROWS, ROWS)
                if number == ROUNDS // 2:
                    database.restart()
                enough = ROWS * (number if number + 1 < ROUNDS else ROUNDS) + ROWS // 3
                goal = min(enough, ROWS * ROUNDS)
                waiting_for(lambda: count(database), goal)
        found = database.rows("SELECT id, item FROM copies ORDER BY id")
    assert found == [(number, f"item {number}") for number in range(ROWS * ROUNDS)]


def insert(database: SqlDatabase, first: int, count: int) -> None:
    values = ", ".join(f"({number}, 'item {number}')" for number in range(first, first + count))
    database.run(f"INSERT INTO orders VALUES {values}")


def count(database: SqlDatabase) -> int:
    try:
        return int(database.rows("SELECT count(*) FROM copies")[0][0])
    except Exception:  # the table does not exist yet
        return 0


def waiting_for(found: Callable[[], int], goal: int) -> None:
    wait_until(lambda: found() >= goal, 120)
