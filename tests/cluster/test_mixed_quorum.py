"""One quorum of Apache Kafka's and Penstock's controllers: they elect each other and keep the same log."""

import os
import time
from pathlib import Path

import pytest

from kafka_node import CLUSTER_ID, KafkaNode, free_port, run_java
from penstock_node import PenstockNode
from waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not os.environ.get("PENSTOCK_KAFKA_CLUSTERS"),
        reason="with nodes of Apache Kafka, a minute: PENSTOCK_KAFKA_CLUSTERS=1, or make test-cluster",
    ),
]

DIRECTORY_IDS = ("Uwk5Kp8JQ2m0Jd4O2s0v7g", "xV0pIb0uT8y2bGJj5D3o1Q", "n9xkTq1ORm6M0wqzq0Zr5A")


class MixedQuorum:
    """Nodes 1 and 2 are Apache Kafka's, brokers and controllers; node 3 is a controller of Penstock.

    The log defines the voters (KIP-853), or with ``static`` the configuration.
    """

    def __init__(self, libs: Path, directory: Path, *, static: bool) -> None:
        self._libs = libs
        self.controllers = {node_id: f"127.0.0.1:{free_port()}" for node_id in (1, 2, 3)}
        voters = [f"{node_id}@{address}" for node_id, address in self.controllers.items()]
        keyed = [f"{voter}:{key}" for voter, key in zip(voters, DIRECTORY_IDS, strict=True)]
        words = [] if static else ["--initial-controllers", ",".join(keyed)]
        self._quorum = (
            {"controller.quorum.voters": ",".join(voters)}
            if static
            else {"controller.quorum.bootstrap.servers": ",".join(self.controllers.values())}
        )
        self.nodes: dict[int, KafkaNode | PenstockNode] = {}
        for node_id, address in self.controllers.items():
            home = directory / f"node-{node_id}"
            home.mkdir()
            config = {
                "node.id": str(node_id),
                **self._quorum,
                "listeners": f"CONTROLLER://{address}",
            }
            if node_id < 3:
                port = free_port()
                config["listeners"] += f",PLAINTEXT://127.0.0.1:{port}"
                self.nodes[node_id] = KafkaNode(libs, home, port=port, format_words=words, config=config)
            else:
                config["process.roles"] = "controller"
                port = int(address.rpartition(":")[2])
                self.nodes[node_id] = PenstockNode(
                    home, cluster_id=CLUSTER_ID, port=port, format_words=words, config=config
                )

    def as_penstock(self, node_id: int) -> PenstockNode:
        """A Penstock node with the settings and the data directory of one of Apache Kafka's."""
        node = self.nodes[node_id]
        assert isinstance(node, KafkaNode)
        port = int(node.bootstrap_servers.rpartition(":")[2])
        home = node.data_dir.parent
        return PenstockNode(
            home, cluster_id=CLUSTER_ID, port=port, config=node.config, data_dir=node.data_dir
        )

    def stop(self) -> None:
        for node in self.nodes.values():
            node.kill_if_running()

    def replication(self, of: int) -> dict[int, tuple[str, int]]:
        """The (role, lag) of each replica, as a controller reports them to kafka-metadata-quorum."""
        text = run_java(
            self._libs,
            "org.apache.kafka.tools.MetadataQuorumCommand",
            "--bootstrap-controller",
            self.controllers[of],
            "describe",
            "--replication",
        )
        rows = [line.split() for line in text.splitlines()]
        heads = next(row for row in rows if "NodeId" in row)
        found = {}
        for row in rows[rows.index(heads) + 1 :]:
            if len(row) >= len(heads):
                found[int(row[0])] = (row[-1], int(row[heads.index("Lag")]))
        return found

    def leader(self, of: int) -> int:
        roles = self.replication(of)
        return next(node_id for node_id, (role, _) in roles.items() if role == "Leader")

    def metadata_log(self, node_id: int) -> bytes:
        return (self.nodes[node_id].data_dir / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()


@pytest.mark.parametrize("static", [False, True], ids=["voters in the log", "voters configured"])
def test_a_quorum_of_both(kafka_libs: Path, tmp_path: Path, static: bool) -> None:
    quorum = MixedQuorum(kafka_libs, tmp_path, static=static)
    try:
        third = quorum.nodes[3]
        assert isinstance(third, PenstockNode)
        third.launch()
        for node_id in (1, 2):
            quorum.nodes[node_id].start()
        wait_until(lambda: sorted(quorum.replication(3)) == [1, 2, 3])
        wait_until(lambda: all(lag == 0 for _, lag in quorum.replication(1).values()))
        led = [quorum.leader(1)]
        assert quorum.leader(3) == led[0]
        while len(led) < 8 and (len(led) < 2 or 3 not in led):
            led.append(kill_leader(quorum, led[-1]))
        assert 3 in led, f"elected were {led}"
        if led[-1] != 3:
            led.append(kill_leader(quorum, led[-1]))
        wait_until(lambda: all(lag == 0 for _, lag in quorum.replication(led[-1]).values()))
        for node_id in (1, 2):
            node = quorum.nodes[node_id]
            assert isinstance(node, KafkaNode)
            assert not [line for line in node.complaints() if "FATAL" in line]
        # Penstock takes over the directories of Apache Kafka, one after the other.
        for node_id in (1, 2):
            quorum.nodes[node_id].kill()
            quorum.nodes[node_id] = quorum.as_penstock(node_id).start()
        wait_until(lambda: sorted(quorum.replication(3)) == [1, 2, 3])
        leader = quorum.leader(3)
        wait_until(lambda: all(lag == 0 for _, lag in quorum.replication(leader).values()))
    finally:
        quorum.stop()
    logs = [quorum.metadata_log(node_id) for node_id in (1, 2, 3)]
    shortest = min(map(len, logs))
    assert shortest > 1000
    assert len({log[:shortest] for log in logs}) == 1, "the same bytes on every node"


def kill_leader(quorum: MixedQuorum, leader: int) -> int:
    """Kill the leader and restart it after another has written; return the new leader."""
    quorum.nodes[leader].kill()
    time.sleep(5)  # the tool waits a minute for a leader that it was told of and that is gone
    others = [node_id for node_id in (1, 2, 3) if node_id != leader]
    wait_until(lambda: quorum.leader(others[0]) in others)
    successor = quorum.leader(others[0])
    assert quorum.leader(others[1]) == successor
    node = quorum.nodes[leader]
    if isinstance(node, PenstockNode):
        node.launch()
    else:
        node.start()
    wait_until(lambda: quorum.replication(successor).get(leader, ("", 1))[1] == 0)
    return successor
