"""Groups whose partition has followers: committed changes, delayed answers, and rollback by elections."""

import asyncio
import random
from collections.abc import Awaitable
from pathlib import Path

import pytest

from in_process import create, running_node
from penstock.broker.coordination.groups.runtime import GROUP_METADATA_TOPIC
from penstock.broker.network.answers import Answer
from penstock.broker.network.context import RequestContext
from penstock.broker.node import Broker
from penstock.metadata.image import MetadataDelta
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from penstock.security.permissions import UNRESTRICTED
from penstock.storage.names import TopicPartition
from several_replicas import Followed, commit_all, follow_all
from virtual_time import run_virtually

SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x02t1\xff\xff\xff\xff"
OK = ErrorCode.NONE
AWAY = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


def caller(version: int) -> RequestContext:
    return RequestContext(version, "client", "127.0.0.1", "User:ANONYMOUS", "PLAINTEXT", UNRESTRICTED)


def commit(
    broker: Broker, offset: int, group_id: str = "g", member: JoinGroupResponse | None = None
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name="t1", topic_id=broker.image.topics.by_name["t1"].topic_id, partitions=[partition]
    )
    request = OffsetCommitRequest(group_id=group_id, topics=[topic])
    if member is not None:
        request.member_id = member.member_id
        request.generation_id_or_member_epoch = member.generation_id
    return broker.groups.commit_offsets(request, caller(9))


def later(answer: Answer[object]) -> "asyncio.Future[object]":
    """Check that an answer was not given at once, and return its promise."""
    assert not answer.is_done, f"answered at once: {answer.value}"
    return asyncio.ensure_future(answer)


async def now(answer: Answer[object]) -> object:
    return await answer


async def settled(waiting: "asyncio.Future[object]") -> object:
    """The state of an answer: its result, its error's code, or None while it is pending."""
    for _ in range(5):
        await asyncio.sleep(0)
    if not waiting.done():
        return None
    error = waiting.exception()
    if error is None:
        return waiting.result()
    assert isinstance(error, KafkaError)
    return error.code


def fetched(
    broker: Broker, group_id: str = "g", *, require_stable: bool = False
) -> int | Answer[OffsetFetchResponse.OffsetFetchResponseGroup]:
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name="t1", partition_indexes=[0])]
    request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    group = broker.groups.fetch_offsets(request, require_stable=require_stable)
    return offset_in(group.result()) if group.is_done else group


def offset_in(group: object) -> int:
    assert isinstance(group, OffsetFetchResponse.OffsetFetchResponseGroup)
    return group.topics[0].partitions[0].committed_offset


def join(
    broker: Broker, member_id: str = "", version: int = 9, instance: str | None = None
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    return broker.groups.join_group(
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        ),
        caller(version),
    )


def sync(
    broker: Broker, joined: JoinGroupResponse, assignment: bytes = b"all"
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    given = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)
    return broker.groups.sync_group(
        SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[given] if joined.leader == joined.member_id else [],
        )
    )


async def loaded(broker: Broker, group_id: str = "g") -> None:
    for _ in range(1000):
        try:
            broker.groups.describe_group(group_id, caller(5))
        except KafkaError as error:
            if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            await asyncio.sleep(0.002)
        else:
            return
    raise AssertionError("never loaded")


async def one_member(broker: Broker, partition: Followed) -> JoinGroupResponse:
    """Create a Stable group with one member, with all of its records committed."""
    asked = later(join(broker))
    assert await settled(asked) is None
    partition.commit()
    named = await asked
    assert isinstance(named, JoinGroupResponse)
    assert named.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = await now(join(broker, named.member_id))
    assert isinstance(joined, JoinGroupResponse)
    assert joined.error_code == OK
    synced = later(sync(broker, joined))
    assert await settled(synced) is None
    partition.commit()
    answer = await synced
    assert isinstance(answer, SyncGroupResponse)
    assert answer.assignment == b"all"
    return joined


