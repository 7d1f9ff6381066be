"""Nodes under load by real clients while nodes die or hang; `cluster_faults` says how to run the tests."""

import random
import time
from pathlib import Path

from cluster_faults import FAULTS, MARKS, TUNED, new_seed, node, quorum_leader, until_whole
from cluster_histories import Load, under_load

from several_nodes import SeveralNodes, penstock_nodes

pytestmark = MARKS


def victims(cluster: SeveralNodes, dice: random.Random) -> list[int | None]:
    """Yield all nodes in random order, and None for the active controller, repeatedly."""
    order: list[int | None] = [*cluster.nodes, None]
    dice.shuffle(order)
    return [order[number % len(order)] for number in range(FAULTS)]


def test_nodes_die(tmp_path: Path, kafka_libs: Path) -> None:
    """SIGKILL: with min.insync.replicas=2 all clients continue while any one of three nodes is down."""
    dice = random.Random(seed := new_seed())
    with penstock_nodes(tmp_path, dynamic_quorum=True, config=TUNED) as cluster:

        def disturb(load: Load) -> None:
            for number, chosen in enumerate(victims(cluster, dice)):
                until_whole(cluster)
                time.sleep(dice.uniform(0.5, 2))
                victim = chosen or quorum_leader(cluster)
                node(cluster, victim).kill()
                if number % 2:
                    time.sleep(dice.uniform(0, 3))  # back before all have noticed
                else:
                    load.goes_on()
                node(cluster, victim).start()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, kafka_libs, disturb)


def test_nodes_hang(tmp_path: Path, kafka_libs: Path) -> None:
    """SIGSTOP for 5 to 20 s: others take over, and the node notices that when it continues."""
    dice = random.Random(seed := new_seed())
    with penstock_nodes(tmp_path, dynamic_quorum=True, config=TUNED) as cluster:

        def disturb(load: Load) -> None:
            for chosen in victims(cluster, dice):
                until_whole(cluster)
                load.goes_on()
                victim = chosen or quorum_leader(cluster)
                node(cluster, victim).suspend()
                time.sleep(dice.uniform(5, 20))
                node(cluster, victim).resume()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, kafka_libs, disturb)


def test_two_of_five_die(tmp_path: Path, kafka_libs: Path) -> None:
    """All clients continue with replication factor 5, min.insync.replicas=3 and a quorum of 3 of 5."""
    dice = random.Random(seed := new_seed())
    config = {
        **TUNED,
        "offsets.topic.replication.factor": "5",
        "transaction.state.log.replication.factor": "5",
    }
    with penstock_nodes(tmp_path, nodes=5, dynamic_quorum=True, config=config) as cluster:

        def disturb(load: Load) -> None:
            for _ in range(max(FAULTS // 2, 1)):
                until_whole(cluster)
                chosen = dice.sample(list(cluster.nodes), 2)
                for victim in chosen:
                    node(cluster, victim).kill()
                load.goes_on()
                for victim in chosen:
                    node(cluster, victim).start()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 5, seed, kafka_libs, disturb)
