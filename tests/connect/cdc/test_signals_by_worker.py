"""A worker whose connector takes an incremental snapshot by a signal of a topic, exactly once."""

import json
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.worker import start
from penstock.testing import Cluster
from postgres_server import restartable_server

psycopg = pytest.importorskip("psycopg")

ROWS, CHANGES = 500, 100


@pytest.mark.long
def test_a_signal_of_a_topic(penstock_cluster: Cluster) -> None:
    group = f"signals-{uuid.uuid4().hex[:8]}"
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
        where = database.where("postgres")
        with psycopg.connect(where, autocommit=True) as session:
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
            "snapshot.mode": "no_data",
            "transaction.boundary": "connector",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
            "signal.enabled.channels": "kafka",
            "signal.kafka.bootstrap.servers": bootstrap,
            "signal.poll.interval.ms": "50",
            "incremental.snapshot.chunk.size": "50",
            "notification.enabled.channels": "sink",
            "notification.sink.topic.name": f"{group}-told",
        }
        producer = Producer({"bootstrap.servers": bootstrap})
        signal = {"id": "s", "type": "execute-snapshot", "data": {"data-collections": ["public.orders"]}}
        producer.produce(f"{group}-signal", json.dumps(signal), key=group)
        assert not producer.flush(30)
        created = WorkerClient().ask(
            "POST", f"{worker.url}/connectors", json.dumps({"name": group, "config": config}).encode()
        )
        assert created.status == 201, created.message
        with psycopg.connect(where, autocommit=True) as session:
            for number in range(CHANGES):
                session.execute("UPDATE orders SET stock = stock + 1 WHERE id = %s", [number + 1])
            completed = taken(bootstrap, f"{group}-told", lambda value: value["type"] == "COMPLETED")
            session.execute("INSERT INTO orders VALUES (0, 0)")
        values = taken(bootstrap, f"{group}.public.orders", lambda value: value["after"]["id"] == 0)
        rows: dict[int, int] = {}
        read = [value["after"]["id"] for value in values if value["op"] == "r"]
        for value in values:
            after = value["after"]
            assert value["op"] != "r" or rows.get(after["id"], after["stock"]) == after["stock"]
            rows[after["id"]] = after["stock"]
    assert completed[-1]["id"] == "s"
    assert len(read) == len(set(read))
    assert rows == {number: int(0 < number <= CHANGES) for number in range(ROWS + 1)}


def taken(bootstrap: str, topic: str, is_last: Any) -> list[dict[str, Any]]:
    """The committed values of a topic up to the last one, as JSON."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"check-{uuid.uuid4().hex}",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 100,
            "allow.auto.create.topics": True,
        }
    )
    consumer.subscribe([topic])
    found: list[dict[str, Any]] = []
    while not found or not is_last(found[-1]):
        message = consumer.poll(60)
        assert message is not None, f"{len(found)} values arrived"
        if message.error() is None:
            found.append(json.loads(message.value() or b""))
    consumer.close()
    return found
