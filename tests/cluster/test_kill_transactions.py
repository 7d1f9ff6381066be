"""kill -9 of nodes and clients during consume-transform-produce: each input record has one output.

Each client library has two processes. They read numbered records of one topic in a group and write them to
another topic, in transactions with their offsets, and abort some transactions on purpose. A `read_committed`
reader must then find the input once in the output. The tests kill a single node, which restarts, or one of
three nodes, whose partitions and coordinators the others take over. PENSTOCK_SEED repeats the times and
victims of a run, PENSTOCK_TRANSACTION_KILLS sets the number of kills.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_node import java_command
from penstock.testing import Cluster

KILLS = int(os.environ.get("PENSTOCK_TRANSACTION_KILLS", "2"))
MANY_ONLY = pytest.mark.skipif(
    KILLS <= 3, reason="half a minute: more PENSTOCK_TRANSACTION_KILLS, or make soak"
)
PARTITIONS = 3
WORKERS = 2
HERE = Path(__file__).parent
NODE_CONFIG = {"group.min.session.timeout.ms": "1000", "transaction.state.log.num.partitions": "4"}
THREE_NODES_CONFIG = {
    **NODE_CONFIG,
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "2000",
}
AWAY_S = 3.0
"""The downtime of one of three nodes, so that the others must take over."""

PATIENCE_S = 100.0
"""Longer than a worker's timeout on calls that its library never ends."""

pytestmark = pytest.mark.timeout(240 + 15 * KILLS)


class Feeder(threading.Thread):
    """A producer of 0, 1, 2 … to the source, at a few hundred per second."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="feeder", daemon=True)
        self.sent = 0
        self.refused: list[KafkaError] = []
        self._topic = topic
        self._running = threading.Event()
        self._running.set()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while self._running.is_set():
            for _ in range(10):
                number = b"%d" % self.sent
                self._producer.produce(self._topic, number, key=number, on_delivery=self._delivered)
                self.sent += 1
            self._producer.poll(0.02)
            time.sleep(0.01)
        self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.refused.append(error)

    def finish(self) -> None:
        self._running.clear()
        self.join(90)
        assert not self.is_alive()
        assert not self.refused, self.refused[:3]


class Workers:
    """The processes of one client library; one that ends by itself is replaced."""

    def __init__(self, command: list[str], bootstrap: str, scratch: Path) -> None:
        self._command = command
        self._bootstrap = bootstrap
        self._scratch = scratch
        self._processes = [self._start(number) for number in range(WORKERS)]
        self.ended_by_themselves = 0

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        words = [self._bootstrap, f"worker-{number}", "source", "sink", "transformers"]
        with (self._scratch / f"worker-{number}.log").open("ab") as log:
            return subprocess.Popen([*self._command, *words], stdout=log, stderr=log)

    def kill(self, number: int) -> None:
        process = self._processes[number]
        process.kill()
        process.wait()
        self._processes[number] = self._start(number)

    def replace_ended(self) -> None:
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                self.ended_by_themselves += 1
                self._processes[number] = self._start(number)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def last_words(self) -> str:
        """The stacks of all workers, and the cluster's view of their group and transactions."""
        for process in self._processes:
            process.send_signal(signal.SIGQUIT)
        time.sleep(0.5)
        files = sorted(self._scratch.glob("worker-*.log"))
        logs = [path.read_text(errors="replace")[-3000:] for path in files]
        asked = [["group", "describe", "transformers"], ["txn", "list"]]
        asked += [["txn", "describe", f"worker-{number}"] for number in range(WORKERS)]
        for words in asked:
            command = [sys.executable, "-m", "penstock", *words, "--bootstrap", self._bootstrap, "--json"]
            told = subprocess.run(command, capture_output=True, text=True, timeout=30)
            logs.append(f"penstock {' '.join(words)}: {told.stdout}{told.stderr}")
        return "\n".join(logs)


