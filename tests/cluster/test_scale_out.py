"""Two brokers join and partitions move to them while clients produce: no client gets an error or waits long.

The test runs if PENSTOCK_CLUSTER_FAULTS is set: it takes a minute and needs an otherwise idle machine.
"""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from several_nodes import SeveralNodes, penstock_nodes

PARTITIONS = 12
VALUE = bytes(1000)
MEASURED_S = 3
SHARE = 0.3

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("PENSTOCK_CLUSTER_FAULTS"), reason="a minute: make test-cluster runs it"
    ),
    pytest.mark.timeout(240),
]


class Load:
    """An idempotent producer at a steady or maximum rate, with the number of acknowledgements per second."""

    def __init__(self, bootstrap_servers: str, records_per_s: float | None) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 30_000,
                "queue.buffering.max.messages": 20_000,
                "log_level": 0,
            }
        )
        self._records_per_s = records_per_s
        self.acknowledged: Counter[int] = Counter()
        self.refused: list[KafkaError] = []
        self._running = threading.Event()
        self._running.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began_s, sent = time.monotonic(), 0
        while self._running.is_set():
            due = (
                sent + 500
                if self._records_per_s is None
                else int((time.monotonic() - began_s) * self._records_per_s)
            )
            while sent < due:
                try:
                    self._producer.produce(
                        "t", VALUE, partition=sent % PARTITIONS, on_delivery=self._delivered
                    )
                    sent += 1
                except BufferError:
                    break
            self._producer.poll(0.01)
        self._producer.flush(30)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.refused.append(error)
        else:
            self.acknowledged[int(time.monotonic())] += 1

    def finish(self) -> None:
        self._running.clear()
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert not self.refused, self.refused[:3]

    def whole_seconds(self) -> list[int]:
        """The seconds without the first and the last, which are not complete."""
        first, last = min(self.acknowledged), max(self.acknowledged)
        return [self.acknowledged[second] for second in range(first + 1, last)]


def rebalance(cluster: SeveralNodes, bytes_per_s: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "cluster", "rebalance", "--throttle", str(bytes_per_s)],
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "PENSTOCK_BOOTSTRAP": cluster.bootstrap_servers},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_brokers_are_added_under_load(tmp_path: Path) -> None:
    with penstock_nodes(tmp_path, dynamic_quorum=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic("t", PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["t"].result(30)
        flat_out = Load(cluster.bootstrap_servers, None)
        time.sleep(MEASURED_S)
        flat_out.finish()
        seconds = flat_out.whole_seconds()
        rate = SHARE * sum(seconds) / len(seconds)
        steady = Load(cluster.bootstrap_servers, rate)
        time.sleep(3)
        for node_id in (4, 5):
            cluster.new_node(node_id)
        printed = rebalance(cluster, 50_000_000)
        time.sleep(2)
        steady.finish()
        each_second = steady.whole_seconds()
        print(f"rate {rate:.0f} records/s; the slowest second {min(each_second)}, of {len(each_second)}")
        print(printed)
        assert min(each_second) > rate / 2
        found = admin.list_topics("t", timeout=60).topics["t"].partitions
        replicas = Counter(broker for p in found.values() for broker in p.replicas)
        assert set(replicas) == {1, 2, 3, 4, 5}
        assert max(replicas.values()) - min(replicas.values()) <= 2
