"""Several log directories: one that fails takes down its partitions, not the node (KIP-112)."""

import shutil
from pathlib import Path

import pytest

from broker_wire import Wire, batch_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    MetadataRequest,
    MetadataResponse,
)
from penstock.testing import Cluster
from waiting import wait_until

PARTITIONS = 4


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    return [tmp_path / "disk0", tmp_path / "disk1"]


def node_on(disks: list[Path]) -> Cluster:
    return Cluster(
        {
            "replica.high.watermark.checkpoint.interval.ms": "200",
            "log.flush.offset.checkpoint.interval.ms": "200",
        },
        data_dir=",".join(map(str, disks)),  # in the format of log.dirs
    )


def leaders(wire: Wire) -> dict[int, int]:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
    answer = wire.ask(request, MetadataResponse, 12).topics[0].partitions
    for partition in answer:
        assert partition.offline_replicas == ([] if partition.leader_id >= 0 else partition.replica_nodes)
    return {partition.partition_index: partition.leader_id for partition in answer}


def fill(wire: Wire) -> None:
    wire.create_topic("t", PARTITIONS)
    for partition in range(PARTITIONS):
        wire.produce("t", batch_of(b"%d" % partition), partition)


def on(disk: Path) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in disk.glob("t-*")}


def check_half_is_offline(wire: Wire, lost: set[int]) -> None:
    assert {partition for partition, leader in leaders(wire).items() if leader < 0} == lost
    for partition in range(PARTITIONS):
        answered = wire.produce("t", batch_of(b"more"), partition)
        assert answered.error_code == (ErrorCode.KAFKA_STORAGE_ERROR if partition in lost else 0)
        if partition not in lost:
            assert wire.values("t", 0, partition)[0] == b"%d" % partition
    described = wire.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse).results
    assert sorted(result.error_code for result in described) == [0, ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_directory_removed_under_a_running_node(disks: list[Path]) -> None:
    with node_on(disks) as node, Wire(node.bootstrap_servers) as wire:
        fill(wire)
        lost = on(disks[1])
        assert 0 < len(lost) < PARTITIONS
        shutil.rmtree(disks[1])
        wait_until(lambda: {p for p, leader in leaders(wire).items() if leader < 0} == lost)
        check_half_is_offline(wire, lost)


def test_a_directory_that_cannot_be_had_at_the_start(disks: list[Path], tmp_path: Path) -> None:
    node = node_on(disks)
    with node:
        with Wire(node.bootstrap_servers) as wire:
            fill(wire)
        lost = on(disks[1])
        node.stop()
        disks[1].rename(tmp_path / "away")
        disks[1].write_text("no directory")
        node.start()
        with Wire(node.bootstrap_servers) as wire:
            check_half_is_offline(wire, lost)
        node.stop()
        disks[1].unlink()
        (tmp_path / "away").rename(disks[1])
        node.start()
        with Wire(node.bootstrap_servers) as wire:
            assert set(leaders(wire).values()) == {1}
            for partition in lost:
                assert wire.values("t", 0, partition) == [b"%d" % partition]


def test_the_loss_of_the_metadata_ends_the_node(disks: list[Path]) -> None:
    node = node_on(disks).start()
    try:
        with Wire(node.bootstrap_servers) as wire:
            fill(wire)
        shutil.rmtree(disks[0])
        wait_until(lambda: not node.nodes[0].is_running)
    finally:
        node.close()
