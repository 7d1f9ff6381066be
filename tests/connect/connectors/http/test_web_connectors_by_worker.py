"""The connectors for HTTP and search in real workers on a real node, which are killed at random."""

import json
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import javaproperties
import pytest
from confluent_kafka import Consumer, Producer

from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.worker import start
from penstock.testing import Cluster
from recording_http_server import Answer, Received, json_answer, recording_server
from search_engines import running_engine
from waiting import wait_until

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "examples" / "connectors"
PROGRAM = ROOT / "tests" / "connect" / "worker" / "small_connectors.py"
JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


def example(name: str, **changes: str) -> dict[str, str]:
    """The configuration of an example, with some keys changed."""
    found = javaproperties.loads((EXAMPLES / f"{name}.properties").read_text())
    return {**found, **{key.replace("_", "."): value for key, value in changes.items()}}


def worker_properties(cluster: Cluster, **more: str) -> dict[str, str]:
    group = f"web-{uuid.uuid4().hex[:8]}"
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "listeners": "http://127.0.0.1:0",
        "offset.flush.interval.ms": "200",
        "consumer.session.timeout.ms": "6000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "0",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def create(url: str, name: str, config: Mapping[str, str]) -> None:
    body = json.dumps(dict(config)).encode()

    def is_created() -> bool:
        answer = WorkerClient().ask("PUT", f"{url.rstrip('/')}/connectors/{name}/config", body)
        assert answer.status in (200, 201, 409), answer.message  # 409 is answered during rebalances
        return answer.status != 409

    wait_until(is_created)


