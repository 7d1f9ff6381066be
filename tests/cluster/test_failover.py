"""The pause in producing when a leader or the active controller is killed.

The tests with short timeouts always run. Those with the defaults run if PENSTOCK_CLUSTER_FAULTS is set and
take half a minute each.
"""

import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_node import free_port
from penstock.client.admin.quorum import describe_quorum
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Client
from several_nodes import SeveralNodes, penstock_nodes

TUNED = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
}
PARTITIONS = 6
PAUSE_S = 0.05
STEADY = 20
"""The number of successive acknowledgements of a partition that shows that producing has resumed."""
PATIENCE_S = 60


class SteadyProducer:
    """A producer that sends to each partition continuously and keeps the times of acknowledgements."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 60_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self.acknowledged_at_s: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self.refused: list[KafkaError] = []
        self._running = threading.Event()
        self._running.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._running.is_set():
            for partition in range(PARTITIONS):
                self._producer.produce("steady", b"x", partition=partition, on_delivery=self._delivered)
            self._producer.poll(PAUSE_S)
        self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(error)
        else:
            self.acknowledged_at_s[message.partition()].append(time.monotonic())

    def wait_for_more(self) -> None:
        """Wait until each partition has had more records acknowledged."""
        wanted = [len(moments) + STEADY for moments in self.acknowledged_at_s]
        wait_until(
            f"{STEADY} more acknowledgements of each partition",
            lambda: all(
                len(moments) >= count for moments, count in zip(self.acknowledged_at_s, wanted, strict=True)
            ),
        )

    def longest_pause_s(self, since_s: float) -> float:
        """The longest pause between two acknowledgements of a partition after that moment."""
        longest = 0.0
        for moments in self.acknowledged_at_s:
            later = [since_s, *(moment for moment in moments if moment > since_s)]
            longest = max(longest, *(b - a for a, b in pairwise(later)))
        return longest

    def finish(self) -> None:
        self._running.clear()
        self._thread.join(90)
        assert not self._thread.is_alive()
        assert not self.refused, self.refused[:3]


def wait_until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def make_topic(cluster: SeveralNodes) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic("steady", PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["steady"].result(30)


def quorum_leader(cluster: SeveralNodes) -> int:
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    with Client(ClientConfig.from_properties(settings)) as client:
        return describe_quorum(client).leader_id


def total(ports: list[int], name: str) -> float:
    """The sum of a metric over nodes."""
    found = 0.0
    for port in ports:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
            text = page.read().decode()
        [value] = re.findall(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        found += float(value)
    return found


def all_is_well(ports: list[int]) -> bool:
    well = {
        "penstock_active_controller": 1,
        "penstock_partitions_led": PARTITIONS,
        "penstock_cluster_partitions": PARTITIONS,
        'penstock_brokers{state="active"}': 3,
        "penstock_under_replicated_partitions": 0,
        "penstock_under_min_isr_partitions": 0,
        "penstock_offline_partitions": 0,
    }
    return {name: total(ports, name) for name in well} == well


def one_is_missing(ports: list[int]) -> bool:
    """Whether the metrics show the loss of one of three nodes.

    Every partition has a leader and two of three replicas, and new leaders were elected.
    """
    left = {
        "penstock_active_controller": 1,
        "penstock_partitions_led": PARTITIONS,
        "penstock_under_replicated_partitions": PARTITIONS,
        "penstock_at_min_isr_partitions": PARTITIONS,
        "penstock_under_min_isr_partitions": 0,
        "penstock_offline_partitions": 0,
        'penstock_brokers{state="fenced"}': 1,
        "penstock_unclean_leader_elections_total": 0,
    }
    found = {name: total(ports, name) for name in left}
    return found == left and total(ports, "penstock_leader_elections_total") > 0


@pytest.mark.parametrize(
    ("config", "of_leader_s", "of_controller_s"),
    [
        pytest.param(TUNED, 3.0, 5.0, id="tuned"),
        pytest.param(
            {},
            12.0,
            20.0,
            id="defaults",
            marks=pytest.mark.skipif(
                not os.environ.get("PENSTOCK_CLUSTER_FAULTS"), reason="half a minute: make test-cluster"
            ),
        ),
    ],
)
@pytest.mark.timeout(180)
def test_producing_goes_on(
    config: dict[str, str], of_leader_s: float, of_controller_s: float, tmp_path: Path
) -> None:
    cluster = penstock_nodes(tmp_path, dynamic_quorum=True, config=config)
    ports = {node_id: free_port() for node_id in cluster.nodes}
    for node_id, port in ports.items():
        cluster.nodes[node_id].config["penstock.metrics.port"] = str(port)
    with cluster:
        make_topic(cluster)
        wait_until("all is well by the metrics", lambda: all_is_well(list(ports.values())))
        producer = SteadyProducer(cluster.bootstrap_servers)
        producer.wait_for_more()
        pauses_s = []
        for kills_controller, limit_s in ((False, of_leader_s), (True, of_controller_s)):
            active = quorum_leader(cluster)
            victim = active if kills_controller else next(n for n in cluster.nodes if n != active)
            left = [port for node_id, port in ports.items() if node_id != victim]
            killed_at_s = time.monotonic()
            cluster.nodes[victim].kill()
            wait_until("one is missing by the metrics", lambda left=left: one_is_missing(left))
            producer.wait_for_more()
            pauses_s.append(producer.longest_pause_s(killed_at_s))
            assert pauses_s[-1] < limit_s, (victim, active)
            assert one_is_missing(left)
            cluster.nodes[victim].start()
            wait_until("all is well by the metrics", lambda: all_is_well(list(ports.values())))
        producer.finish()
        print(f"longest pause: leader killed {pauses_s[0]:.2f} s, controller killed {pauses_s[1]:.2f} s")
