"""A broker with several log directories reports the directory of each replica to the controller."""

from functools import partial
from pathlib import Path

import pytest

from in_process import create, run, running_node
from penstock.broker.api import describe_log_dirs
from penstock.broker.network.context import RequestContext
from penstock.broker.node import Broker
from penstock.broker.partitions import directory_assignments
from penstock.metadata.controller.configs import incremental_alter_configs
from penstock.metadata.controller.state import Decision
from penstock.metadata.image import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest,
    PartitionRecord,
    TopicRecord,
)
from penstock.protocol.uuids import uuid_from_text
from penstock.security.permissions import UNRESTRICTED


def chosen(broker: Broker) -> dict[int, bytes]:
    """The directory of each partition of the topic, according to the disks."""
    found = {}
    for partition in broker.image.topics.by_name["t"].partitions:
        directory = broker.logs.directory_of("t", partition)
        assert directory is not None
        assert directory.properties is not None
        found[partition] = uuid_from_text(directory.properties.directory_id)
    return found


def told(broker: Broker) -> dict[int, bytes | None]:
    """The directory of each partition of the topic, according to the metadata log."""
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


@pytest.mark.parametrize(
    ("told_before", "in_sync", "told_then", "is_kept"),
    [
        ("nowhere", True, "lost", False),
        ("nowhere", False, "here", True),
        ("lost", False, "here", True),
        ("here", True, "here", True),
        ("in the one that failed", True, "in the one that failed", False),
    ],
)
def test_a_partition_that_others_changed_before_this_node_heard_of_it(
    tmp_path: Path, told_before: str, in_sync: bool, told_then: str, is_kept: bool
) -> None:
    """A log directory is offline. It could contain the log if this node had known of the partition."""

    async def story() -> None:
        async with running_node(tmp_path, **two_directories(tmp_path)) as broker:
            failed, here = (broker.logs.directory_id(tmp_path / name) for name in ("b", "a"))
            assert failed is not None
            assert here is not None
            broker._fail_directory(tmp_path / "b", "the disk is gone")
            directories = {
                "nowhere": UNASSIGNED_DIRECTORY,
                "lost": LOST_DIRECTORY,
                "here": uuid_from_text(here),
                "in the one that failed": uuid_from_text(failed),
            }
            topic_id = uuid_from_text("topicAAAAAAAAAAAAAAAAA")
            isr = [1, 2] if in_sync else [2]
            records = [
                TopicRecord(name="t", topic_id=topic_id),
                PartitionRecord(
                    partition_id=0,
                    topic_id=topic_id,
                    replicas=[1, 2],
                    isr=isr,
                    leader=isr[0],
                    partition_epoch=1,
                    directories=[directories[told_before], UNASSIGNED_DIRECTORY],
                ),
            ]
            await broker.controller.submit_and_follow(lambda _: Decision(records, None))
            while broker.image.topics.by_id[topic_id].partitions[0].directory(1) != directories[told_then]:
                await broker.metadata.reached(broker.image.offset + 1)
            assert (broker.logs.directory_of("t", 0) is not None) == is_kept
            assert (broker.replicas.get("t", 0) is not None) == is_kept
            if told_then == "lost":
                assert broker.image.topics.by_id[topic_id].partitions[0].leader != 1

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
    """KIP-1066: the controller places no replicas on a broker whose directories are all cordoned."""

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
            caller = RequestContext(5, "client", "127.0.0.1", "User:ANONYMOUS", "PLAINTEXT", UNRESTRICTED)
            described = describe_log_dirs.handle(broker, DescribeLogDirsRequest(topics=None), caller)
            assert {Path(r.log_dir).name: r.is_cordoned for r in described.results} == {"a": True, "b": False}
            assert await cordon(broker, "*") is ErrorCode.NONE
            while broker.image.brokers[1].has_uncordoned_directory:
                await broker.metadata.reached(broker.image.offset + 1)
            await create(broker, "u")
            assert "u" not in broker.image.topics.by_name

    run(story())
