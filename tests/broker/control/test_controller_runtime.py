"""The controller at work on a real node in this process: commits, restarts, snapshots, a failing disk."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from penstock.broker import node
from penstock.broker.control.metadata_follower import MetadataFollower
from penstock.broker.node import Broker, CannotStart
from penstock.broker.partitions.replica_manager import DELETES_PER_TURN
from penstock.broker.quorum.metadata_log import MetadataLog
from penstock.consensus.log import BOOTSTRAP_SNAPSHOT
from penstock.consensus.quorum_state import ElectionState
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.producer_ids import allocate_producer_ids
from penstock.metadata.controller.state import Decision
from penstock.metadata.controller.topics import create_topics, delete_topics
from penstock.metadata.image import MetadataDelta, MetadataImage, ResourceType
from penstock.metadata.snapshot import QuorumRecords, decode_snapshot, encode_snapshot, file_name
from penstock.protocol.batch import parse_header
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    AllocateProducerIdsRequest,
    ConfigRecord,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    VotersRecord,
)
from penstock.storage.config import LogConfig
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.errors import StorageFailed
from penstock.storage.partition.log import Log
from waiting import until

METADATA = "__cluster_metadata-0"


def config(directory: Path, **properties: str) -> BrokerConfig:
    return BrokerConfig.single_node(
        {
            "log.dirs": str(directory),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
    )


@asynccontextmanager
async def running(directory: Path, **properties: str) -> AsyncIterator[Broker]:
    broker = Broker(config(directory, **properties))
    try:
        await broker.start()
        yield broker
    finally:
        await broker.stop()


async def create(broker: Broker, *names: str) -> CreateTopicsResponse:
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in names
        ]
    )
    return await broker.controller.submit_and_follow(partial(create_topics, request=request))


async def delete(broker: Broker, *names: str) -> None:
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    await broker.controller.submit_and_follow(
        partial(delete_topics, request=DeleteTopicsRequest(topics=topics))
    )


def recovered(directory: Path) -> MetadataImage:
    """The metadata image recovered from a stopped node's directory."""
    log = MetadataLog(directory, config(directory), lambda: 0)
    log.open()
    loop = asyncio.new_event_loop()
    follower = MetadataFollower(loop)
    offset = 0
    if log.latest_snapshot is not None and log.latest_snapshot != BOOTSTRAP_SNAPSHOT:
        follower.handle_snapshot(log.latest_snapshot, log.read_snapshot(log.latest_snapshot))
        offset = log.latest_snapshot.end_offset
    while offset < log.end_offset:
        batches = log.read_batches(offset, log.end_offset)
        follower.handle_commit(batches)
        offset = batches[-1].last_offset + 1
    log.close()
    loop.close()
    return follower.image


def test_a_new_directory_is_formatted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            assert broker.image.features == {
                "metadata.version": 30,
                "transaction.version": 2,
                "eligible.leader.replicas.version": 1,
            }
            (registration,) = broker.image.cluster.unfenced_brokers()
            assert registration.epoch == broker.lifecycle.epoch == 5
            assert registration.endpoints[0].port != 0

    asyncio.run(scenario())
    bootstrap = decode_snapshot((tmp_path / "bootstrap.checkpoint").read_bytes())
    assert {type(record).__name__ for record in bootstrap.records} == {"FeatureLevelRecord"}
    assert '"leaderEpoch":1' in (tmp_path / METADATA / "quorum-state").read_text()
    assert recovered(tmp_path).brokers[1].fenced


def test_every_start_is_an_epoch_and_nothing_is_forgotten(tmp_path: Path) -> None:
    epochs = []

    async def scenario(*topics: str) -> None:
        async with running(tmp_path) as broker:
            if topics:
                await create(broker, *topics)
            epochs.append((broker.image.epoch, broker.lifecycle.epoch))

    asyncio.run(scenario("a", "b"))
    asyncio.run(scenario())
    asyncio.run(scenario("c"))
    assert [epoch for epoch, _ in epochs] == [1, 2, 3]
    assert epochs == sorted(epochs)
    image = recovered(tmp_path)
    assert sorted(image.topics.by_name) == ["a", "b", "c"]
    partition = image.topics.partition("a", 0)
    assert partition is not None
    assert partition.leader_epoch == 5, "one for each stop and one for each restart"


def test_listeners_hear_of_a_commit_before_its_caller(tmp_path: Path) -> None:
    heard: list[list[str]] = []

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            broker.metadata.on_image_change(
                lambda delta: heard.append([topic.name for topic in delta.created_topics])
            )
            await create(broker, "a")
            assert heard == [["a"]]
            assert broker.replicas.get("a", 0) is not None

    asyncio.run(scenario())


