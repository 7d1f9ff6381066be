"""kafka-verifiable-producer and -consumer during 20 kills of nodes: no record is lost or duplicated.

PENSTOCK_VERIFIABLE_KILLS is the number of kills; without it the test does not run.
"""

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from kafka_node import JAVA
from kafka_tools import VERIFIABLE_CONSUMER, VERIFIABLE_PRODUCER
from several_nodes import penstock_nodes

KILLS = int(os.environ.get("PENSTOCK_VERIFIABLE_KILLS", "0"))
RECORDS_PER_S = 1000
CONFIG = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not KILLS, reason="takes minutes: PENSTOCK_VERIFIABLE_KILLS=20, or make test-cluster"),
    pytest.mark.timeout(180 + 20 * KILLS),
]


class Tool:
    """A process of a verifiable client, with its events."""

    def __init__(self, libs: Path, name: str, *words: str) -> None:
        options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{libs}/*"]
        self.events: list[dict[str, object]] = []
        self._process = subprocess.Popen(
            [*JAVA, *options, name, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                self.events.append(json.loads(line))

    def of(self, name: str) -> list[dict[str, object]]:
        return [event for event in list(self.events) if event["name"] == name]

    def stop(self) -> None:
        """Stop the client as a user would, and wait for its last output."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(90)
        finally:
            self._process.kill()
        self._reader.join(60)


def test_nothing_is_lost_or_doubled(tmp_path: Path, kafka_libs: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={seed}")
    dice = random.Random(seed)
    command_config = tmp_path / "producer.properties"
    command_config.write_text("enable.idempotence=true\nretries=2147483647\ndelivery.timeout.ms=120000\n")
    with penstock_nodes(tmp_path / "nodes", dynamic_quorum=True, config=CONFIG) as cluster:
        at = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", "verified")
        words = ("--throughput", str(RECORDS_PER_S), "--acks", "-1", "--command-config", str(command_config))
        producer = Tool(kafka_libs, VERIFIABLE_PRODUCER, *at, *words)
        for _ in range(KILLS):
            before = len(producer.of("producer_send_success"))
            deadline = time.monotonic() + 60
            while len(producer.of("producer_send_success")) < before + RECORDS_PER_S // 2:
                assert time.monotonic() < deadline, "producing did not resume within a minute"
                time.sleep(0.05)
            time.sleep(dice.uniform(0, 1))
            victim = cluster.nodes[dice.choice(list(cluster.nodes))]
            victim.kill()
            time.sleep(dice.uniform(0, 4))
            victim.start()
            time.sleep(2)
        producer.stop()
        acknowledged = [str(event["value"]) for event in producer.of("producer_send_success")]
        refused = producer.of("producer_send_error")
        assert not refused, refused[:3]
        words = ("--group-id", "judge", "--verbose", "--max-messages", str(len(acknowledged)))
        consumer = Tool(kafka_libs, VERIFIABLE_CONSUMER, *at, *words)
        deadline = time.monotonic() + 120
        while len(consumer.of("record_data")) < len(acknowledged) and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(2)
        consumer.stop()
    read = Counter(str(event["value"]) for event in consumer.of("record_data"))
    lost = set(acknowledged) - read.keys()
    doubled = {value: count for value, count in read.items() if count > 1}
    print(f"{KILLS} kills, {len(acknowledged)} acknowledged, {len(lost)} lost, {len(doubled)} doubled")
    assert len(acknowledged) > KILLS * RECORDS_PER_S / 2
    assert not lost, sorted(lost)[:5]
    assert not doubled, list(doubled.items())[:5]
