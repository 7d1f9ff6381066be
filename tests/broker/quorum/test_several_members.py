"""Several members on real logs: elections, replication, snapshots, voter changes and restarts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from several_members import CLUSTER_ID, LISTENER, Members, record

from penstock.broker.network.context import RequestContext
from penstock.broker.quorum.delivery import READ_HERE_RECORDS
from penstock.broker.quorum.listener import CommittedBatch
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from penstock.protocol.uuids import uuid_from_text
from penstock.security.permissions import UNRESTRICTED
from penstock.storage.directories import meta_properties
from penstock.storage.errors import StorageFailed
from virtual_time import run_virtually
from waiting import until

CONTEXT = RequestContext(2, "test", "127.0.0.1", "User:ANONYMOUS", LISTENER, UNRESTRICTED)


@asynccontextmanager
async def quorum(
    root: Path, voters: int, observers: int = 0, *, dynamic: bool = True, **properties: str
) -> AsyncIterator[Members]:
    members = Members(root, voters + observers, dynamic=dynamic, **properties)
    members.format(range(1, voters + 1))
    try:
        for node_id in members.ids:
            await members.start(node_id)
        yield members
    finally:
        await members.close()


@pytest.mark.parametrize("dynamic", [True, False])
def test_all_members_hear_the_same(tmp_path: Path, dynamic: bool) -> None:
    async def story() -> None:
        async with quorum(tmp_path, 3, dynamic=dynamic) as members:
            await members.commit("a,b", "c")
            heard = [
                [line for line in m.follower.heard if "leader" not in line] for m in members.running.values()
            ]
            assert heard[0] == heard[1] == heard[2]
            leader = await members.elected()
            assert all(m.quorum.leader_id == leader.node_id for m in members.running.values())
            follower = next(m for m in members.running.values() if m is not leader)
            with pytest.raises(KafkaError, match="not the active controller"):
                follower.quorum.append([record("x")], 30)

    run_virtually(story())


def test_another_leads_when_the_leader_is_cut_off(tmp_path: Path) -> None:
    async def story() -> None:
        async with quorum(tmp_path, 3) as members:
            await members.commit("a")
            old = await members.elected()
            members.cut.add(old.node_id)
            old.quorum.append([record("lost")], 30)
            new = await members.elected(other_than=old.node_id)
            assert new.quorum.epoch > 1
            new.quorum.append([record("kept")], 30)
            await until(lambda: not old.quorum.is_leader)
            members.cut.clear()
            await until(lambda: old.quorum.leader_id == new.node_id)
            await members.commit("b")
            for member in members.running.values():
                assert member.follower.names == ["a", "kept", "b"]

    run_virtually(story())


def test_a_leader_with_a_full_disk_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: object) -> None:
        raise StorageFailed("no space left on device")

    async def story() -> None:
        async with quorum(tmp_path, 3) as members:
            await members.commit("a")
            full = await members.elected()
            with monkeypatch.context() as patch:
                patch.setattr(full.quorum._log.log, "append", is_full)
                with pytest.raises(KafkaError, match=r"has resigned: .*no space left") as refused:
                    full.quorum.append([record("refused")], 30)
                assert refused.value.code is ErrorCode.NOT_CONTROLLER
                other = await members.elected(other_than=full.node_id)
                other.quorum.append([record("b")], 30)
                await until(lambda: other.follower.names == ["a", "b"])
                assert full.follower.names == ["a"]
                assert not full.died.done()
            await until(lambda: full.follower.names == ["a", "b"])

    run_virtually(story())


def test_a_log_that_was_cut_is_flushed_anew(tmp_path: Path) -> None:
    """Truncation may remove what a former leader flushed, so as leader again it counts from the beginning."""

    async def story() -> None:
        async with quorum(tmp_path, 3) as members:
            first = await members.elected()
            members.cut.add(first.node_id)
            for i in range(20):
                first.quorum.append([record(f"lost{i}")], 30)
            await asyncio.sleep(0.1)  # it flushes them meanwhile
            await members.elected(other_than=first.node_id)
            members.cut.clear()
            await members.commit("kept")
            while (leader := await members.elected()) is not first:
                leader.quorum.resign(leader.quorum.epoch, "another's turn")
                await until(lambda: members.leader is not leader)
            await members.stop(next(i for i in members.ids if i != first.node_id))
            await members.commit("again")
            assert first.follower.names == ["kept", "again"]
            assert await members.elected() is first

    run_virtually(story())


def test_a_leader_that_stops_hands_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with quorum(tmp_path, 3) as members:
            await members.commit("a")
            old = await members.elected()
            began_s = old.loop.time()
            await members.stop(old.node_id)
            await members.elected()
            assert old.loop.time() - began_s < 0.3, "sooner than the others miss the leader"
            await members.commit("b")
            back = await members.start(old.node_id)
            await until(lambda: back.follower.names == ["a", "b"])

    run_virtually(story())


def test_all_restart_from_their_logs(tmp_path: Path) -> None:
    async def story() -> None:
        async with quorum(tmp_path, 3) as members:
            await members.commit("a", "b")
            epoch = (await members.elected()).quorum.epoch
            await members.close()
            for node_id in members.ids:
                await members.start(node_id)
            await members.commit("c")
            assert (await members.elected()).quorum.epoch > epoch
            for member in members.running.values():
                assert member.follower.names == ["a", "b", "c"]

    run_virtually(story())


def test_who_is_far_behind_gets_a_snapshot(tmp_path: Path) -> None:
    small = {
        "metadata_log_max_record_bytes_between_snapshots": "2000",
        "internal_metadata_log_segment_bytes": "4000",
        "metadata_max_retention_bytes": "1",
        "controller_quorum_fetch_snapshot_max_bytes": "300",
    }

    async def story() -> None:
        async with quorum(tmp_path, 3, 1, **small) as members:
            await members.commit("first")
            await members.stop(4)
            for i in range(60):
                await members.commit(f"n{i}")
            late = await members.start(4)
            await members.commit("last")
            assert late.follower.names == ["first", *(f"n{i}" for i in range(60)), "last"]
            assert any(line.startswith("snapshot") for line in late.follower.heard)

    run_virtually(story())


def test_a_member_whose_disk_fails_ends_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with quorum(tmp_path, 3) as members:
            await members.commit("a")
            broken = await members.elected()

            def fails() -> int:
                raise StorageFailed("input/output error")

            monkeypatch.setattr(broken.quorum._log, "flush", fails)
            broken.quorum.append([record("lost")], 30)
            assert "input/output error" in await broken.died
            members.running.pop(broken.node_id)
            await members.elected(other_than=broken.node_id)
            await members.commit("b")
            for member in members.running.values():
                assert [name for name in member.follower.names if name != "lost"] == ["a", "b"]
            monkeypatch.undo()
            await broken.quorum.close()

    run_virtually(story())


def test_a_member_that_cannot_read_what_is_committed_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would otherwise continue with outdated metadata unnoticed."""

    async def story() -> None:
        async with quorum(tmp_path, 3) as members:
            await members.commit("a")
            leader = await members.elected()
            broken = next(m for m in members.running.values() if m is not leader)

            def fails(_offset: int, _up_to_offset: int) -> list[CommittedBatch]:
                raise StorageFailed("input/output error")

            monkeypatch.setattr(broken.quorum._log, "read_batches", fails)
            members.cut.add(broken.node_id)
            many = [record(f"n{i}") for i in range(READ_HERE_RECORDS + 1)]
            end_offset = leader.quorum.append(many, 30)
            await until(lambda: leader.quorum.high_watermark >= end_offset)
            members.cut.clear()
            assert "cannot be read: KAFKA_STORAGE_ERROR: input/output error" in await broken.died
            members.running.pop(broken.node_id)
            monkeypatch.undo()
            await broken.quorum.close()

    run_virtually(story())


