"""Partitions with replicas on Apache Kafka's and Penstock's brokers, which lead and follow each other."""

import os
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_node import CLUSTER_ID, KafkaNode, free_port
from penstock_node import PenstockNode
from waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(
        not os.environ.get("PENSTOCK_KAFKA_CLUSTERS"),
        reason="with nodes of Apache Kafka, a minute: PENSTOCK_KAFKA_CLUSTERS=1, or make test-cluster",
    ),
]

NODES = (1, 2, 3)
PENSTOCK = 3
TOPIC = "flights"
LED_BY = {0: 1, 1: PENSTOCK}
"""The preferred leader of each partition."""
CONFIG = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
}


class MixedCluster:
    """Nodes 1 and 2 are Apache Kafka's, node 3 is Penstock's; all are brokers and controllers."""

    def __init__(self, libs: Path, directory: Path) -> None:
        controllers = {node_id: f"127.0.0.1:{free_port()}" for node_id in NODES}
        voters = ",".join(f"{node_id}@{address}" for node_id, address in controllers.items())
        self.nodes: dict[int, KafkaNode | PenstockNode] = {}
        for node_id, address in controllers.items():
            home = directory / f"node-{node_id}"
            home.mkdir()
            port = free_port()
            config = {
                **CONFIG,
                "node.id": str(node_id),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{address}",
            }
            if node_id == PENSTOCK:
                self.nodes[node_id] = PenstockNode(home, cluster_id=CLUSTER_ID, port=port, config=config)
            else:
                self.nodes[node_id] = KafkaNode(libs, home, port=port, config=config)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def start(self) -> None:
        third = self.nodes[PENSTOCK]
        assert isinstance(third, PenstockNode)
        third.launch()
        for node_id in NODES:
            if node_id != PENSTOCK:
                self.nodes[node_id].start()
        third.await_ready()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.kill_if_running()

    def partitions(self) -> dict[int, tuple[int, list[int]]]:
        """The (leader, in-sync replicas) of each partition."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        found = admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions
        return {number: (partition.leader, sorted(partition.isrs)) for number, partition in found.items()}

    def await_in_sync(self) -> None:
        wait_until(lambda: all(isr == list(NODES) for _, isr in self.partitions().values()))

    def log(self, node_id: int, partition: int) -> bytes:
        files = sorted((self.nodes[node_id].data_dir / f"{TOPIC}-{partition}").glob("*.log"))
        return b"".join(file.read_bytes() for file in files)


class Records:
    """The records that were produced and acknowledged by all in-sync replicas."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 2,
                "compression.type": "lz4",
            }
        )
        self.acknowledged: dict[int, list[bytes]] = {partition: [] for partition in LED_BY}
        self._next = 0

    def produce(self, count: int) -> None:
        for _ in range(count):
            for partition in LED_BY:
                value = b"%d" % self._next
                self._next += 1

                def done(
                    error: object, message: object, partition: int = partition, value: bytes = value
                ) -> None:
                    assert error is None, error
                    self.acknowledged[partition].append(value)

                self._producer.produce(TOPIC, value, partition=partition, on_delivery=done)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0


def read_all(bootstrap_servers: str, counts: dict[int, int]) -> dict[int, list[bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in counts])
    found: dict[int, list[bytes]] = {partition: [] for partition in counts}
    deadline = time.monotonic() + 60
    while any(len(found[partition]) < count for partition, count in counts.items()):
        assert time.monotonic() < deadline, {partition: len(values) for partition, values in found.items()}
        for message in consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            found[message.partition()].append(message.value())
    consumer.close()
    return found


@pytest.mark.timeout(400)
def test_they_lead_and_follow_each_other(kafka_libs: Path, tmp_path: Path) -> None:
    cluster = MixedCluster(kafka_libs, tmp_path)
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assignment = [[first, *(other for other in NODES if other != first)] for first in LED_BY.values()]
        config = {"min.insync.replicas": "2"}
        topic = NewTopic(TOPIC, len(assignment), replica_assignment=assignment, config=config)
        wait_until(lambda: len(admin.list_topics(timeout=60).brokers) == 3)
        admin.create_topics([topic])[TOPIC].result(30)
        wait_until(lambda: {p: leader for p, (leader, _) in cluster.partitions().items()} == LED_BY)
        records = Records(cluster.bootstrap_servers)
        records.produce(1_000)
        cluster.await_in_sync()
        for dies in (1, PENSTOCK):
            cluster.nodes[dies].kill()
            wait_until(lambda dies=dies: all(leader != dies for leader, _ in cluster.partitions().values()))  # type: ignore[misc]
            records.produce(500)
            cluster.nodes[dies].start()
            cluster.await_in_sync()
            records.produce(200)
        counts = {partition: len(values) for partition, values in records.acknowledged.items()}
        assert read_all(cluster.bootstrap_servers, counts) == records.acknowledged
        cluster.await_in_sync()
        for partition in LED_BY:  # followers learn of the last high watermark a moment later
            wait_until(lambda p=partition: len({cluster.log(node_id, p) for node_id in NODES}) == 1)  # type: ignore[misc]
        for node_id in NODES:
            node = cluster.nodes[node_id]
            if isinstance(node, KafkaNode):
                assert not [line for line in node.complaints() if "FATAL" in line]
    finally:
        cluster.stop()
