"""Whole workers on a real node: the REST API, a source and a sink in Python, and workers that are killed."""

import json
import os
import random
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka.admin import AdminClient, NewTopic

from long_run import repetitions
from penstock.connect import ConfigInvalid
from penstock.connect.worker import Worker, start
from penstock.testing import Cluster
from waiting import wait_until

TEXT = "org.apache.kafka.connect.storage.StringConverter"
LIMIT = 500
PARTS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with Cluster(settings) as cluster:
        yield cluster


def properties(cluster: Cluster, group_id: str, **others: str) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group_id,
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "listeners": "http://127.0.0.1:0",
        "value.converter": TEXT,
        "retry.backoff.ms": "20",
        "offset.flush.interval.ms": "100",
        "session.timeout.ms": "2000",
        "heartbeat.interval.ms": "200",
        "scheduled.rebalance.max.delay.ms": "0",
        **{name.replace("_", "."): value for name, value in others.items()},
    }


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


def put(url: str, connector: str, config: dict[str, str]) -> None:
    """Create a connector or change its configuration, after a rebalance if one is going on."""
    wait_until(lambda: isinstance(ask(url, "PUT", f"/connectors/{connector}/config", config), dict))


def states(url: str, connector: str) -> list[str]:
    found = ask(url, "GET", f"/connectors/{connector}/status")
    if not isinstance(found, dict):
        return []
    return [found["connector"]["state"], *(task["state"] for task in found["tasks"])]


def owners(url: str, connector: str) -> set[str]:
    """The workers that run a connector and its tasks."""
    found = ask(url, "GET", f"/connectors/{connector}/status")
    return {found["connector"]["worker_id"], *(task["worker_id"] for task in found["tasks"])}


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    given = properties(cluster, "alone", config_providers="file", config_providers_file_class=provider)
    with start(given) as worker:
        worker.wait_until_ready()
        yield worker


def test_a_source_and_a_sink_through_the_rest_api(worker: Worker, tmp_path: Path) -> None:
    url, file, names = worker.url, tmp_path / "lines", tmp_path / "names.properties"
    names.write_text("topic=numbers\n")
    topic = f"${{file:{names}:topic}}"
    source = {
        "connector.class": "small_connectors:NumberSource",
        "tasks.max": "2",
        "topic": topic,
        "limit": "20",
        "offsets.storage.topic": "offsets-of-numbers",
    }
    created = ask(url, "POST", "/connectors", {"name": "numbers", "config": source})
    assert created["type"] == "source"
    wait_until(lambda: states(url, "numbers") == ["RUNNING"] * 3)
    status = ask(url, "GET", "/connectors/numbers/status")
    assert [each["version"] for each in (status["connector"], *status["tasks"])] == ["2.1"] * 3
    sink = {"connector.class": "small_connectors:LineSink", "topics": "numbers", "file": str(file)}
    assert ask(url, "PUT", "/connectors/lines/config", sink)["type"] == "sink"
    everything = sorted(f"{part}-{number}" for part in range(2) for number in range(20))
    wait_until(lambda: file.exists() and sorted(file.read_text().split()) == everything)
    tasks = ask(url, "GET", "/connectors/numbers/tasks")
    assert [task["config"]["topic"] for task in tasks] == [topic] * 2
    assert ask(url, "GET", "/connectors/lines/topics") == {"lines": {"topics": ["numbers"]}}

    offsets = {"partition": {"part": "0"}, "offset": {"next": 20}}
    wait_until(lambda: offsets in ask(url, "GET", "/connectors/numbers/offsets")["offsets"])
    change = {"offsets": [{"partition": {"part": "0"}, "offset": {"next": 18}}]}
    assert ask(url, "PATCH", "/connectors/numbers/offsets", change) == 400
    assert ask(url, "PUT", "/connectors/numbers/stop") is None
    wait_until(lambda: states(url, "numbers") == ["STOPPED"])
    wait_until(lambda: isinstance(ask(url, "PATCH", "/connectors/numbers/offsets", change), dict))
    ask(url, "PUT", "/connectors/numbers/resume")
    wait_until(lambda: Counter(file.read_text().split()) == Counter([*everything, "0-18", "0-19"]))

    committed = {
        "offsets": [
            {
                "partition": {"kafka_topic": "numbers", "kafka_partition": 0},
                "offset": {"kafka_offset": 42},
            }
        ]
    }
    wait_until(lambda: ask(url, "GET", "/connectors/lines/offsets") == committed)
    ask(url, "PUT", "/connectors/lines/stop")
    wait_until(lambda: isinstance(ask(url, "DELETE", "/connectors/lines/offsets"), dict))
    assert ask(url, "GET", "/connectors/lines/offsets") == {"offsets": []}
    file.unlink()
    ask(url, "PUT", "/connectors/lines/resume")
    wait_until(lambda: file.exists() and len(file.read_text().split()) == 42)

    assert ask(url, "DELETE", "/connectors/numbers") is None
    wait_until(lambda: states(url, "numbers") == [])
    assert ask(url, "GET", "/connectors") == ["lines"]