def partition_of(broker: Broker, group_id: str = "g") -> Followed:
    return Followed(broker, GROUP_METADATA_TOPIC, broker.groups.partition_of(group_id))


def test_a_commit_is_answered_and_read_when_followers_have_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            first, second = later(commit(broker, 5)), later(commit(broker, 6))
            assert await settled(first) is None
            assert fetched(broker) == -1
            stable = later(fetched(broker, require_stable=True))
            partition.commit(partition.replica.high_watermark + 1)
            assert isinstance(await settled(first), OffsetCommitResponse)
            assert await settled(second) is None
            assert fetched(broker) == 5
            assert await settled(stable) is None
            partition.commit()
            assert isinstance(await settled(second), OffsetCommitResponse)
            assert offset_in(await stable) == 6

    run_virtually(story())


@pytest.mark.parametrize("keeps", [False, True])
def test_what_was_not_committed_is_answered_not_coordinator(tmp_path: Path, keeps: bool) -> None:
    """An election may or may not roll the change back: an unanswered client cannot know."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            first = later(commit(broker, 5))
            partition.commit()
            await first
            second = later(commit(broker, 6))
            partition.lose(broker.groups)
            assert await settled(second) is ErrorCode.NOT_COORDINATOR
            with pytest.raises(KafkaError) as refused:
                fetched(broker)
            assert refused.value.code is ErrorCode.NOT_COORDINATOR
            partition.win(broker.groups, partition.replica.log.log_end_offset if keeps else None)
            partition.commit()
            await loaded(broker)
            assert fetched(broker) == (6 if keeps else 5)

    run_virtually(story())


def test_a_new_coordinator_serves_when_what_it_loaded_is_committed(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            later(commit(broker, 5)).add_done_callback(lambda done: done.exception())
            partition.lose(broker.groups)
            partition.win(broker.groups, partition.replica.log.log_end_offset)
            await asyncio.wait_for(broker.groups.wait_until_loaded(), 10)
            for _ in range(20):
                await asyncio.sleep(0.005)
                with pytest.raises(KafkaError) as refused:
                    fetched(broker)
                assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            partition.commit()
            await loaded(broker)
            assert fetched(broker) == 5

    run_virtually(story())


def test_leadership_lost_while_loading_ends_the_load_and_a_new_one_begins(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            later(commit(broker, 5)).add_done_callback(lambda done: done.exception())
            partition.lose(broker.groups)
            partition.win(broker.groups, partition.replica.log.log_end_offset)
            await asyncio.wait_for(broker.groups.wait_until_loaded(), 10)
            partition.lose()  # and leads again before the coordinators are notified
            partition.win(broker.groups)
            await loaded(broker)
            assert fetched(broker) == -1

    run_virtually(story())


def test_a_node_that_stood_still_tells_no_offsets_before_it_is_followed_again(tmp_path: Path) -> None:
    """Another node may have been elected and have committed more offsets."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            committed = later(commit(broker, 5))
            partition.commit()
            await committed
            assert fetched(broker, require_stable=True) == 5
            session = partition.follow()
            partition.stand_still()
            session.fetched(broker.replication.now_ms())  # the follower had these records before
            with pytest.raises(KafkaError) as refused:
                fetched(broker, require_stable=True)
            assert refused.value.code is ErrorCode.NOT_COORDINATOR
            assert fetched(broker) == 5, "as Apache Kafka answers who does not ask for stable offsets"
            session.answered_ms = broker.replication.now_ms()
            session.fetched(broker.replication.now_ms())
            assert fetched(broker, require_stable=True) == 5

    run_virtually(story())


