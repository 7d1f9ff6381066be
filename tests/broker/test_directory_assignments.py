"""A broker with several log directories tells the controller which replica is where."""

from functools import partial
from pathlib import Path

import pytest

from in_process import create, run, running_node
from penstock.broker import directory_assignments
from penstock.broker.api import describe_log_dirs
from penstock.broker.context import RequestContext
from penstock.broker.node import Broker
from penstock.metadata.controller.configs import incremental_alter_configs
from penstock.metadata.image import UNASSIGNED_DIRECTORY, ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeLogDirsRequest, IncrementalAlterConfigsRequest
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


def test_a_cordoned_directory_takes_no_new_replicas(tmp_path: Path) -> None:
    """KIP-1066. A broker that is cordoned as a whole is passed over by the controller."""

    async def cordon(broker: Broker, value: str) -> ErrorCode:
        change = IncrementalAlterConfigsRequest
        resource = change.AlterConfigsResource(
            resource_type=ResourceType.BROKER,
            resource_name="1",
            configs=[change.AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=value)],
        )
        decide = partial(incremental_alter_configs, request=change(resources=[resource]))
        answer = await broker.controller.submit_and_follow(decide)
        return ErrorCode.of(answer.responses[0].error_code)

    async def story() -> None:
        properties = {**two_directories(tmp_path), "broker.heartbeat.interval.ms": "50"}
        async with running_node(tmp_path, **properties) as broker:
            assert await cordon(broker, "/elsewhere") is ErrorCode.INVALID_REQUEST
            assert await cordon(broker, str(tmp_path / "a")) is ErrorCode.NONE
            await create(broker, "t", partitions=4)
            for partition in range(4):
                directory = broker.logs.directory_of("t", partition)
                assert directory is not None
                assert directory.path == tmp_path / "b"
            caller = RequestContext(5, "client", "127.0.0.1", "User:ANONYMOUS", "PLAINTEXT")
            described = describe_log_dirs.handle(broker, DescribeLogDirsRequest(topics=None), caller)
            assert {Path(r.log_dir).name: r.is_cordoned for r in described.results} == {"a": True, "b": False}
            assert await cordon(broker, "*") is ErrorCode.NONE
            while broker.image.brokers[1].has_uncordoned_directory:
                await broker.metadata.reached(broker.image.offset + 1)
            await create(broker, "u")
            assert "u" not in broker.image.topics.by_name

    run(story())
