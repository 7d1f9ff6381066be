"""Nodes under load while one node's disk is full or slow; `cluster_faults` says how to run the tests."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from cluster_faults import FAULTS, MARKS, TUNED, new_seed, node, quorum_leader, until_whole
from cluster_histories import Load, make_topics, under_load
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from penstock_node import PenstockNode
from several_nodes import SeveralNodes, penstock_nodes

pytestmark = MARKS

SMALL = 3
"""The node whose disk is full or slow."""
FULL_S = 8
ENDS_WITHIN_S = 60


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


@contextmanager
def filled(directory: Path) -> Iterator[None]:
    """Keep the disk completely full during the block."""
    filler = directory / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    try:
        yield
    finally:
        filler.unlink()


def on_two_disks(cluster: SeveralNodes, directory: Path) -> Path:
    """Put the node's second log directory on the small disk, and its metadata elsewhere."""
    small = node(cluster, SMALL)
    small.config["log.dirs"] = f"{small.data_dir},{directory / 'data'}"
    small.config["metadata.log.dir"] = str(small.data_dir)
    return directory / "data"


@pytest.mark.parametrize("leads", [False, True], ids=["a follower's", "a leader's"])
def test_the_disk_is_full(leads: bool, tmp_path: Path, kafka_libs: Path) -> None:
    """Partitions led elsewhere continue; those led by the node wait until there is room again."""
    with small_disk(tmp_path / "small", 64) as directory:
        cluster = penstock_nodes(tmp_path / "nodes", dynamic_quorum=True, config=TUNED)
        data = on_two_disks(cluster, directory)
        with cluster:

            def disturb(load: Load) -> None:
                until_whole(cluster)
                if not leads:
                    leave_led_by_others(cluster, SMALL)
                assert list(data.glob("*-*/*.log")), "no replica is on the small disk"
                with filled(directory):
                    time.sleep(FULL_S)
                    if not leads:
                        load.goes_on()
                load.goes_on()
                until_whole(cluster)

            under_load(cluster.bootstrap_servers, 3, new_seed(), kafka_libs, disturb)


@pytest.mark.parametrize("leads", [False, True], ids=["a voter's", "the active controller's"])
def test_the_disk_with_the_metadata_is_full(leads: bool, tmp_path: Path, kafka_libs: Path) -> None:
    """A voter waits until there is room.

    The active controller resigns so that another is elected, and stops because it cannot store that.
    """
    cluster = penstock_nodes(tmp_path / "nodes", dynamic_quorum=True, config=TUNED)
    with ExitStack() as stack:
        disks = {
            node_id: stack.enter_context(small_disk(tmp_path / f"disk-{node_id}", 64))
            for node_id in cluster.nodes
        }
        for node_id, disk in disks.items():
            made = node(cluster, node_id)
            made.data_dir = disk / "data"
            made.config["log.dirs"] = str(made.data_dir)
        stack.enter_context(cluster)

        def disturb(load: Load) -> None:
            until_whole(cluster)
            active = quorum_leader(cluster)
            victim = active if leads else next(node_id for node_id in cluster.nodes if node_id != active)
            made = node(cluster, victim)
            others = [node_id for node_id in cluster.nodes if node_id != victim]
            with filled(disks[victim]):
                if leads:
                    with suppress(KafkaException):  # it may resign during the request
                        grow_metadata(cluster, others)
                    until_ended(made)
                    load.goes_on()
                else:
                    grow_metadata(cluster, others)
                    time.sleep(FULL_S)
                    assert made.is_running
            if leads:
                made.kill()  # the process has ended; this clears its state
                made.start()
            load.goes_on()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, new_seed(), kafka_libs, disturb)


def until_ended(made: PenstockNode) -> None:
    deadline = time.monotonic() + ENDS_WITHIN_S
    while made.is_running:
        assert time.monotonic() < deadline, "it goes on without a metadata log"
        time.sleep(0.1)


def grow_metadata(cluster: SeveralNodes, brokers: list[int]) -> None:
    """Grow the metadata log by more than fits into its current page."""
    topic = NewTopic("growth", 100, replica_assignment=[brokers] * 100)
    make_topics(cluster.bootstrap_servers, [topic])


def leave_led_by_others(cluster: SeveralNodes, node_id: int) -> None:
    """Restart a node, which then leads no partition until leaders are balanced minutes later."""
    node(cluster, node_id).stop()
    node(cluster, node_id).start()
    until_whole(cluster)
    topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=60).topics
    leaders = {p.leader for topic in topics.values() for p in topic.partitions.values()}
    assert node_id not in leaders, leaders


def test_a_disk_is_slow(tmp_path: Path, kafka_libs: Path) -> None:
    """Each write of one node is delayed by 1 to 30 ms, each sync by 50 ms to 3 s, so it may fall behind."""
    dice = random.Random(seed := new_seed())
    cluster = penstock_nodes(tmp_path, dynamic_quorum=True, config=TUNED)
    disks = {node_id: tmp_path / f"disk-{node_id}" for node_id in cluster.nodes}
    for node_id, control in disks.items():
        slow = node(cluster, node_id)
        slow.command = [sys.executable, str(Path(__file__).with_name("slow_disk_node.py")), "start"]
        slow.environment["PENSTOCK_TEST_DISK"] = str(control)
    with cluster:

        def disturb(load: Load) -> None:
            for _ in range(FAULTS):
                until_whole(cluster)
                control = disks[dice.choice(list(disks))]
                control.write_text(f"{dice.uniform(0.001, 0.03)} {dice.uniform(0.05, 3)}")
                time.sleep(dice.uniform(5, 12))
                load.goes_on()
                control.unlink()
            until_whole(cluster)

        under_load(cluster.bootstrap_servers, 3, seed, kafka_libs, disturb)