def send(cluster: Cluster, topic: str, records: list[tuple[str, Any]]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for key, value in records:
        producer.produce(topic, None if value is None else json.dumps(value), key)
    producer.flush()


@contextmanager
def reading(cluster: Cluster, topic: str) -> Iterator[Iterator[Any]]:
    """The committed values of a topic, as they arrive."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"check-{uuid.uuid4().hex}",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 100,
            "allow.auto.create.topics": True,
        }
    )

    def values() -> Iterator[Any]:
        while True:
            message = consumer.poll(60)
            assert message is not None, "no value arrived"
            if message.error() is None:
                data = message.value()
                assert data is not None
                yield json.loads(data)

    try:
        consumer.subscribe([topic])
        yield values()
    finally:
        consumer.close()


def test_an_api_goes_through_a_topic_to_another_api(penstock_cluster: Cluster) -> None:
    prefix = uuid.uuid4().hex[:8]
    items = [{"id": number, "published_at": f"2026-01-01T00:00:0{number}Z"} for number in range(5)]

    def answer(received: Received) -> Answer:
        if received.path.startswith("/orders/"):
            return Answer(422 if received.path.endswith("/3") else 200)
        if received.query.get("page") == "2":
            return json_answer(items[1::-1])
        return json_answer(items[:1:-1], Link='</releases?page=2>; rel="next"')

    with recording_server(answer) as server, start(worker_properties(penstock_cluster)) as worker:
        worker.wait_until_ready()
        changes = {
            "http_request_url": f"{server.url}/releases",
            "kafka_topic": f"{prefix}-orders",
            "key_converter": "StringConverter",
        }
        create(worker.url, "source", example("http-source", **changes))
        changes = {
            "topics": f"{prefix}-orders",
            "http_url": f"{server.url}/orders/${{key}}",
            "errors_deadletterqueue_topic_name": f"{prefix}-refused",
        }
        create(worker.url, "sink", example("http-sink", **changes))
        with reading(penstock_cluster, f"{prefix}-refused") as refused:
            assert next(refused) == items[3]
        wait_until(lambda: len([each for each in server.received if each.method == "PUT"]) >= 5)
        assert {each.path: json.loads(each.body) for each in server.received if each.method == "PUT"} == {
            f"/orders/{each['id']}": each for each in items
        }


class Killable:
    """A worker in a process of its own, which can be killed and started again."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._command = [sys.executable, str(PROGRAM), json.dumps(dict(properties))]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the worker did not start"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def killable(properties: Mapping[str, str]) -> Iterator[Killable]:
    worker = Killable(properties)
    try:
        yield worker
    finally:
        worker.kill()


def chance_of_test() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


KILLS = 8


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_workers_read_every_item_once(penstock_cluster: Cluster) -> None:
    chance, topic = chance_of_test(), f"items-{uuid.uuid4().hex[:8]}"
    items: list[dict[str, int]] = []

    def answer(received: Received) -> Answer:
        if chance.random() < 0.05:
            return chance.choice([Answer(500), Answer(cut=True)])
        found = [each for each in items if each["at"] >= int(received.query["since"])]
        first = int(received.query.get("first", "0"))
        return json_answer(found[first : first + 10])

    config = {
        "connector.class": "com.github.castorm.kafka.connect.http.HttpSourceConnector",
        "kafka.topic": topic,
        "http.request.params": "since=${offset.timestamp}",
        "http.offset.initial": "timestamp=0",
        "http.response.record.offset.pointer": "key=/id, timestamp=/at",
        "http.page.mode": "offset",
        "http.page.parameter": "first",
        "http.timer.interval.millis": "20",
        "http.timer.catchup.interval.millis": "20",
        "max.retries": "1000",
        "retry.backoff.ms": "10",
        "exactly.once.support": "required",
        # A new worker reads the offsets only once the open transaction of the killed one has timed out.
        "producer.override.transaction.timeout.ms": "3000",
        **JSON,
    }
    properties = worker_properties(penstock_cluster, exactly_once_source_support="enabled")
    with (
        recording_server(answer) as server,
        killable(properties) as worker,
        reading(penstock_cluster, topic) as values,
    ):
        create(worker.url, "source", {**config, "http.request.url": f"{server.url}/items"})
        found: list[int] = []
        for number in range(KILLS):
            for _ in range(100):
                items.append({"id": len(items), "at": 1_000_000_000 + len(items) // 7})
            found += [next(values)["id"] for _ in range(chance.randrange(1, 100))]
            worker.kill()
            worker.start()
            print(f"kill {number}: {len(found)} items")
        while len(found) < len(items):
            found.append(next(values)["id"])
        items.append({"id": len(items), "at": 1_500_000_000})
        found.append(next(values)["id"])
    assert found == [each["id"] for each in items]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_killed_workers_send_again_can_be_told(penstock_cluster: Cluster) -> None:
    """A receiver that discards names that it knows gets each record once, and each key in order."""
    chance, topic = chance_of_test(), f"orders-{uuid.uuid4().hex[:8]}"
    known: set[str] = set()
    taken: list[tuple[str, int]] = []

    def answer(received: Received) -> Answer:
        with server.lock:
            failure = chance.choice([None] * 20 + [Answer(503), Answer(cut=True)])
            if failure is None or (failure.cut and chance.random() < 0.5):
                name = received.headers["idempotency-key"]
                if name not in known:
                    known.add(name)
                    taken.append(tuple(json.loads(received.body)))
            return failure or Answer()

    config = {
        "connector.class": "io.aiven.kafka.connect.http.HttpSinkConnector",
        "topics": topic,
        "max.in.flight.requests": "3",
        "max.retries": "1000",
        "retry.backoff.ms": "10",
        "key.converter": "StringConverter",
        **JSON,
    }
    with recording_server(answer) as server, killable(worker_properties(penstock_cluster)) as worker:
        create(worker.url, "sink", {**config, "http.url": server.url})
        sent = 0
        for _ in range(KILLS):
            records = [(f"k{chance.randrange(10)}", number) for number in range(sent, sent + 200)]
            send(penstock_cluster, topic, [(key, [key, number]) for key, number in records])
            sent += len(records)
            until = min(sent, len(taken) + chance.randrange(1, 200))
            wait_until(lambda until=until: len(taken) >= until)  # type: ignore[misc]
            worker.kill()
            worker.start()
        wait_until(lambda: len(taken) == sent, 240.0)  # the group waits for each killed member
    assert sorted(number for _, number in taken) == list(range(sent))
    for name in {key for key, _ in taken}:
        numbers = [number for key, number in taken if key == name]
        assert numbers == sorted(numbers)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_workers_and_engines_leave_the_newest_documents(penstock_cluster: Cluster) -> None:
    chance, topic = chance_of_test(), f"stock-{uuid.uuid4().hex[:8]}"
    latest: dict[str, Any] = {}
    with (
        running_engine() as engine,
        killable(worker_properties(penstock_cluster)) as worker,
    ):
        changes = {"topics": topic, "connection_url": engine.url, "max_retries": "1000", "batch_size": "20"}
        create(worker.url, "sink", example("search-sink", **changes))
        for number in range(KILLS):
            records = [
                (f"k{chance.randrange(50)}", None if chance.random() < 0.2 else {"n": number * 1000 + each})
                for each in range(500)
            ]
            latest |= dict(records)
            send(penstock_cluster, topic, records)
            if number % 2:
                engine.kill()
                engine.start()
            else:
                worker.kill()
                worker.start()
        expected = {key: value for key, value in latest.items() if value is not None}
        wait_until(lambda: engine.ask("GET", f"/{topic}") and engine.documents(topic) == expected)
