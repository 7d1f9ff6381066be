"""Offsets committed in transactions: they wait for their marker; then the newest record wins."""

import pytest

from penstock.coordinators.group.config import GroupCoordinatorConfig
from penstock.coordinators.group.coordinator import GroupCoordinator
from penstock.coordinators.group.offset_store import CommittedOffset
from penstock.coordinators.group.records import offset_record, offset_tombstone
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ZERO_UUID, OffsetFetchRequest

PRODUCER = 4000


class Log:
    """A log that replays records at rising offsets."""

    def __init__(self) -> None:
        self.coordinator = GroupCoordinator(GroupCoordinatorConfig(), lambda: "id")
        self.end_offset = 0

    def commit(self, offset: int, producer_id: int = -1) -> None:
        committed = CommittedOffset(offset, -1, "", 0, None, ZERO_UUID)
        self._replay(offset_record("g", "t", 0, committed), producer_id)

    def delete(self) -> None:
        self._replay(offset_tombstone("g", "t", 0), -1)

    def _replay(self, record, producer_id: int) -> None:
        self.coordinator.replay(record, self.end_offset, 0, producer_id)
        self.end_offset += 1

    def fetch(self, *, require_stable: bool = False) -> tuple[int, ErrorCode]:
        topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=topics)
        group = self.coordinator.handle_offset_fetch(request, require_stable=require_stable)
        partition = group.topics[0].partitions[0]
        return partition.committed_offset, ErrorCode(partition.error_code)


@pytest.fixture
def log() -> Log:
    return Log()


def test_offset_of_an_open_transaction_is_unstable(log: Log) -> None:
    log.commit(1)
    log.commit(2, PRODUCER)
    assert log.fetch() == (1, ErrorCode.NONE)
    assert log.fetch(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def test_commit_marker_makes_it_count(log: Log) -> None:
    log.commit(2, PRODUCER)
    log.coordinator.replay_end_transaction(PRODUCER, committed=True)
    assert log.fetch(require_stable=True) == (2, ErrorCode.NONE)
    assert log.coordinator.offset_count == 1


def test_abort_marker_drops_it(log: Log) -> None:
    log.commit(1)
    log.commit(2, PRODUCER)
    log.coordinator.replay_end_transaction(PRODUCER, committed=False)
    assert log.fetch(require_stable=True) == (1, ErrorCode.NONE)


def test_plain_commit_after_the_transactional_one_stays(log: Log) -> None:
    log.commit(2, PRODUCER)
    log.commit(3)
    log.coordinator.replay_end_transaction(PRODUCER, committed=True)
    assert log.fetch() == (3, ErrorCode.NONE)


def test_tombstone_takes_pending_offsets_along(log: Log) -> None:
    log.commit(1)
    log.commit(2, PRODUCER)
    log.delete()
    log.coordinator.replay_end_transaction(PRODUCER, committed=True)
    assert log.fetch(require_stable=True) == (-1, ErrorCode.NONE)
    assert log.coordinator.offset_count == 0


def test_group_with_an_open_transaction_is_deleted_with_it(log: Log) -> None:
    log.commit(2, PRODUCER)
    records, error = log.coordinator.handle_delete_group("g")
    assert error is ErrorCode.NONE
    assert [record.value for record in records] == [None, None]
    for record in records:
        log.coordinator.replay(record, 9, 0)
    log.coordinator.replay_end_transaction(PRODUCER, committed=True)
    assert log.fetch() == (-1, ErrorCode.NONE)


def test_marker_of_an_unknown_producer_means_nothing(log: Log) -> None:
    log.coordinator.replay_end_transaction(PRODUCER, committed=True)
    assert log.fetch() == (-1, ErrorCode.NONE)
