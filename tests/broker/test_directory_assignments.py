"""A broker with several log directories tells the controller which replica is where."""

from pathlib import Path

import pytest

from in_process import create, run, running_node
from penstock.broker import directory_assignments
from penstock.broker.node import Broker
from penstock.metadata.image import UNASSIGNED_DIRECTORY
from penstock.protocol.uuids import uuid_from_text


def chosen(broker: Broker) -> dict[int, bytes]:
    """The directory of each partition of the topic, as the disks have it."""
    found = {}
    for partition in broker.image.topics.by_name["t"].partitions:
        directory = broker.logs.directory_of("t", partition)
        assert directory is not None
        assert directory.properties is not None
        found[partition] = uuid_from_text(directory.properties.directory_id)
    return found


def told(broker: Broker) -> dict[int, bytes | None]:
    """The same as the metadata log has it."""
    partitions = broker.image.topics.by_name["t"].partitions
    return {index: partition.directory(broker.node_id) for index, partition in partitions.items()}


async def until_told(broker: Broker) -> None:
    while told(broker) != chosen(broker):
        await broker.metadata.reached(broker.image.offset + 1)


def two_directories(tmp_path: Path) -> dict[str, str]:
    return {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}


def test_the_controller_hears_where_replicas_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_assignments, "ASSIGNMENTS_PER_REQUEST", 3)

    async def story() -> None:
        async with running_node(tmp_path, **two_directories(tmp_path)) as broker:
            await create(broker, "t", partitions=8)
            await until_told(broker)
            assert len(set(told(broker).values())) == 2, "both directories are used"
            assert all(p.leader_epoch == 0 for p in broker.image.topics.by_name["t"].partitions.values())

    run(story())


def test_what_a_failed_directory_took_along_has_no_leader(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path, **two_directories(tmp_path)) as broker:
            await create(broker, "t", partitions=8)
            await until_told(broker)
            lost = tmp_path / "b"
            inside = {
                index
                for index in range(8)
                if (found := broker.logs.directory_of("t", index)) is not None and found.path == lost
            }
            broker._fail_directory(lost, "the disk is gone")
            partitions = broker.image.topics.by_name["t"].partitions
            while {index for index, p in partitions.items() if p.leader < 0} != inside:
                await broker.metadata.reached(broker.image.offset + 1)
            assert len(broker.image.brokers[1].log_dirs) == 1

    run(story())


def test_one_directory_needs_no_telling(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await create(broker, "t", partitions=2)
            assert told(broker) == chosen(broker)
            assert UNASSIGNED_DIRECTORY not in told(broker).values()
            assert all(p.partition_epoch == 0 for p in broker.image.topics.by_name["t"].partitions.values())

    run(story())