def test_a_follower_with_a_full_disk_catches_up_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[object] = []

    def is_full(*_: object) -> None:
        refusals.append(None)
        raise StorageFailed("no space left on device")

    async def story() -> None:
        async with quorum(tmp_path, 3) as members:
            await members.commit("a")
            leader = await members.elected()
            full = next(m for m in members.running.values() if m is not leader)
            with monkeypatch.context() as patch:
                patch.setattr(full.quorum._log.log, "append", is_full)
                leader.quorum.append([record("b")], 30)
                await until(lambda: leader.follower.names == ["a", "b"])
                await until(lambda: refusals)
                assert full.follower.names == ["a"]
            await until(lambda: full.follower.names == ["a", "b"])
            assert not full.died.done()

    run_virtually(story())


def key_of(members: Members, node_id: int) -> bytes:
    properties = meta_properties.read(members.root / str(node_id))
    assert properties is not None
    return uuid_from_text(properties.directory_id)


async def add(members: Members, node_id: int) -> int:
    """Request the addition of a voter, and retry until the leader knows that it has caught up."""
    for _ in range(100):
        error_code = await add_once(members, node_id)
        if error_code != ErrorCode.REQUEST_TIMED_OUT:
            break
        await asyncio.sleep(0.01)
    return error_code


async def add_once(members: Members, node_id: int) -> int:
    leader = await members.elected()
    response = await leader.quorum.handle(
        AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            voter_id=node_id,
            voter_directory_id=key_of(members, node_id),
            listeners=[AddRaftVoterRequest.Listener(name=LISTENER, host="127.0.0.1", port=node_id)],
        ),
        CONTEXT._replace(api_version=1),
    )
    assert isinstance(response, AddRaftVoterResponse)
    return response.error_code