def test_the_first_call_of_a_listener_brings_all_there_is(tmp_path: Path) -> None:
    async def first() -> None:
        async with running(tmp_path) as broker:
            await create(broker, "a", "b")

    async def second() -> None:
        deltas: list[MetadataDelta] = []
        broker = Broker(config(tmp_path))
        broker.metadata.on_image_change(deltas.append)
        try:
            await broker.start()
            delta = deltas[0]
            assert [topic.name for topic in delta.created_topics] == ["a", "b"]
            assert len(delta.changed_partitions) == 2
        finally:
            await broker.stop()

    asyncio.run(first())
    asyncio.run(second())


def test_decisions_that_gather_share_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            flushes = count_calls(monkeypatch, MetadataLog, "flush")
            await asyncio.gather(*(create(broker, f"t{i}") for i in range(50)))
            assert len(broker.image.topics) == 50
            assert flushes() <= 3

    asyncio.run(scenario())


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: type[MetadataLog], name: str) -> Callable[[], int]:
    original, calls = getattr(owner, name), []

    def counted(self: MetadataLog) -> int:
        calls.append(1)
        return int(original(self))

    monkeypatch.setattr(owner, name, counted)
    return lambda: len(calls)


def test_a_decision_sees_those_that_are_not_committed_yet(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            first, second = await asyncio.gather(create(broker, "a"), create(broker, "a"))
            assert first.topics[0].error_code == 0
            assert second.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=broker.lifecycle.epoch)
            allocate = partial(allocate_producer_ids, request=request)
            blocks = await asyncio.gather(*(broker.controller.submit(allocate) for _ in range(3)))
            assert [block.producer_id_start for block in blocks] == [0, 1000, 2000]

    asyncio.run(scenario())


def test_a_failing_disk_stops_decisions_not_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_log: MetadataLog) -> int:
        raise StorageFailed("no space left on device")

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await create(broker, "before")
            with monkeypatch.context() as patch:
                patch.setattr(MetadataLog, "flush", fails)
                with pytest.raises(KafkaError, match="no space left on device"):
                    await create(broker, "after")
            assert list(broker.image.topics.by_name) == ["before"]
            with pytest.raises(KafkaError, match="the metadata log cannot be written"):
                await create(broker, "later")

    asyncio.run(scenario())


def test_who_follows_no_metadata_closes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_log: MetadataLog) -> int:
        raise StorageFailed("no space left on device")

    async def scenario(*, disk_fails: bool) -> str:
        caplog.clear()
        async with running(tmp_path) as broker:
            await create(broker, f"topic-{disk_fails}")
            if disk_fails:
                monkeypatch.setattr(MetadataLog, "flush", fails)
                with pytest.raises(KafkaError, match="no space left on device"):
                    await create(broker, "after")
        return caplog.text

    caplog.set_level("INFO")
    assert "controlled shutdown begins" in asyncio.run(scenario(disk_fails=False))
    assert "controlled shutdown begins" not in asyncio.run(scenario(disk_fails=True))


