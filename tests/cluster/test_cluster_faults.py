"""Several nodes under load by real clients while nodes die, hang, or are cut off in one direction.

PENSTOCK_CLUSTER_FAULTS is how many faults each test makes; without it none of them runs. PENSTOCK_SEED
repeats a run's dice (not its timing).
"""

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from cluster_histories import under_load
from confluent_kafka.admin import AdminClient

from one_way_proxy import Direction, OneWayProxy
from penstock.client.cluster import Cluster as Client
from penstock.client.config import ClientConfig
from penstock.client.quorum import describe_quorum
from penstock.operations.health import health
from penstock_node import PenstockNode
from several_nodes import SeveralNodes, penstock_nodes

FAULTS = int(os.environ.get("PENSTOCK_CLUSTER_FAULTS", "0"))
WHOLE_WITHIN_S = 90
TUNED = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "replica.lag.time.max.ms": "3000",
}

pytestmark = [
    pytest.mark.skipif(not FAULTS, reason="takes minutes: PENSTOCK_CLUSTER_FAULTS=4, or make test-cluster"),
    pytest.mark.timeout(300 + 60 * FAULTS),
]


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={chosen}")
    return chosen


def node(cluster: SeveralNodes, node_id: int) -> PenstockNode:
    found = cluster.nodes[node_id]
    assert isinstance(found, PenstockNode)
    return found


@contextmanager
def client(cluster: SeveralNodes) -> Iterator[Client]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "default.api.timeout.ms": "60000"}
    with Client(ClientConfig.from_properties(settings)) as opened:
        yield opened


def until_whole(cluster: SeveralNodes) -> None:
    """Every replica in sync, every broker there, before the next fault: more than one at a time is another
    test."""
    deadline = time.monotonic() + WHOLE_WITHIN_S
    with client(cluster) as asking:
        while True:
            found = health(asking)
            fenced = [broker.broker_id for broker in found.brokers if broker.is_fenced]
            if found.is_whole and not fenced:
                return
            assert time.monotonic() < deadline, f"not whole: {found.under_replicated[:5]} fenced={fenced}"
            time.sleep(0.2)


def quorum_leader(cluster: SeveralNodes) -> int:
    with client(cluster) as asking:
        return describe_quorum(asking).leader_id


def test_nodes_die(tmp_path: Path, seed: int) -> None:
    """SIGKILL, every other time of the active controller."""
    dice = random.Random(seed)
    with penstock_nodes(tmp_path, dynamic_quorum=True, config=TUNED) as cluster:

        def disturb() -> None:
            for number in range(FAULTS):
                until_whole(cluster)
                time.sleep(dice.uniform(0.5, 2))
                victim = quorum_leader(cluster) if number % 2 else dice.choice(list(cluster.nodes))
                node(cluster, victim).kill()
                time.sleep(dice.uniform(0, 5))
                node(cluster, victim).start()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, disturb)


def test_nodes_hang(tmp_path: Path, seed: int) -> None:
    """SIGSTOP for 5 to 20 s: others take over, and who wakes up finds that out."""
    dice = random.Random(seed)
    with penstock_nodes(tmp_path, dynamic_quorum=True, config=TUNED) as cluster:

        def disturb() -> None:
            for number in range(FAULTS):
                until_whole(cluster)
                victim = quorum_leader(cluster) if number % 2 else dice.choice(list(cluster.nodes))
                node(cluster, victim).suspend()
                time.sleep(dice.uniform(5, 20))
                node(cluster, victim).resume()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, disturb)


