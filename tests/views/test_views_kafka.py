"""The same views on Apache Kafka: its fetches, its transactions, its groups."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from view_client import ask, ask_key
from views_cluster import Runner, counting_app

from kafka_node import KafkaNode
from penstock.views import Position, PositionNotReached
from penstock.views.server import ViewServer
from waiting import wait_until

KEYS = [f"k{n:02}" for n in range(40)]


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(180)
def test_two_nodes_on_apache_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    name = f"kafka-{uuid.uuid4().hex[:12]}"
    topic = f"{name}-in"
    with KafkaNode(kafka_libs, tmp_path) as kafka:
        runner = Runner(kafka.bootstrap_servers, counting_app(name, topic), {topic: 4})
        runner.create_topics()
        runner.process(topic, [(key.encode(), "x", 1) for key in KEYS])
        runner.process(topic, [(key.encode(), "x", 2) for key in KEYS], end="abort")
        runner.forget()
        servers = [
            ViewServer(
                runner.topology,
                bootstrap_servers=kafka.bootstrap_servers,
                port=0,
                standbys=0,
                session_timeout_ms=6_000,
            )
            for _ in range(2)
        ]
        for server in servers:
            server.start()
        try:
            ends = sorted(server.endpoint for server in servers)
            wait_until(
                lambda: all(
                    ask(end, "/health").body["members"] == ends and ask(end, "/health/ready").status == 200
                    for end in ends
                )
            )
            kept = [ask(end, "/health").body["partitions"] for end in ends]
            assert all(kept)
            for end in ends:
                assert {ask_key(end, "counts", key).body["value"] for key in KEYS} == {1}
            [(partition, offset)] = runner.write(topic, [(b"new", "x", 5)]).items()
            wanted = Position.of_record(topic, partition, offset - 1)
            early = ask_key(ends[0], "counts", "new", at_least=wanted.to_json(), timeout_ms=300)
            assert early.error == PositionNotReached.code
            runner.process(topic, [(b"new", "x", 5)], read_until={(topic, partition): offset})
            for end in ends:
                found = ask_key(end, "counts", "new", at_least=wanted.to_json(), timeout_ms=20_000)
                assert found.body["value"] == 1
            servers.pop().close()
            [left] = [server.endpoint for server in servers]
            wait_until(lambda: ask(left, "/health").body["members"] == [left])
            assert {ask_key(left, "counts", key, timeout_ms=30_000).body["value"] for key in KEYS} == {1}
        finally:
            for server in servers:
                server.close()
