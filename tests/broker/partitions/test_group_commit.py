"""penstock.acks.fsync: a write is acknowledged only after a sync that began after the write."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_wire import Wire, batch_of, produce_request
from penstock.broker.network.answers import Answer, CloseConnection
from penstock.broker.partitions.group_commit import GroupCommit
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.batch import check_batches
from penstock.protocol.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    ProduceResponse,
)
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import FileSystem
from penstock.storage.errors import StorageFailed
from penstock.storage.partition.log import Log
from penstock.testing import Cluster
from waiting import until, wait_until


class SlowDisk(FileSystem):
    """A disk whose data syncs wait until the test releases them."""

    def __init__(self) -> None:
        self.begun = 0
        self.syncs = 0
        self.gate = threading.Semaphore(0)
        self.fails = False

    def fdatasync(self, fd: int) -> None:  # type: ignore[override]
        self.begun += 1
        assert self.gate.acquire(timeout=60)
        self.syncs += 1
        if self.fails:
            raise OSError(5, "injected")


def open_log(path: Path, disk: SlowDisk) -> Log:
    return Log.open(
        path, "flights", 0, LogConfig(), clean=True, recovery_point=0, clock=lambda: 0, files=disk
    )


def append(log: Log, commit: GroupCommit) -> None:
    data = bytearray(batch_of(b"x"))
    log.append(data, check_batches(data), 0)
    commit.unsynced[log] = None


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0.002)


def test_those_who_come_during_a_round_share_the_next(tmp_path: Path) -> None:
    asyncio.run(share_rounds(tmp_path))


def test_a_repeated_request_does_not_overtake_its_first_try(tmp_path: Path) -> None:
    asyncio.run(repeat_a_request(tmp_path))


def test_a_failed_sync_is_no_acknowledgement(tmp_path: Path) -> None:
    asyncio.run(fail_a_sync(tmp_path))


async def share_rounds(tmp_path: Path) -> None:
    disk = SlowDisk()
    log = open_log(tmp_path / "flights-0", disk)
    commit = GroupCommit(asyncio.get_running_loop(), acks_fsync=True)
    answers: list[object] = []

    def produce(number: int) -> object:
        append(log, commit)
        answer = commit.acknowledging(ApiKey.PRODUCE, lambda *_: b"%d" % number)(None, None, None)  # type: ignore[arg-type]
        assert isinstance(answer, Answer)
        assert not answer.is_done, "nothing is answered yet"
        answer.when_done(lambda done: answers.append(done.error or done.value))
        return answer

    produce(1)
    produce(2)
    await until(lambda: disk.begun == 1)
    await settle()
    assert answers == []
    for number in (3, 4, 5):
        produce(number)
    disk.gate.release()
    await until(lambda: disk.begun == 2)
    assert answers == [b"1", b"2"], "the others were written after the round began"
    disk.gate.release()
    await until(lambda: len(answers) >= 5)
    assert answers == [b"1", b"2", b"3", b"4", b"5"]
    assert (disk.syncs, commit.rounds) == (2, 2)
    assert log.recovery_point == 5
    commit.close()


async def repeat_a_request(tmp_path: Path) -> None:
    disk = SlowDisk()
    log = open_log(tmp_path / "flights-0", disk)
    commit = GroupCommit(asyncio.get_running_loop(), acks_fsync=True)
    append(log, commit)
    first, again = commit.flush(log), asyncio.ensure_future(repeat(commit))
    await until(lambda: disk.begun == 1)
    await settle()
    assert not again.done()
    disk.gate.release(2)
    await asyncio.gather(first, again)
    commit.close()


async def repeat(commit: GroupCommit) -> object:
    await asyncio.sleep(0)

    async def duplicate() -> bytes:
        return b"as before"

    handle = commit.acknowledging(ApiKey.PRODUCE, lambda *_: Answer.working(duplicate()))
    answer = handle(None, None, None)  # type: ignore[arg-type]
    assert isinstance(answer, Answer)
    assert await answer == b"as before"
    return answer.value


async def fail_a_sync(tmp_path: Path) -> None:
    disk = SlowDisk()
    disk.fails = True
    disk.gate.release()
    log = open_log(tmp_path / "flights-0", disk)
    commit = GroupCommit(asyncio.get_running_loop(), acks_fsync=True)
    append(log, commit)
    told: list[object] = []
    answer = commit.acknowledging(ApiKey.PRODUCE, lambda *_: b"good")(None, None, None)  # type: ignore[arg-type]
    assert isinstance(answer, Answer)
    answer.when_done(lambda done: told.append(done.error))
    with pytest.raises(StorageFailed):
        await commit.flush(log)
    assert len(told) == 1
    assert isinstance(told[0], CloseConnection)
    assert log.failure is not None
    commit.close()


@pytest.fixture
def durable(start_node: Callable[..., Cluster]) -> Cluster:
    return start_node(penstock_acks_fsync="true")


def test_a_node_answers_all_and_in_order(durable: Cluster) -> None:
    with Wire(durable.bootstrap_servers) as wire:
        wire.create_topic("t", 2)
        for number in range(50):
            wire.send(produce_request("t", batch_of(b"%d" % number), number % 2), 12)
        offsets = [
            wire.receive(ProduceResponse).responses[0].partition_responses[0].base_offset for _ in range(50)
        ]
        assert offsets == [number // 2 for number in range(50)]
        wire.send(produce_request("t", batch_of(b"silent"), acks=0), 9, answered=False)
        assert wire.produce("t", batch_of(b"loud"), acks=1).base_offset == 26


def test_offset_commits_and_deleted_records_too(durable: Cluster) -> None:
    with Wire(durable.bootstrap_servers) as wire:
        wire.create_topic("t")
        wire.produce("t", batch_of(b"a", b"b", b"c"))
        wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), FindCoordinatorResponse)
        commit = OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=2
                        )
                    ],
                )
            ],
        )

        def committed() -> bool:
            answer = wire.ask(commit, OffsetCommitResponse, 8)
            return answer.topics[0].partitions[0].error_code == 0

        wait_until(committed)
        delete = DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(
                    name="t",
                    partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)],
                )
            ],
            timeout_ms=1000,
        )
        assert wire.ask(delete, DeleteRecordsResponse).topics[0].partitions[0].low_watermark == 2
        assert wire.values("t", 2) == [b"c"]
