"""The group coordinator on a real node: its topic, its loading, its log."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from in_process import create, delete, running_node
from penstock.broker.coordination import runtime as coordinator_runtime
from penstock.broker.coordination.groups import loader as group_loader
from penstock.broker.coordination.groups.runtime import GROUP_METADATA_TOPIC
from penstock.broker.metrics.group_metrics import group_metrics
from penstock.broker.network.context import RequestContext
from penstock.broker.node import Broker
from penstock.metadata.controller.topics import create_topics, internal_topic
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    CreateTopicsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from penstock.security.permissions import UNRESTRICTED
from virtual_time import WORK_S, run_virtually
from waiting import until

SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x02t1\xff\xff\xff\xff"


def caller(version: int) -> RequestContext:
    return RequestContext(version, "client", "127.0.0.1", "User:ANONYMOUS", "PLAINTEXT", UNRESTRICTED)


def commit(broker: Broker, group_id: str, topic: str, offset: int) -> ErrorCode:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic, topic_id=broker.image.topics.by_name[topic].topic_id, partitions=[partition]
            )
        ],
    )
    response = broker.groups.commit_offsets(request, caller(9)).result()
    return ErrorCode(response.topics[0].partitions[0].error_code)


def committed(broker: Broker, group_id: str) -> dict[str, int]:
    request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=None)
    group = broker.groups.fetch_offsets(request, require_stable=False).result()
    return {topic.name: topic.partitions[0].committed_offset for topic in group.topics}


async def join(broker: Broker, group_id: str, session_timeout_ms: int = 10_000) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )
    joined = broker.groups.join_group(request, caller(3))
    return await joined


async def become_stable(broker: Broker, group_id: str, session_timeout_ms: int = 10_000) -> JoinGroupResponse:
    """Join and sync one member."""
    joined = await join(broker, group_id, session_timeout_ms)
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    synced = broker.groups.sync_group(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        )
    )
    assert (await synced).assignment == b"all"
    return joined


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_topic_is_created_once_on_first_need(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            assert refusal(lambda: committed(broker, "g")) is ErrorCode.NOT_COORDINATOR
            await asyncio.gather(*(broker.groups.ensure_topic() for _ in range(3)))
            topic = broker.image.topics.by_name[GROUP_METADATA_TOPIC]
            assert len(topic.partitions) == 3
            settings = broker.topic_settings(GROUP_METADATA_TOPIC).log
            assert settings.segment_bytes == 104_857_600
            assert committed(broker, "g") == {}

    run_virtually(story())


def test_a_topic_that_cannot_be_created_is_explained_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        three = {"offsets.topic.replication.factor": "3"}
        async with running_node(tmp_path, **three) as broker:
            for _ in range(3):
                with pytest.raises(KafkaError) as caught:
                    await broker.groups.ensure_topic()
                assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
                assert "__consumer_offsets cannot be created: Unable to replicate" in str(caught.value)
                assert "Set offsets.topic.replication.factor to at most" in str(caught.value)
            assert warnings() == 1
            await asyncio.sleep(coordinator_runtime.WARNING_PAUSE_S)
            with pytest.raises(KafkaError):
                await broker.groups.ensure_topic()
            assert warnings() == 2

    def warnings() -> int:
        return sum("cannot create an internal topic" in record.message for record in caplog.records)

    run_virtually(story())


def test_clients_wait_while_the_logs_of_the_topic_are_made(tmp_path: Path) -> None:
    def asked(broker: Broker) -> set[ErrorCode]:
        try:
            committed(broker, "g")
        except KafkaError as error:
            return {error.code}
        return {ErrorCode.NONE}

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            creation = asyncio.ensure_future(broker.groups.ensure_topic())
            refusals = set()
            while not creation.done():
                if GROUP_METADATA_TOPIC in broker.image.topics.by_name and not broker.groups.has_topic:
                    refusals |= asked(broker)
                await asyncio.sleep(WORK_S / 10)
            assert refusals <= {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
            assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in refusals
            assert broker.groups.has_topic
            assert committed(broker, "g") == {}

    run_virtually(story())


def test_groups_and_offsets_survive_a_restart(tmp_path: Path) -> None:
    async def first() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1", "t2")
            await become_stable(broker, "g")
            for offset in range(50):
                assert commit(broker, "simple", "t1", offset) is ErrorCode.NONE
            assert commit(broker, "simple", "t2", 7) is ErrorCode.NONE

    async def second() -> None:
        async with running_node(tmp_path) as broker:
            assert committed(broker, "simple") == {"t1": 49, "t2": 7}
            described = broker.groups.describe_group("g", caller(6))
            assert described.group_state == "Stable"
            assert described.members[0].member_assignment == b"all"

    run_virtually(first())
    run_virtually(second())


def test_offsets_go_with_their_topic(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1", "t2")
            for group_id in ("a", "b", "c", "d"):
                commit(broker, group_id, "t1", 1)
                commit(broker, group_id, "t2", 2)
            await delete(broker, "t1")
            assert [committed(broker, g) for g in ("a", "b", "c", "d")] == [{"t2": 2}] * 4

    run_virtually(story())


def test_nobody_is_served_while_a_partition_loads(tmp_path: Path) -> None:
    """After a restart with a log that is slow to read, the group's clients get a retriable error."""

    async def first() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            for index in range(20):
                commit(broker, f"g{index}", "t1", index)

    async def second() -> None:
        async with running_node(tmp_path) as broker:
            groups = broker.groups
            partitions = broker.image.topics.by_name[GROUP_METADATA_TOPIC].partitions
            groups.close()
            for partition in partitions:
                groups._follow_leadership(partition)
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert refusal(lambda: committed(broker, "g7")) is loading
            assert refusal(lambda: groups.list_groups([], [])) is loading
            await groups.wait_until_loaded()
            assert committed(broker, "g7") == {"t1": 7}
            assert len(groups.list_groups([], [])) == 20

    run_virtually(first())
    run_virtually(second())