def test_voters_are_added_and_removed(tmp_path: Path) -> None:
    async def story() -> None:
        async with quorum(tmp_path, 1, 2) as members:
            await members.commit("a")
            assert await add(members, 2) == ErrorCode.NONE
            assert await add(members, 2) == ErrorCode.DUPLICATE_VOTER
            assert await add(members, 3) == ErrorCode.NONE
            await members.commit("b")
            assert members.running[3].quorum.voter_ids == {1, 2, 3}
            await members.stop(1)
            await members.commit("c")
            leader = await members.elected()
            removed = await leader.quorum.handle(
                RemoveRaftVoterRequest(
                    cluster_id=CLUSTER_ID, voter_id=1, voter_directory_id=key_of(members, 1)
                ),
                CONTEXT._replace(api_version=0),
            )
            assert isinstance(removed, RemoveRaftVoterResponse)
            assert removed.error_code == ErrorCode.NONE
            assert leader.quorum.voter_ids == {2, 3}

    run_virtually(story())


def test_observers_join_by_themselves_if_they_may(tmp_path: Path) -> None:
    async def story() -> None:
        async with quorum(tmp_path, 1, 2, controller_quorum_auto_join_enable="true") as members:
            await until(lambda: all(m.quorum.voter_ids == {1, 2, 3} for m in members.running.values()))
            await members.commit("a")

    run_virtually(story())


def test_configured_voters_move_into_the_log(tmp_path: Path) -> None:
    """The log has kraft.version 1 once every voter has reported its directory to the leader."""

    async def story() -> None:
        async with quorum(tmp_path, 3, dynamic=False) as members:
            await members.commit("a")
            leader = await members.elected()
            with pytest.raises(KafkaError, match=r"kraft\.version 2"):
                leader.quorum.upgrade_kraft_version(2, validate_only=False)

            def is_possible() -> bool:
                try:
                    leader.quorum.upgrade_kraft_version(1, validate_only=True)
                except KafkaError:
                    return False
                return True

            assert not is_possible(), "the others have not told theirs yet"
            await until(is_possible)
            assert leader.quorum.kraft_version == 0
            leader.quorum.upgrade_kraft_version(1, validate_only=False)
            await members.commit("b")
            assert {m.quorum.kraft_version for m in members.running.values()} == {1}
            await members.close()
            for node_id in members.ids:
                await members.start(node_id)
            await members.commit("c")
            assert {m.quorum.kraft_version for m in members.running.values()} == {1}
            state = (members.root / "1" / "__cluster_metadata-0" / "quorum-state").read_text()
            assert '"data_version":1' in state

    run_virtually(story())


def test_the_quorum_is_described(tmp_path: Path) -> None:
    topic = DescribeQuorumRequest.TopicData(
        topic_name="__cluster_metadata",
        partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)],
    )

    async def story() -> None:
        async with quorum(tmp_path, 2, 1) as members:
            await members.commit("a")
            leader = await members.elected()
            await until(lambda: leader.quorum.high_watermark == leader.quorum.log_end_offset)
            described = await leader.quorum.handle(DescribeQuorumRequest(topics=[topic]), CONTEXT)
            assert isinstance(described, DescribeQuorumResponse)
            (partition,) = described.topics[0].partitions
            assert partition.leader_id == leader.node_id
            assert {replica.replica_id for replica in partition.current_voters} == {1, 2}
            assert [replica.replica_id for replica in partition.observers] == [3]
            assert partition.high_watermark == leader.quorum.log_end_offset
            assert {node.node_id: node.listeners[0].port for node in described.nodes} == {1: 1, 2: 2}
            other = members.running[3 - leader.node_id]
            refused = await other.quorum.handle(DescribeQuorumRequest(topics=[topic]), CONTEXT)
            assert isinstance(refused, DescribeQuorumResponse)
            assert refused.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_virtually(story())
