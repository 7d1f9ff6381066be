"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeLogDirs."""

import pytest

from broker_wire import Wire, batch_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
T0_MS = 1_700_000_000_000

Offset = ListOffsetsResponse.ListOffsetsPartitionResponse


def list_offset(wire: Wire, topic: str, timestamp: int, version: int = 11, epoch: int = -1) -> Offset:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(
                        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch
                    )
                ],
            )
        ],
    )
    return wire.ask(request, ListOffsetsResponse, version).topics[0].partitions[0]


def delete_records(wire: Wire, topic: str, offset: int) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(
                name=topic,
                partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)],
            )
        ],
        timeout_ms=10_000,
    )
    return wire.ask(request, DeleteRecordsResponse).topics[0].partitions[0]


@pytest.fixture
def timed(wire: Wire, topic: str) -> str:
    """A topic with records at offsets 0 to 4, ten seconds apart but for the last, which is earlier."""
    kept = f"{topic}-timed"
    wire.create_topic(kept, retention_ms="-1")
    for seconds in (0, 10, 20, 30, 25):
        wire.produce(kept, batch_of(b"x", timestamp=T0_MS + seconds * 1000))
    return kept


@pytest.mark.parametrize("version", range(1, 12))
def test_ends_at_every_version(wire: Wire, timed: str, version: int) -> None:
    assert list_offset(wire, timed, LATEST, version).offset == 5
    assert list_offset(wire, timed, EARLIEST, version).offset == 0


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (0, T0_MS)),
        (T0_MS, (0, T0_MS)),
        (T0_MS + 1, (1, T0_MS + 10_000)),
        (T0_MS + 25_000, (3, T0_MS + 30_000)),
        (T0_MS + 30_000, (3, T0_MS + 30_000)),
        (T0_MS + 30_001, (-1, -1)),
    ],
)
def test_by_timestamp(wire: Wire, timed: str, timestamp: int, expected: tuple[int, int]) -> None:
    found = list_offset(wire, timed, timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, *expected)


def test_the_other_places(wire: Wire, timed: str) -> None:
    found = list_offset(wire, timed, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (3, T0_MS + 30_000)
    assert list_offset(wire, timed, EARLIEST_LOCAL).offset == 0
    assert list_offset(wire, timed, LATEST_TIERED).offset == -1
    assert list_offset(wire, timed, PENDING_UPLOAD).offset == -1
    assert list_offset(wire, timed, -7).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list_offset(wire, timed, MAX_TIMESTAMP, version=6).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_log(wire: Wire, topic: str) -> None:
    assert list_offset(wire, topic, LATEST).offset == 0
    assert list_offset(wire, topic, EARLIEST).offset == 0
    assert list_offset(wire, topic, MAX_TIMESTAMP).offset == -1
    assert list_offset(wire, topic, 0).offset == -1


def test_offsets_of_the_unknown(wire: Wire, topic: str) -> None:
    assert list_offset(wire, "nowhere", LATEST).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offset(wire, topic, LATEST, epoch=99).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_delete_records(wire: Wire, timed: str) -> None:
    answer = delete_records(wire, timed, 2)
    assert (answer.error_code, answer.low_watermark) == (0, 2)
    assert list_offset(wire, timed, EARLIEST).offset == 2
    assert wire.fetch(timed, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(wire.values(timed, 2)) == 3
    assert delete_records(wire, timed, 1).low_watermark == 2, "the start never goes back"
    assert delete_records(wire, timed, 6).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(wire, timed, -1).low_watermark == 5
    assert wire.values(timed, 5) == []


def test_records_of_a_compacted_topic_are_not_deleted(wire: Wire) -> None:
    wire.create_topic("only-compacted", cleanup_policy="compact")
    assert delete_records(wire, "only-compacted", 0).error_code == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("version", [2, 3, 4])
def test_offset_for_leader_epoch(wire: Wire, timed: str, version: int) -> None:
    def ask(epoch: int, current: int = -1) -> OffsetForLeaderEpochResponse.EpochEndOffset:
        wanted = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=current, leader_epoch=epoch
        )
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=timed, partitions=[wanted])
        request = OffsetForLeaderEpochRequest(topics=[topic])
        return wire.ask(request, OffsetForLeaderEpochResponse, version).topics[0].partitions[0]

    found = ask(0)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 5)
    assert ask(7).end_offset == -1
    assert ask(0, current=9).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs(wire: Wire, timed: str, version: int) -> None:
    topic = DescribeLogDirsRequest.DescribableLogDirTopic(topic=timed, partitions=[0, 9])
    response = wire.ask(DescribeLogDirsRequest(topics=[topic]), DescribeLogDirsResponse, version)
    (directory,) = response.results
    assert directory.error_code == 0
    (described,) = directory.topics
    assert [(p.partition_index, p.offset_lag) for p in described.partitions] == [(0, 0)]
    assert described.partitions[0].partition_size > 5 * 61
    if version >= 4:
        assert directory.total_bytes > directory.usable_bytes > 0
    everything = wire.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version)
    assert timed in [topic.name for topic in everything.results[0].topics]