def test_partition_that_cannot_be_read_is_served_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            commit(broker, "g", "t1", 1)

    tries = 0

    def unreadable(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise OSError("the disk is gone")

    async def second() -> None:
        monkeypatch.setattr(coordinator_runtime, "LOAD_RETRY_MAX_S", 0.01)
        async with running_node(tmp_path) as broker:
            with monkeypatch.context() as patch:
                patch.setattr(group_loader, "load", unreadable)
                broker.groups.close()
                partition = broker.groups.partition_of("g")
                replica = broker.replicas.leader(GROUP_METADATA_TOPIC, partition)
                broker.groups._elect(partition, replica, retry_s=0.01)
                await broker.groups.wait_until_loaded()
                assert refusal(lambda: committed(broker, "g")) is ErrorCode.NOT_COORDINATOR
                await until(lambda: tries >= 3)
            await until(lambda: partition in broker.groups._loaded)
            assert committed(broker, "g") == {"t1": 1}

    run_virtually(first())
    run_virtually(second())


def test_a_partition_given_up_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: object) -> None:
        raise OSError("the disk is gone")

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            groups = broker.groups
            await groups.ensure_topic()
            await create(broker, "t1")
            commit(broker, "g", "t1", 1)
            groups.close()
            partition = groups.partition_of("g")
            with monkeypatch.context() as patch:
                patch.setattr(group_loader, "load", unreadable)
                groups._elect(
                    partition, broker.replicas.leader(GROUP_METADATA_TOPIC, partition), retry_s=0.01
                )
                await groups.wait_until_loaded()
            groups.close()
            await asyncio.sleep(0.05)
            assert not groups._loaded
            assert not groups._loading

    run_virtually(story())