@contextmanager
def workers_of(command: list[str], cluster: Cluster, scratch: Path) -> Iterator[Workers]:
    workers = Workers(command, cluster.bootstrap_servers, scratch)
    try:
        yield workers
    finally:
        workers.close()


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=MANY_ONLY), 3])
def test_confluent_kafka(tmp_path: Path, nodes: int) -> None:
    run([sys.executable, str(HERE / "transform_confluent.py")], tmp_path, nodes)


@pytest.mark.long
def test_kafka_python(tmp_path: Path) -> None:
    """It uses one node: without a broker its producer spins forever, on Apache Kafka too (3.0.12)."""
    run([sys.executable, str(HERE / "transform_kafka_python.py")], tmp_path, nodes=1)


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize(
    "nodes",
    [1, pytest.param(3, marks=MANY_ONLY)],
)
def test_java_client(tmp_path: Path, kafka_libs: Path, nodes: int) -> None:
    run(java_command(kafka_libs, str(HERE / "TransformLoop.java")), tmp_path, nodes)


def run(command: list[str], scratch: Path, nodes: int) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    config = NODE_CONFIG if nodes == 1 else THREE_NODES_CONFIG
    with Cluster(config, nodes=nodes, data_dir=scratch / "data") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topics = [NewTopic(topic, PARTITIONS, min(nodes, 3)) for topic in ("source", "sink")]
        for created in admin.create_topics(topics).values():
            created.result(60)
        feeder = Feeder(cluster.bootstrap_servers, "source")
        feeder.start()
        with workers_of(command, cluster, scratch) as workers:
            sink = SinkReader(cluster.bootstrap_servers)
            for _ in range(KILLS):
                sink.wait_for_more(workers)
                time.sleep(chance.uniform(0.0, 0.3))
                if chance.random() < 0.5 or nodes > 1:
                    kill_one(cluster, chance, sink, workers)
                else:
                    workers.kill(chance.randrange(WORKERS))
            feeder.finish()
            sink.wait_for(feeder.sent, workers)
            print(f"{KILLS} kills, {feeder.sent} records, {workers.ended_by_themselves} workers gave up")
        sink.check(feeder.sent)


def kill_one(cluster: Cluster, chance: random.Random, sink: "SinkReader", workers: Workers) -> None:
    """Kill a node and restart it; one of three only after the others have taken over."""
    node = chance.choice(cluster.nodes)
    node.kill()
    if len(cluster.nodes) > 1:
        time.sleep(AWAY_S)
        sink.wait_for_more(workers)
    node.start()


class SinkReader:
    """A consumer of the output that keeps what it has read."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: Counter[int] = Counter()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "check",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition("sink", p, 0) for p in range(PARTITIONS)])

    def _read(self, workers: Workers) -> None:
        for message in self._consumer.consume(1000, timeout=0.05):
            if message.error() is None:
                self.seen[int(message.value())] += 1
        workers.replace_ended()

    def wait_for_more(self, workers: Workers) -> None:
        """Wait for another commit, so that every kill hits active work."""
        self.wait_for(len(self.seen) + 1, workers)

    def wait_for(self, count: int, workers: Workers) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.seen) < count:
            self._read(workers)
            if time.monotonic() > deadline:
                pytest.fail(f"{len(self.seen)} of {count} records came\n{workers.last_words()}")

    def check(self, count: int) -> None:
        """Read the output again from start to end and check all of it."""
        self.seen.clear()
        self._consumer.assign([TopicPartition("sink", p, 0) for p in range(PARTITIONS)])
        ends = 0
        while ends < PARTITIONS:
            message = self._consumer.poll(20)
            assert message is not None, f"{sum(self.seen.values())} records came, then nothing"
            if message.error() is None:
                self.seen[int(message.value())] += 1
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ends += 1
        self._consumer.close()
        lost = sorted(set(range(count)) - self.seen.keys())
        twice = sorted(number for number, times in self.seen.items() if times > 1)
        report = f"lost {lost[:10]} ({len(lost)}), twice {twice[:10]} ({len(twice)})"
        assert (lost, twice) == ([], []), report
        assert len(self.seen) == count
