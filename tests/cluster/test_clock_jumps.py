"""Nodes under load whose wall clocks jump. `cluster_faults` says how to run it.

Debian's libfaketime gives each node its own clock; without it the test is skipped. Jumps are limited because
clients' timestamps may be at most an hour ahead of a broker's clock (`message.timestamp.after.max.ms`).
"""

import random
import time
from pathlib import Path

import pytest
from cluster_faults import FAULTS, MARKS, new_seed, node, until_whole
from cluster_histories import Load, make_topics, under_load
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import NewTopic

from several_nodes import SeveralNodes, penstock_nodes

pytestmark = MARKS

STAMPED = "stamped"
TOLERANCE_S = 1.5
JUMPS_S = (-50 * 60, -90, -5, 5, 90, 50 * 60)


def libfaketime() -> Path:
    for found in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"):
        return found
    pytest.skip("libfaketime is not installed (apt install libfaketime)")


def test_clocks_jump(tmp_path: Path, kafka_libs: Path) -> None:
    """Clocks move by seconds and by most of an hour, and back: no lease, timeout or lag depends on them."""
    library = libfaketime()
    dice = random.Random(seed := new_seed())
    cluster = penstock_nodes(tmp_path, dynamic_quorum=True)  # no node should be fenced, so timeouts are long
    clocks = {node_id: tmp_path / f"clock-{node_id}" for node_id in cluster.nodes}
    for node_id, clock in clocks.items():
        clock.write_text("+0\n")
        node(cluster, node_id).environment |= {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
    with cluster:
        make_stamped(cluster)

        def disturb(load: Load) -> None:
            for _ in range(FAULTS):
                until_whole(cluster)
                jumping = dice.sample(list(clocks), dice.randint(1, 2))
                ahead_s = {node_id: dice.choice(JUMPS_S) for node_id in jumping}
                for node_id, seconds in ahead_s.items():
                    set_clock(clocks[node_id], seconds)
                time.sleep(dice.uniform(2, 6))
                check_clocks(cluster, ahead_s)
                load.goes_on()
                until_whole(cluster)
                for node_id in jumping:
                    set_clock(clocks[node_id], 0)
                time.sleep(2)
                load.goes_on()

        under_load(cluster.bootstrap_servers, 3, seed, kafka_libs, disturb)


def set_clock(clock: Path, ahead_s: int) -> None:
    """Set the clock file of a node atomically; the node reads it again within a second."""
    written = clock.with_suffix(".new")
    written.write_text(f"{ahead_s:+d}\n")
    written.replace(clock)


def make_stamped(cluster: SeveralNodes) -> None:
    """Create a topic whose records get the time of the partition's leader: node 1 for partition 0, etc."""
    config = {"message.timestamp.type": "LogAppendTime"}
    leaders = [[node_id] for node_id in cluster.nodes]
    topic = NewTopic(STAMPED, len(leaders), replica_assignment=leaders, config=config)
    make_topics(cluster.bootstrap_servers, [topic])


def check_clocks(cluster: SeveralNodes, ahead_s: dict[int, int]) -> None:
    """Check that only these nodes' clocks are ahead of this process's clock, by this much."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    stamped: list[Message] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        stamped.append(message)

    for partition, node_id in enumerate(cluster.nodes):
        earliest_s = time.time() + ahead_s.get(node_id, 0) - TOLERANCE_S
        producer.produce(STAMPED, b"x", partition=partition, on_delivery=delivered)
        assert producer.flush(30) == 0
        latest_s = time.time() + ahead_s.get(node_id, 0) + TOLERANCE_S
        assert earliest_s <= stamped[-1].timestamp()[1] / 1000 <= latest_s, f"node {node_id}: {ahead_s}"