def test_a_topic_deleted_and_created_again_at_once_has_coordinators(tmp_path: Path) -> None:
    """One flush of the metadata log may commit both; the groups' state is discarded with the old topic."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            commit(broker, "g", "t1", 1)
            again = CreateTopicsRequest(topics=[internal_topic(GROUP_METADATA_TOPIC, broker.config)])
            created = broker.controller.submit_and_follow(partial(create_topics, request=again))
            await asyncio.gather(
                create(broker, "t2"),  # its flush lets the other two wait for the next
                delete(broker, GROUP_METADATA_TOPIC),
                created,
            )
            assert committed(broker, "g") == {}
            assert commit(broker, "g", "t1", 2) is ErrorCode.NONE

    run_virtually(story())


def test_commit_that_cannot_be_written_did_not_happen(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            assert commit(broker, "g", "t1", 1) is ErrorCode.NONE
            replica = broker.replicas.get(GROUP_METADATA_TOPIC, broker.groups.partition_of("g"))
            assert replica is not None
            replica.log.failure = "no space left"
            assert refusal(lambda: commit(broker, "g", "t1", 2)) is ErrorCode.NOT_COORDINATOR
            assert committed(broker, "g") == {"t1": 1}
            replica.log.failure = None
            assert commit(broker, "g", "t1", 3) is ErrorCode.NONE
            assert committed(broker, "g") == {"t1": 3}

    run_virtually(story())


def test_waiting_members_are_sent_away_when_the_node_stops(tmp_path: Path) -> None:
    async def story() -> None:
        delay = {"group.initial.rebalance.delay.ms": "60000"}
        async with running_node(tmp_path, **delay) as broker:
            await broker.groups.ensure_topic()
            joining = asyncio.ensure_future(join(broker, "g"))
            await asyncio.sleep(0)
            broker.groups.close()
            assert (await joining).error_code == ErrorCode.NOT_COORDINATOR

    run_virtually(story())


def test_more_tombstones_than_fit_into_one_batch(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path, **{"offsets.topic.num.partitions": "1"}) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            group_ids = [f"{index:05}-" + "x" * 30_000 for index in range(50)]  # 1.5 MB of keys
            for group_id in group_ids:
                assert commit(broker, group_id, "t1", 1) is ErrorCode.NONE
            await delete(broker, "t1")
            assert broker.groups.offset_count() == 0

    run_virtually(story())


def test_figures(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1", "t2")
            await become_stable(broker, "g")
            commit(broker, "simple", "t1", 1)
            commit(broker, "simple", "t2", 1)
            samples = {
                (sample.name, *sample.labels.values()): sample.value
                for metric in group_metrics(broker.groups)
                for sample in metric.samples
            }
            assert samples["penstock_groups", "Stable"] == 1
            assert samples["penstock_groups", "Empty"] == 1
            assert samples["penstock_group_offsets",] == 2
            assert samples["penstock_group_offset_commits_total",] == 2
            assert samples["penstock_group_rebalances_total",] == 1

    run_virtually(story())


def test_a_clock_that_is_set_anew_neither_ends_nor_prolongs_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_by_ms = 0
    true_clock_ms = Broker.clock_ms
    monkeypatch.setattr(Broker, "clock_ms", lambda broker: true_clock_ms(broker) + set_by_ms)

    def state(broker: Broker) -> str:
        [group] = broker.groups.list_groups([], [])
        return group.group_state

    async def story() -> None:
        nonlocal set_by_ms
        async with running_node(tmp_path, **{"group.min.session.timeout.ms": "1"}) as broker:
            await broker.groups.ensure_topic()
            joined = await become_stable(broker, "g", session_timeout_ms=1200)
            await asyncio.sleep(0.8)
            heartbeat = HeartbeatRequest(
                group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
            )
            assert broker.groups.heartbeat(heartbeat) is ErrorCode.NONE
            set_by_ms = 2 * 3_600_000
            await asyncio.sleep(0.6)  # the timer armed for the first deadline has fired
            assert state(broker) == "Stable"
            set_by_ms = -3 * 3_600_000
            await asyncio.sleep(1.2)  # without any heartbeat
            assert state(broker) == "Empty"

    run_virtually(story())