@pytest.mark.parametrize("error", [OSError("no space left on device"), RuntimeError("unforeseen")])
def test_a_log_that_cannot_be_opened_is_opened_later(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for any error; the other logs of the same change are opened."""
    create_log = LogManager.create

    def fails(
        logs: LogManager, topic: str, topic_id: bytes, partition: int, *rest: LogConfig, is_new: bool
    ) -> Log:
        if topic == "bad":
            raise error
        return create_log(logs, topic, topic_id, partition, *rest, is_new=is_new)

    async def scenario() -> None:
        monkeypatch.setattr(node, "REOPEN_INTERVAL_S", 0.0)
        monkeypatch.setattr(node, "TICK_S", 0.01)
        async with running(tmp_path) as broker:
            with monkeypatch.context() as patch:
                patch.setattr(LogManager, "create", fails)
                await create(broker, "bad", "good")
                with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
                    broker.replicas.leader("bad", 0)
                assert broker.replicas.leader("good", 0).log.log_end_offset == 0
            await until(lambda: not broker.replicas.failed)
            assert broker.replicas.leader("bad", 0).log.log_end_offset == 0

    asyncio.run(scenario())


def test_others_have_their_turn_while_many_topics_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = 0
    deleted_in: Counter[int] = Counter()
    delete_log = LogManager.delete

    def delete_here(manager: LogManager, topic: str, partition: int) -> None:
        deleted_in[turn] += 1
        delete_log(manager, topic, partition)

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        monkeypatch.setattr(LogManager, "delete", delete_here)
        async with running(tmp_path) as broker:
            names = [f"t{i}" for i in range(3 * DELETES_PER_TURN)]
            await create(broker, *names)
            task = asyncio.create_task(others())
            await delete(broker, *names)
            task.cancel()

    asyncio.run(scenario())
    assert deleted_in.total() == 3 * DELETES_PER_TURN
    assert max(deleted_in.values()) <= DELETES_PER_TURN


def test_a_decision_is_one_batch(tmp_path: Path) -> None:
    """A crash then leaves all of the decision or nothing."""

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            before = broker.image.offset
            records = [
                ConfigRecord(
                    resource_type=ResourceType.CLIENT_METRICS, resource_name=str(i), name="metrics", value=""
                )
                for i in range(10_001)
            ]
            await broker.controller.submit(lambda _: Decision(records, None))
            log = broker.quorum._log.log
            found = log.read(before + 1, 1 << 30)
            assert found is not None
            assert parse_header(found.read()).count == 10_001

    asyncio.run(scenario())


def test_a_snapshot_replaces_the_log_before_it(tmp_path: Path) -> None:
    small = {
        "metadata_log_max_record_bytes_between_snapshots": "2000",
        "internal_metadata_log_segment_bytes": "4000",
        "metadata_max_retention_bytes": "1",
        "internal_metadata_delete_delay_millis": "0",
    }

    async def scenario() -> None:
        async with running(tmp_path, **small) as broker:
            for i in range(40):
                await create(broker, f"t{i}")
            await delete(broker, "t7")

    asyncio.run(scenario())
    snapshots = sorted(path.name for path in (tmp_path / METADATA).glob("*.checkpoint"))
    assert 1 <= len(snapshots) <= 2
    assert not list((tmp_path / METADATA).glob(f"{0:020d}.log*")), "renamed, then removed by a later snapshot"
    image = recovered(tmp_path)
    assert len(image.topics) == 39
    assert "t7" not in image.topics.by_name
    asyncio.run(scenario_restart(tmp_path))


async def scenario_restart(directory: Path) -> None:
    async with running(directory) as broker:
        assert len(broker.image.topics) == 39
        assert (await create(broker, "t7")).topics[0].error_code == 0


def test_a_snapshot_without_its_log_is_enough(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, metadata_log_max_record_bytes_between_snapshots="500") as broker:
            for i in range(10):
                await create(broker, f"t{i}")

    asyncio.run(scenario())
    before = recovered(tmp_path)
    for path in (tmp_path / METADATA).iterdir():
        if path.suffix in (".log", ".index", ".timeindex") or path.name == "leader-epoch-checkpoint":
            path.unlink()
    after = recovered(tmp_path)
    assert set(after.topics.by_name) <= set(before.topics.by_name)
    assert len(after.topics) >= 8
    assert after.offset > 0


@pytest.mark.parametrize("damaged", ["quorum-state", "bootstrap.checkpoint", "snapshot"])
def test_damaged_files_are_named(tmp_path: Path, damaged: str) -> None:
    async def scenario() -> None:
        async with running(tmp_path):
            pass

    if damaged != "bootstrap.checkpoint":
        asyncio.run(scenario())
    path = {
        "quorum-state": tmp_path / METADATA / "quorum-state",
        "bootstrap.checkpoint": tmp_path / "bootstrap.checkpoint",
        "snapshot": tmp_path / METADATA / f"{3:020d}-{1:010d}.checkpoint",
    }[damaged]
    path.write_bytes(b"not what it should be")
    with pytest.raises(CannotStart, match=path.name):
        asyncio.run(scenario())


@pytest.mark.parametrize("kept_in", ["quorum-state", "log"])
def test_a_voter_among_others_does_not_go_alone(tmp_path: Path, kept_in: str) -> None:
    """The file defines a fixed quorum; the log, here the snapshot from formatting, a dynamic one."""
    (tmp_path / METADATA).mkdir()
    if kept_in == "quorum-state":
        election = ElectionState(epoch=3, leader_id=2, voters=(1, 2, 3))
        (tmp_path / METADATA / "quorum-state").write_text(election.to_json(0))
    else:
        voters = [VotersRecord.Voter(voter_id=node_id) for node_id in (1, 2, 3)]
        quorum = QuorumRecords(kraft_version=1, voters=VotersRecord(version=0, voters=voters))
        snapshot = encode_snapshot(
            [], epoch=0, metadata_version=30, last_timestamp_ms=0, now_ms=0, quorum=quorum
        )
        (tmp_path / METADATA / file_name(0, 0)).write_bytes(b"".join(snapshot))

    async def scenario() -> None:
        async with running(tmp_path):
            pass

    with pytest.raises(CannotStart, match=r"quorum of the nodes \[1, 2, 3\]"):
        asyncio.run(scenario())