def test_clients_wait_no_longer_than_the_timeout_but_the_record_counts(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path, **{"offsets.commit.timeout.ms": "50"}) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            for offset in (5, 6):
                with pytest.raises(KafkaError) as refused:
                    await later(commit(broker, offset))
                assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            with pytest.raises(KafkaError) as refused:
                await later(fetched(broker, require_stable=True))
            assert refused.value.code is ErrorCode.NOT_COORDINATOR
            assert fetched(broker) == -1
            partition.commit()
            assert fetched(broker) == 6
            third = later(commit(broker, 7))
            partition.commit()
            assert isinstance(await third, OffsetCommitResponse)

    run_virtually(story())


def test_an_assignment_is_given_when_followers_have_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            joined = await one_member(broker, partition)
            answered = later(commit(broker, 3, member=joined))
            partition.commit()
            response = await answered
            assert isinstance(response, OffsetCommitResponse)
            assert response.topics[0].partitions[0].error_code == OK

    run_virtually(story())


def test_who_joins_while_an_assignment_is_on_the_way_waits_in_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            named = later(join(broker))
            partition.commit()
            response = await named
            assert isinstance(response, JoinGroupResponse)
            joined = await now(join(broker, response.member_id))
            assert isinstance(joined, JoinGroupResponse)
            synced = later(sync(broker, joined))
            newcomer, leaver = later(join(broker)), later(leave(broker, joined.member_id))
            assert await settled(newcomer) is None
            assert broker.groups.describe_group("g", caller(5)).group_state == "CompletingRebalance"
            partition.commit()
            answer = await synced
            assert isinstance(answer, SyncGroupResponse)
            assert answer.assignment == b"all"
            second = await newcomer
            assert isinstance(second, JoinGroupResponse)
            assert second.error_code == ErrorCode.MEMBER_ID_REQUIRED
            await leaver
            assert broker.groups.describe_group("g", caller(5)).group_state == "PreparingRebalance"

    run_virtually(story())


def leave(broker: Broker, member_id: str) -> object:
    return broker.groups.leave_group(
        LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.MemberIdentity(member_id=member_id)])
    )


