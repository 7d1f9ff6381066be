"""The lake's sinks in real workers on a real node, also in workers that are killed again and again."""

import json
import os
import random
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from lake_sinks import Config, DeltaTables, IcebergTables

from long_run import repetitions
from penstock.testing import Cluster
from waiting import wait_until

for package in ("deltalake", "pyiceberg", "obstore"):
    pytest.importorskip(package, reason="the extras lake and objects are not installed")

PARTITIONS = 3
WORKER = (
    "import json, sys\n"
    "from penstock.connect.worker import start\n"
    "worker = start(json.loads(sys.argv[1]))\n"
    "worker.wait_until_ready()\n"
    "print(worker.advertised_url, flush=True)\n"
    "worker.join()\n"
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    settings = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with Cluster(settings) as cluster:
        yield cluster


def worker_properties(cluster: Cluster) -> Config:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "lake",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "listeners": "http://127.0.0.1:0",
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "retry.backoff.ms": "20",
        "offset.flush.interval.ms": "100",
        "session.timeout.ms": "2000",
        "heartbeat.interval.ms": "200",
        "scheduled.rebalance.max.delay.ms": "0",
    }


def start_worker(stack: ExitStack, properties: Config) -> tuple[subprocess.Popen[str], str]:
    """Start a worker as a process, and return it with its URL."""
    arguments = [sys.executable, "-c", WORKER, json.dumps(properties)]
    started = stack.enter_context(subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True))
    stack.callback(started.kill)
    assert started.stdout is not None
    return started, started.stdout.readline().strip()


def ask(url: str, method: str, path: str, content: object = None) -> Any:
    """Return the JSON of an answer, or the status of an error; 409 is answered during rebalances."""
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(
        url.rstrip("/") + path, body, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            data = answer.read()
            return json.loads(data) if data else None
    except urllib.error.HTTPError as error:
        return error.code


def create(url: str, topic: str, sinks: dict[str, Config]) -> None:
    for name, config in sinks.items():
        more = {
            "topics": topic,
            "tasks.max": "2",
            "consumer.override.session.timeout.ms": "2000",
            "consumer.override.heartbeat.interval.ms": "200",
        }
        put(url, name, {**config, **more, "name": name})


def put(url: str, name: str, config: Config) -> None:
    """Create a connector, after a rebalance if one is going on."""
    wait_until(lambda: isinstance(ask(url, "PUT", f"/connectors/{name}/config", config), dict))


def committed(url: str, name: str) -> int:
    """Return the number of records behind the offsets that a sink has committed."""
    found = ask(url, "GET", f"/connectors/{name}/offsets")
    if not isinstance(found, dict):
        return 0
    return sum(each["offset"]["kafka_offset"] for each in found["offsets"])


def wait_for(url: str, name: str, count: int) -> None:
    """Wait until a sink has committed as many records."""
    wait_until(lambda: committed(url, name) >= count, timeout_s=180)


class Lake:
    """A Delta table, an Iceberg table and Parquet files in one folder, each of the same topic."""

    def __init__(self, folder: Path) -> None:
        self.delta, self.iceberg, self.folder = DeltaTables(folder), IcebergTables(folder), folder / "files"

    def sinks(self, flush_size: int, interval_ms: int) -> dict[str, Config]:
        interval = str(interval_ms)
        return {
            "delta": {
                **self.delta.config("numbers", **{"delta.commit.interval.ms": interval}),
                "connector.class": "DeltaSink",
            },
            "iceberg": {
                **self.iceberg.config("numbers", **{"iceberg.control.commit.interval-ms": interval}),
                "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            },
            "files": {
                "connector.class": "io.confluent.connect.s3.S3SinkConnector",
                "store.url": self.folder.as_uri(),
                "flush.size": str(flush_size),
            },
        }

    def numbers(self) -> dict[str, list[int]]:
        files = duckdb.sql(f"SELECT n FROM read_parquet('{self.folder}/**/*.parquet')")
        assert files is not None
        return {
            "delta": sorted(row["n"] for row in self.delta.rows("numbers")),
            "iceberg": sorted(row["n"] for row in self.iceberg.rows("numbers")),
            "files": sorted(row[0] for row in files.fetchall()),
        }


def make_topic(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)


def produce(producer: Producer, topic: str, numbers: range) -> None:
    for number in numbers:
        producer.produce(topic, json.dumps({"n": number}).encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


@pytest.mark.long
def test_sinks_by_a_worker(cluster: Cluster, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    make_topic(cluster, "few")
    produce(Producer({"bootstrap.servers": cluster.bootstrap_servers}), "few", range(30))
    with ExitStack() as stack:
        _, url = start_worker(stack, worker_properties(cluster))
        sinks = lake.sinks(flush_size=5, interval_ms=50)
        create(url, "few", sinks)
        for name in sinks:
            wait_for(url, name, 30)
        refused = ask(url, "PUT", "/connectors/delta/stop")
        assert refused is None
        offset = {"partition": {"kafka_topic": "few", "kafka_partition": 0}, "offset": {"kafka_offset": 1}}
        wait_until(lambda: ask(url, "PATCH", "/connectors/delta/offsets", {"offsets": [offset]}) != 409)
        assert ask(url, "PATCH", "/connectors/delta/offsets", {"offsets": [offset]}) in (400, 500)
    assert lake.numbers() == {name: list(range(30)) for name in sinks}


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_workers_lose_and_repeat_nothing(cluster: Cluster, tmp_path: Path) -> None:
    kills, per_kill = repetitions("PENSTOCK_KILLS", gate=3, long=30), 600
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance, lake = random.Random(seed), Lake(tmp_path)
    make_topic(cluster, "many")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    properties = worker_properties(cluster)
    with ExitStack() as stack:
        workers = [start_worker(stack, properties) for _ in range(2)]
        sinks = lake.sinks(flush_size=20, interval_ms=100)
        create(workers[0][1], "many", sinks)
        for kill in range(kills):
            produce(producer, "many", range(kill * per_kill, (kill + 1) * per_kill))
            victim = chance.choice(list(sinks))
            reached = kill * per_kill + chance.randrange(per_kill)
            url = workers[-1][1]
            wait_for(url, victim, reached)
            killed, _ = workers.pop(chance.randrange(len(workers)))
            killed.kill()
            workers.append(start_worker(stack, properties))
        everything = kills * per_kill
        url = workers[-1][1]
        for name in sinks:
            wait_for(url, name, everything)
    assert lake.numbers() == {name: list(range(everything)) for name in sinks}