def test_two_of_five_die(tmp_path: Path, seed: int) -> None:
    """Everything goes on with replication factor 5 and a quorum of 3 of 5."""
    dice = random.Random(seed)
    config = {
        **TUNED,
        "offsets.topic.replication.factor": "5",
        "transaction.state.log.replication.factor": "5",
    }
    with penstock_nodes(tmp_path, nodes=5, dynamic_quorum=True, config=config) as cluster:

        def disturb() -> None:
            for _ in range(max(FAULTS // 2, 1)):
                until_whole(cluster)
                victims = dice.sample(list(cluster.nodes), 2)
                for victim in victims:
                    node(cluster, victim).kill()
                time.sleep(dice.uniform(3, 8))
                for victim in victims:
                    node(cluster, victim).start()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 5, seed, disturb)


class CutOff:
    """Nodes that reach each other, and are reached by clients, through proxies only."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self.cluster = penstock_nodes(directory, config=TUNED)
        self.proxies: dict[int, tuple[OneWayProxy, OneWayProxy]] = {}
        for node_id, made in self.cluster.nodes.items():
            host, port = made.bootstrap_servers.split(":")
            controller_port = self.cluster.controllers[node_id].rpartition(":")[2]
            self.proxies[node_id] = (
                stack.enter_context(OneWayProxy(_to(host, int(port)))),
                stack.enter_context(OneWayProxy(_to(host, int(controller_port)))),
            )
        voters = ",".join(f"{node_id}@{proxies[1].address}" for node_id, proxies in self.proxies.items())
        for node_id, made in self.cluster.nodes.items():
            made.config["controller.quorum.voters"] = voters
            made.config["advertised.listeners"] = (
                f"PLAINTEXT://{self.proxies[node_id][0].address},"
                f"CONTROLLER://{self.proxies[node_id][1].address}"
            )


def _to(host: str, port: int) -> Callable[[], tuple[str, int]]:
    return lambda: (host, port)


@pytest.mark.parametrize("directions", [(Direction.IN,), (Direction.OUT,), tuple(Direction)], ids=str)
def test_a_node_is_cut_off(directions: tuple[Direction, ...], tmp_path: Path, seed: int) -> None:
    """It is deaf, mute, or both, for 3 to 12 s; what it sends by itself still arrives where it is deaf."""
    dice = random.Random(seed)
    with ExitStack() as stack:
        cut_off = CutOff(stack, tmp_path)
        cluster = stack.enter_context(cut_off.cluster)

        def disturb() -> None:
            for _ in range(FAULTS):
                until_whole(cluster)
                victim = dice.choice(list(cluster.nodes))
                for proxy in cut_off.proxies[victim]:
                    proxy.stop(*directions)
                time.sleep(dice.uniform(3, 12))
                for proxy in cut_off.proxies[victim]:
                    if dice.random() < 0.5:
                        proxy.drop_connections()
                    proxy.heal()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, disturb)


def test_a_slow_network(tmp_path: Path, seed: int) -> None:
    """One node's answers take 20 to 60 ms more: it stays in sync, and all goes on."""
    dice = random.Random(seed)
    with ExitStack() as stack:
        cut_off = CutOff(stack, tmp_path)
        cluster = stack.enter_context(cut_off.cluster)

        def disturb() -> None:
            until_whole(cluster)
            for _ in range(FAULTS):
                for proxy in cut_off.proxies[dice.choice(list(cluster.nodes))]:
                    proxy.delay(dice.choice(list(Direction)), dice.uniform(0.02, 0.06))
                time.sleep(3)
            for proxies in cut_off.proxies.values():
                for proxy in proxies:
                    proxy.heal()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, disturb)


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[Path]:
    directory.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets a test mount nothing")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_the_disk_of_a_follower_is_full(tmp_path: Path, seed: int) -> None:
    """The others go on; when there is room again it catches up."""
    with small_disk(tmp_path / "small", 64) as directory:
        cluster = penstock_nodes(tmp_path / "nodes", dynamic_quorum=True, config=TUNED)
        small = node(cluster, 3)  # its metadata is elsewhere: without that a node ends, as Kafka's does
        small.config["log.dirs"] = f"{small.data_dir},{directory / 'data'}"
        small.config["metadata.log.dir"] = str(small.data_dir)
        with cluster:

            def disturb() -> None:
                until_whole(cluster)
                leave_led_by_others(cluster, 3)
                assert list((directory / "data").glob("*-*/*.log")), "no replica is on the small disk"
                filler = directory / "filler"
                with suppress(OSError), filler.open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(1 << 16))
                time.sleep(8)
                filler.unlink()
                until_whole(cluster)

            under_load(cluster.bootstrap_servers, 3, seed, disturb)


def leave_led_by_others(cluster: SeveralNodes, node_id: int) -> None:
    """Restart a node: it leads nothing then, until leaders are balanced minutes later."""
    node(cluster, node_id).stop()
    node(cluster, node_id).start()
    until_whole(cluster)
    topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=20).topics
    leaders = {p.leader for topic in topics.values() for p in topic.partitions.values()}
    assert node_id not in leaders, leaders