def test_members_go_on_at_the_next_coordinator(tmp_path: Path) -> None:
    """Members keep their generation without a rebalance if its assignment is committed."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            joined = await one_member(broker, partition)
            heartbeat = HeartbeatRequest(
                group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
            )
            assert broker.groups.heartbeat(heartbeat) is OK
            partition.lose(broker.groups)
            with pytest.raises(KafkaError) as refused:
                broker.groups.heartbeat(heartbeat)
            assert refused.value.code is ErrorCode.NOT_COORDINATOR
            partition.win(broker.groups)
            await loaded(broker)
            assert broker.groups.heartbeat(heartbeat) is OK
            assert broker.groups.describe_group("g", caller(5)).group_state == "Stable"

    run_virtually(story())


def test_a_static_member_that_comes_back_is_answered_whatever_becomes_of_the_coordinator(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            first = later(join(broker, instance="i"))
            assert await settled(first) is None
            partition.commit()
            joined = await first
            assert isinstance(joined, JoinGroupResponse)
            synced = later(sync(broker, joined))
            partition.commit()
            await synced
            again, and_again = later(join(broker, instance="i")), later(join(broker, instance="i"))
            assert await settled(again) is None
            partition.commit()
            response = await again
            assert isinstance(response, JoinGroupResponse)
            assert response.error_code == OK
            assert await settled(and_again) is None
            partition.lose(broker.groups)
            lost = await and_again
            assert isinstance(lost, JoinGroupResponse)
            assert lost.error_code == ErrorCode.NOT_COORDINATOR

    run_virtually(story())


def test_a_group_is_deleted_behind_the_commits_that_came_before(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            committed, deletion = later(commit(broker, 5)), None
            partition.commit()
            await committed
            committed = later(commit(broker, 6))
            deletion = later(broker.groups.delete_group("g"))
            assert await settled(deletion) is None
            partition.commit()
            assert await settled(deletion) is None  # its own records are being replicated now
            late = later(commit(broker, 7))
            partition.commit()
            assert await deletion is OK
            assert fetched(broker) == -1
            partition.commit()
            assert isinstance(await settled(late), OffsetCommitResponse)
            assert fetched(broker) == 7

    run_virtually(story())


def test_offsets_of_a_deleted_topic_go_with_the_commits_that_were_on_the_way(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partition = partition_of(broker)
            topic = broker.image.topics.by_name["t1"]
            waiting = later(commit(broker, 5))
            broker.groups.on_image_change(MetadataDelta(deleted_topics=[topic]))
            partition.commit()
            await waiting
            assert fetched(broker) == 5
            for _ in range(5):
                await asyncio.sleep(0)
            partition.commit()
            assert fetched(broker) == -1

    run_virtually(story())


def test_a_log_that_was_opened_anew_is_loaded_anew(tmp_path: Path) -> None:
    """Its directory had failed; the coordinator of the old log could never write again."""

    async def story() -> None:
        async with running_node(tmp_path) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            assert isinstance(await now(commit(broker, 5)), OffsetCommitResponse)
            partition = broker.groups.partition_of("g")
            broker.replicas.take_offline([TopicPartition(GROUP_METADATA_TOPIC, partition)])
            with pytest.raises(KafkaError) as refused:
                await now(commit(broker, 6))
            assert refused.value.code is ErrorCode.NOT_COORDINATOR
            delta = broker.replicas.unopened()
            await broker.replicas.apply(delta)
            broker.groups.on_image_change(delta)
            await loaded(broker)
            assert fetched(broker) == 5
            assert isinstance(await now(commit(broker, 7)), OffsetCommitResponse)
            assert fetched(broker) == 7

    run_virtually(story())


@pytest.mark.parametrize("seed", range(8))
def test_random_elections_lose_nothing_that_was_answered(tmp_path: Path, seed: int) -> None:
    """Clients commit growing offsets while followers lag and take over: no acknowledged commit is lost."""
    rng = random.Random(seed)
    groups = [f"g{number}" for number in range(5)]
    answered = dict.fromkeys(groups, -1)
    counts = {"answered": 0, "refused": 0}

    async def client(broker: Broker, group_id: str) -> None:
        offset = 0
        while True:
            offset += 1
            try:
                response = await now(commit(broker, offset, group_id))
            except KafkaError as error:
                if error.code not in AWAY:
                    raise
                counts["refused"] += 1
            else:
                assert isinstance(response, OffsetCommitResponse)
                assert response.topics[0].partitions[0].error_code == OK
                answered[group_id] = offset
                counts["answered"] += 1
            await asyncio.sleep(rng.random() * 0.002)

    def check(broker: Broker) -> None:
        for group_id in groups:
            try:
                offset = fetched(broker, group_id)
            except KafkaError:
                continue
            assert isinstance(offset, int)
            assert offset >= answered[group_id], f"seed {seed}: {group_id} went back"

    async def story() -> None:
        async with running_node(tmp_path, **{"offsets.commit.timeout.ms": "20"}) as broker:
            await broker.groups.ensure_topic()
            await create(broker, "t1")
            partitions = follow_all(broker, broker.groups)
            clients = [asyncio.create_task(client(broker, group_id)) for group_id in groups]
            for _ in range(120):
                each = rng.choice(partitions)
                if rng.random() < 0.06:
                    each.lose(broker.groups)
                    if rng.random() < 0.7:
                        await asyncio.sleep(rng.random() * 0.002)
                    end = each.replica.log.log_end_offset
                    each.win(broker.groups, rng.randint(each.replica.high_watermark, end))
                elif rng.random() < 0.8:
                    each.commit(each.replica.high_watermark + rng.randint(0, each.uncommitted))
                check(broker)
                await asyncio.sleep(rng.random() * 0.004)
            for task in clients:
                assert not task.done(), task
                task.cancel()
            commit_all(partitions)
            for group_id in groups:
                await loaded(broker, group_id)
            check(broker)
        assert counts["answered"] > 20, counts
        assert counts["refused"] > 5, counts

    run_virtually(story())
