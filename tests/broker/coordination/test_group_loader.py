"""Loading `__consumer_offsets` with records of older, current and future brokers."""

from collections.abc import Iterable
from pathlib import Path

from penstock.broker.coordination.groups.loader import load
from penstock.coordinators.group.config import GroupCoordinatorConfig
from penstock.coordinators.group.coordinator import GroupCoordinator
from penstock.protocol.messages import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OffsetFetchRequest,
)
from penstock.protocol.record_serde import encode_coordinator_key, encode_versioned
from penstock.protocol.records import Record, encode_batch, encode_end_txn_marker
from penstock.storage.config import LogConfig
from penstock.storage.partition.log import Log

PRODUCER = 7
GZIP, ZSTD = 1, 4


class Partition:
    """Writes batches to a segment file by hand, as another broker would have, and loads them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "__consumer_offsets-0"
        self.directory.mkdir()
        self.batches = b""
        self.end_offset = 0

    def write(self, *records: Record, compression: int = 0, producer_id: int = -1) -> None:
        self.batches += encode_batch(
            records,
            self.end_offset,
            compression,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            transactional=producer_id >= 0,
        )
        self.end_offset += len(records)

    def end_transaction(self, *, committed: bool) -> None:
        self.batches += encode_end_txn_marker(
            committed=committed,
            producer_id=PRODUCER,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=self.end_offset,
        )
        self.end_offset += 1

    def load(self) -> GroupCoordinator:
        (self.directory / f"{0:020}.log").write_bytes(self.batches)
        log = Log.open(
            self.directory,
            "__consumer_offsets",
            0,
            LogConfig(),
            clean=False,
            recovery_point=0,
            clock=lambda: 0,
        )
        coordinator = GroupCoordinator(GroupCoordinatorConfig(), lambda: "id")
        load(log, log.log_end_offset, coordinator, now_ms=0)
        log.close()
        return coordinator


def offset(partition: int, committed: int | None, version: int = 4) -> Record:
    key = encode_coordinator_key(OffsetCommitKey(group="g", topic="t", partition=partition))
    value = None
    if committed is not None:
        value = encode_versioned(
            OffsetCommitValue(offset=committed, metadata="", commit_timestamp=0), version
        )
    return Record(0, 0, key, value)


def offsets(coordinator: GroupCoordinator) -> dict[int, int]:
    request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
    group = coordinator.handle_offset_fetch(request)
    return {p.partition_index: p.committed_offset for topic in group.topics for p in topic.partitions}


def states(coordinator: GroupCoordinator) -> Iterable[tuple[str, str]]:
    return [(group.group_id, group.group_state) for group in coordinator.handle_list_groups()]


def test_the_newest_record_of_a_key_counts(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.write(*(offset(0, committed) for committed in range(500)), compression=GZIP)
    partition.write(offset(1, 5), offset(2, 6))
    partition.write(offset(1, None), offset(3, 1), offset(3, 2), compression=ZSTD)
    assert offsets(partition.load()) == {0: 499, 2: 6, 3: 2}


def test_every_version_of_an_offset_is_read(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.write(*(offset(version, 10 + version, version) for version in range(5)))
    legacy_key = encode_coordinator_key(LegacyOffsetCommitKey(group="g", topic="t", partition=9))
    legacy_value = encode_versioned(LegacyOffsetCommitValue(offset=99, metadata="", commit_timestamp=0), 0)
    partition.write(Record(0, 0, legacy_key, legacy_value))
    assert offsets(partition.load()) == {0: 10, 1: 11, 2: 12, 3: 13, 4: 14, 9: 99}


def test_every_version_of_a_group_is_read(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    for version in range(5):
        member = GroupMetadataValue.MemberMetadata(
            member_id="m",
            client_id="c",
            client_host="/h",
            session_timeout=9_000,
            subscription=b"",
            assignment=b"",
        )
        value = GroupMetadataValue(
            protocol_type="other", generation=3, protocol="p", leader="m", members=[member]
        )
        key = encode_coordinator_key(GroupMetadataKey(group=f"g{version}"))
        partition.write(Record(0, 0, key, encode_versioned(value, version)))
    assert states(partition.load()) == [(f"g{version}", "Stable") for version in range(5)]


def test_a_group_that_was_deleted_and_made_again(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    key = encode_coordinator_key(GroupMetadataKey(group="g"))
    empty = encode_versioned(GroupMetadataValue(protocol_type="", generation=0, members=[]), 3)
    partition.write(Record(0, 0, key, empty), offset(0, 1))
    partition.write(offset(0, None), Record(0, 0, key, None))
    partition.write(offset(0, 2))
    coordinator = partition.load()
    assert offsets(coordinator) == {0: 2}
    assert states(coordinator) == [("g", "Empty")]


def test_records_of_other_kinds_of_groups_are_left_alone(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    modern = encode_coordinator_key(ConsumerGroupMetadataKey(group_id="modern"))
    partition.write(
        Record(0, 0, modern, encode_versioned(ConsumerGroupMetadataValue(epoch=4), 0)),
        Record(0, 0, b"\x00\x63from the future", b"\x00\x07?"),
        offset(0, 1),
        Record(0, 0, modern, None),
    )
    coordinator = partition.load()
    assert offsets(coordinator) == {0: 1}
    assert states(coordinator) == [("g", "Empty")]


def test_transactions_are_applied_by_their_markers(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.write(offset(0, 1), offset(1, 1))
    partition.write(offset(0, 2), offset(2, 2), producer_id=PRODUCER)
    partition.write(offset(1, 3))
    partition.end_transaction(committed=True)
    assert offsets(partition.load()) == {0: 2, 1: 3, 2: 2}


def test_aborted_transactions_leave_nothing(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.write(offset(0, 1))
    partition.write(offset(0, 2), producer_id=PRODUCER)
    partition.end_transaction(committed=False)
    assert offsets(partition.load()) == {0: 1}


def test_an_open_transaction_is_still_open(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.write(offset(0, 1))
    partition.write(offset(0, 2), producer_id=PRODUCER)
    coordinator = partition.load()
    assert offsets(coordinator) == {0: 1}
    coordinator.replay_end_transaction(PRODUCER, committed=True)
    assert offsets(coordinator) == {0: 2}
