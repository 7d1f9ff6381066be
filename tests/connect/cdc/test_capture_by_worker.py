"""A worker with the connector for PostgreSQL: a snapshot, changes, and a database that dies in between."""

import json
import uuid

import pytest
from confluent_kafka import Consumer

from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.worker import start
from penstock.testing import Cluster
from postgres_server import restartable_server

psycopg = pytest.importorskip("psycopg")

ROWS, TRANSACTIONS, CHANGES = 300, 30, 10


def test_every_change_is_in_the_topic_once_and_in_order(penstock_cluster: Cluster) -> None:
    group = f"capture-{uuid.uuid4().hex[:8]}"
    bootstrap = penstock_cluster.bootstrap_servers
    worker_properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "exactly.once.source.support": "enabled",
        "listeners": "http://127.0.0.1:0",
    }
    with restartable_server() as database, start(worker_properties) as worker:
        with psycopg.connect(database.where("postgres"), autocommit=True) as session:
            session.execute("CREATE TABLE orders (id integer PRIMARY KEY, stock integer)")
            session.execute(f"INSERT INTO orders SELECT n, 0 FROM generate_series(1, {ROWS}) AS n")
        worker.wait_until_ready()
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(database.port),
            "database.user": "postgres",
            "database.password": "unused",
            "database.dbname": "postgres",
            "topic.prefix": group,
            "transaction.boundary": "connector",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
        }
        created = WorkerClient().ask(
            "POST", f"{worker.url}/connectors", json.dumps({"name": group, "config": config}).encode()
        )
        assert created.status == 201, created.message
        with Topic(bootstrap, f"{group}.public.orders") as topic:
            snapshot = topic.take(ROWS)
            for number in range(TRANSACTIONS):
                if number == TRANSACTIONS // 2:
                    database.restart()
                with psycopg.connect(database.where("postgres")) as session:
                    for key in range(CHANGES):
                        session.execute(
                            "UPDATE orders SET stock = %s WHERE id = %s",
                            (number * CHANGES + key + 1, key + 1),
                        )
            changes = topic.take(TRANSACTIONS * CHANGES)
    assert [value["after"]["id"] for value in snapshot] == list(range(1, ROWS + 1))
    assert {value["op"] for value in snapshot} == {"r"}
    assert [value["after"]["stock"] for value in changes] == list(range(1, TRANSACTIONS * CHANGES + 1))


class Topic:
    """The committed values of a topic of one partition, as JSON."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"check-{uuid.uuid4().hex}",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 100,
                "allow.auto.create.topics": True,
            }
        )
        self._consumer.subscribe([topic])

    def __enter__(self) -> "Topic":
        return self

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()

    def take(self, count: int) -> list[dict[str, object]]:
        found = []
        while len(found) < count:
            message = self._consumer.poll(60)
            assert message is not None, f"{len(found)} of {count} values arrived"
            if message.error() is None:
                found.append(json.loads(message.value()))
        return found