def test_bad_records_go_through_transforms_to_the_dead_letters(
    cluster: Cluster, worker: Worker, tmp_path: Path
) -> None:
    url, file = worker.url, tmp_path / "lines"
    source = {
        "connector.class": "small_connectors:NumberSource",
        "topic": "texts",
        "limit": "3",
        "transforms": "route",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "routed-$1",
    }
    sink = {
        "connector.class": "small_connectors:LineSink",
        "topics": "routed-texts",
        "file": str(file),
        "value.converter": "JsonConverter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    put(url, "texts", source)
    put(url, "json", sink)
    consumer = consumer_of(cluster)
    try:
        consumer.subscribe(["dead"])
        found = [received(consumer) for _ in range(3)]
    finally:
        consumer.close()
    assert [message.value() for message in found] == [b"0-0", b"0-1", b"0-2"]
    headers = dict(found[0].headers() or [])
    assert headers["__connect.errors.topic"] == b"routed-texts"
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert headers["__connect.errors.class.name"] == b"org.apache.kafka.connect.json.JsonConverter"
    assert states(url, "json") == ["RUNNING", "RUNNING"]


def test_an_unsuitable_topic_ends_the_worker_with_a_reason(cluster: Cluster) -> None:
    given = properties(cluster, "unsuitable")
    topic = NewTopic("unsuitable-configs", 1, 1, config={"cleanup.policy": "delete"})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([topic])[topic.topic].result(60)
    with start(given) as worker, pytest.raises(ConfigInvalid, match="is required to have"):
        worker.wait_until_ready()


def test_a_connector_with_too_many_tasks_fails(worker: Worker) -> None:
    config = {
        "connector.class": "small_connectors:GreedySource",
        "tasks.max": "2",
        "topic": "numbers",
        "limit": "1",
    }
    ask(worker.url, "PUT", "/connectors/greedy/config", config)
    wait_until(lambda: states(worker.url, "greedy") == ["FAILED"])
    status = ask(worker.url, "GET", "/connectors/greedy/status")
    assert "generated 3 tasks, which is greater than 2" in status["connector"]["trace"]
    ask(worker.url, "PUT", "/connectors/greedy/config", {**config, "tasks.max.enforce": "false"})
    wait_until(lambda: states(worker.url, "greedy") == ["RUNNING"] * 4)


def consumer_of(cluster: Cluster) -> Consumer:
    """A consumer of committed records from the beginning of topics."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"check-{uuid.uuid4().hex}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 100,
        }
    )


def received(consumer: Consumer) -> Message:
    """The next message."""
    while True:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is None:
            return message


@contextmanager
def numbers_in(cluster: Cluster, topic: str) -> Iterator[Iterator[str]]:
    """The committed values of a topic, as they arrive."""
    consumer = consumer_of(cluster)

    def values() -> Iterator[str]:
        while True:
            value = received(consumer).value()
            assert value is not None
            yield value.decode()

    try:
        consumer.subscribe([topic])
        yield values()
    finally:
        consumer.close()


def count(url: str, gate: Path) -> None:
    """Create a source that counts, the second half only once the gate is there."""
    config = {
        "connector.class": "small_connectors:NumberSource",
        "tasks.max": str(PARTS),
        "topic": "counted",
        "limit": str(LIMIT),
        "gate": str(gate),
    }
    body = {"name": "counting", "config": config}
    wait_until(lambda: isinstance(ask(url, "POST", "/connectors", body), dict))


def test_killed_workers_lose_and_repeat_nothing(cluster: Cluster, tmp_path: Path) -> None:
    given = properties(cluster, "several", exactly_once_source_support="enabled")
    program = [sys.executable, str(Path(__file__).with_name("small_connectors.py")), json.dumps(given)]
    gate = tmp_path / "gate"
    with ExitStack() as stack:
        killed = stack.enter_context(subprocess.Popen(program, stdout=subprocess.PIPE, text=True))
        stack.callback(killed.kill)
        assert killed.stdout is not None
        assert killed.stdout.readline()  # it leads the group now
        others = [stack.enter_context(start(given)) for _ in range(2)]
        for each in others:
            each.wait_until_ready()
        url, other = (each.advertised_url for each in others)
        count(url, gate)
        values = stack.enter_context(numbers_in(cluster, "counted"))
        seen = Counter(next(values) for _ in range(PARTS * 20))
        killed.kill()
        gate.touch()
        while len(seen) < PARTS * LIMIT:
            seen[next(values)] += 1
        assert set(seen.values()) == {1}
        alive = {each.partition("://")[2].rstrip("/") for each in (url, other)}
        wait_until(lambda: owners(other, "counting") <= alive)
        wait_until(lambda: states(other, "counting") == ["RUNNING"] * (PARTS + 1))


@pytest.mark.long
def test_a_killed_broker_loses_and_repeats_nothing(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster({"group.initial.rebalance.delay.ms": "0"}))
        given = properties(cluster, "one", exactly_once_source_support="enabled", session_timeout_ms="6000")
        worker = stack.enter_context(start(given))
        worker.wait_until_ready()
        count(worker.url, gate)
        values = stack.enter_context(numbers_in(cluster, "counted"))
        seen = Counter(next(values) for _ in range(PARTS * 20))
        cluster.kill()
        cluster.start()
        gate.touch()
        while len(seen) < PARTS * LIMIT:
            seen[next(values)] += 1
        assert set(seen.values()) == {1}
        wait_until(lambda: states(worker.url, "counting") == ["RUNNING"] * (PARTS + 1))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_many_killed_workers_lose_and_repeat_nothing(cluster: Cluster, tmp_path: Path) -> None:
    given = properties(cluster, "killed", exactly_once_source_support="enabled")
    program = [sys.executable, str(Path(__file__).with_name("small_connectors.py")), json.dumps(given)]
    kills, limit = repetitions("PENSTOCK_KILLS", gate=5, long=20), 4_000
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    with ExitStack() as stack:

        def child() -> tuple[subprocess.Popen[str], str]:
            started = stack.enter_context(subprocess.Popen(program, stdout=subprocess.PIPE, text=True))
            stack.callback(started.kill)
            assert started.stdout is not None
            return started, started.stdout.readline().strip()

        workers = [child() for _ in range(2)]
        source = {
            "connector.class": "small_connectors:NumberSource",
            "tasks.max": str(PARTS),
            "topic": "survivors",
            "limit": str(limit),
        }
        put(workers[0][1], "survivors", source)
        values = stack.enter_context(numbers_in(cluster, "survivors"))
        seen: Counter[str] = Counter()
        for kill in range(kills):
            until = (kill + 1) * PARTS * limit // (kills + 1) + chance.randrange(50)
            while len(seen) < min(until, PARTS * limit):
                seen[next(values)] += 1
            killed, _ = workers.pop(chance.randrange(len(workers)))
            killed.kill()
            workers.append(child())
        while len(seen) < PARTS * limit:
            seen[next(values)] += 1
        assert set(seen.values()) == {1}
        url = workers[-1][1]
        wait_until(lambda: states(url, "survivors") == ["RUNNING"] * (PARTS + 1))
