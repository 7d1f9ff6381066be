"""A worker with the connector for MariaDB: a snapshot, changes, and a database that dies in between."""

import json
import uuid

import pytest

pytest.importorskip("pymysql")

from mariadb_server import mariadb_server
from test_capture_by_worker import Topic

from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.worker import start
from penstock.testing import Cluster

ROWS, TRANSACTIONS, CHANGES = 300, 30, 10


@pytest.mark.long
def test_every_change_of_mariadb_is_in_the_topic_once(penstock_cluster: Cluster) -> None:
    group = f"maria-{uuid.uuid4().hex[:8]}"
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
    with mariadb_server("--sync-binlog=1") as server, start(worker_properties) as worker:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("create database shop")
            cursor.execute("use shop")
            cursor.execute("create table orders (id integer primary key, stock integer)")
            cursor.execute(f"insert into orders select seq, 0 from seq_1_to_{ROWS}")
        worker.wait_until_ready()
        config = {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            **server.properties(),
            "topic.prefix": group,
            "transaction.boundary": "connector",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
        }
        created = WorkerClient().ask(
            "POST", f"{worker.url}/connectors", json.dumps({"name": group, "config": config}).encode()
        )
        assert created.status == 201, created.message
        with Topic(bootstrap, f"{group}.shop.orders") as topic:
            snapshot = topic.take(ROWS)
            for number in range(TRANSACTIONS):
                if number == TRANSACTIONS // 2:
                    server.restart()
                with server.connect("shop") as connection, connection.cursor() as cursor:
                    cursor.execute("begin")
                    for key in range(CHANGES):
                        stock = number * CHANGES + key + 1
                        cursor.execute(f"update orders set stock = {stock} where id = {key + 1}")
                    cursor.execute("commit")
            changes = topic.take(TRANSACTIONS * CHANGES)
    assert [value["after"]["id"] for value in snapshot] == list(range(1, ROWS + 1))
    assert {value["op"] for value in snapshot} == {"r"}
    assert [value["after"]["stock"] for value in changes] == list(range(1, TRANSACTIONS * CHANGES + 1))
