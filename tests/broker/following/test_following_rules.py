"""Truncation of followers, fetch sessions with the leader, throttles, and the choice of a replica to read."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from penstock.broker.following.fetched_batches import check_fetched
from penstock.broker.following.following import Following
from penstock.broker.following.leader_session import LeaderSession, Wanted
from penstock.broker.following.throttle import ReplicationThrottle
from penstock.broker.following.truncation import first_position, truncation_offset
from penstock.broker.partitions.leadership import Leadership
from penstock.broker.reading.nearest_replica import nearest_replica
from penstock.metadata.image import PartitionRegistration
from penstock.protocol.batch import CorruptBatch, assign_offsets, iter_headers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchRequest, FetchResponse
from penstock.protocol.records import Record, encode_batch
from penstock.storage.disk.files import REAL_FILES
from penstock.storage.partition.leader_epochs import EpochEntry, LeaderEpochs

if TYPE_CHECKING:
    from penstock.broker.partitions.replicated_partition import ReplicatedPartition

TOPIC = bytes(16)


def epochs(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    found = LeaderEpochs(tmp_path, REAL_FILES)
    for epoch, start_offset in entries:
        found.assign(epoch, start_offset)
    return found


# --- truncation


def test_a_log_begins_to_follow_at_its_end_or_without_epochs_at_its_high_watermark(tmp_path: Path) -> None:
    assert first_position(epochs(tmp_path, (0, 0), (3, 7)), 12, 5) == (12, 3)
    assert first_position(LeaderEpochs(tmp_path / "old", REAL_FILES), 12, 5) == (5, -1)


@pytest.mark.parametrize(
    ("leader", "expected"),
    [
        ((3, 9), 9),  # the leader's epoch 3 ended earlier
        ((3, 15), 12),  # or later: then the epoch is kept whole
        ((2, 8), 7),  # this log has no epoch 2: truncate to the end of the one before, and ask again
        ((0, 5), 5),
        ((0, 9), 7),  # here it ended at 7
        ((-1, 6), 6),  # a leader of before KIP-279
        ((1, -1), 10),  # a leader that doesn't know: truncate to the fetch offset
    ],
)
def test_cutting_to_what_both_logs_have(tmp_path: Path, leader: tuple[int, int], expected: int) -> None:
    assert truncation_offset(epochs(tmp_path, (0, 0), (3, 7)), 12, 10, EpochEntry(*leader)) == expected


Log = list[int]
"""The epoch of each record."""


def find_epochs(log: Log, path: Path, current: int = -1) -> LeaderEpochs:
    found = LeaderEpochs(path, REAL_FILES)
    for offset, epoch in enumerate(log):
        if epoch != found.latest:
            found.assign(epoch, offset)
    if current >= 0:
        found.assign(current, len(log))
    return found


@pytest.mark.parametrize("seed", range(200))
def test_logs_that_diverged_come_to_their_common_beginning(seed: int, tmp_path: Path) -> None:
    """The leader's successive answers truncate a follower to the common part of both logs, no further."""
    rng = random.Random(seed)
    shared = sorted(rng.choices(range(3), k=rng.randrange(6)))
    first_epoch = (shared[-1] if shared else 0) + 1
    # Each epoch has one leader, so that the logs have no epoch in common above their shared part.
    mine = [epoch for epoch in range(first_epoch, 12) if rng.random() < 0.4]
    theirs = [epoch for epoch in range(first_epoch, 12) if epoch not in mine and rng.random() < 0.5]
    follower = shared + sorted(rng.choices(mine, k=rng.randrange(8)) if mine else [])
    leader = shared + sorted(rng.choices(theirs, k=rng.randrange(8)) if theirs else [])
    at_leader = find_epochs(leader, tmp_path / "leader", current=12)
    for _ in range(len(follower) + 2):
        here = find_epochs(follower, tmp_path / "follower")
        offset, last_epoch = first_position(here, len(follower), 0)
        told = at_leader.end_offset_for(last_epoch, len(leader))
        if last_epoch < 0 or (told.epoch >= last_epoch and told.start_offset >= offset):
            break
        cut = truncation_offset(here, len(follower), offset, told)
        assert cut < len(follower), "each answer cuts something"
        follower = follower[:cut]
    assert follower == leader[: len(follower)]
    assert follower[: len(shared)] == shared, "what both have stays"


# --- records from the leader


def batches(*parts: tuple[int, int]) -> bytearray:
    """Encode batches of one record each, given as (base offset, leader epoch)."""
    joined = bytearray()
    for offset, epoch in parts:
        one = bytearray(encode_batch([Record(0, 0, b"k", b"v")]))
        assign_offsets(one, [header for _, header in iter_headers(one)], offset, epoch)
        joined += one
    return joined


def test_whole_batches_up_to_the_leaders_epoch_are_taken() -> None:
    data = batches((5, 2), (6, 2), (7, 4))
    found = check_fetched(memoryview(data), 3)
    assert [header.base_offset for header in found.headers] == [5, 6]
    assert found.size_bytes == 2 * len(data) // 3
    torn = check_fetched(memoryview(data)[:-1], 9)
    assert [header.base_offset for header in torn.headers] == [5, 6]
    assert check_fetched(memoryview(b""), 3) == ([], 0)


def test_a_damaged_batch_is_not_taken() -> None:
    data = batches((5, 2), (6, 2))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch, match="offset 6"):
        check_fetched(memoryview(data), 3)


# --- the session with the leader


numbers: dict[LeaderSession, int] = {}
"""The epoch of the last request in each session."""


def answered(session: LeaderSession, session_id: int, error: ErrorCode = ErrorCode.NONE) -> bool:
    return session.answered(numbers[session], error, session_id)


def wanted(offset: int) -> Wanted:
    return Wanted(offset, 0, 0, 1, 100, 0)


def sent(session: LeaderSession) -> tuple[int, int, dict[int, int], list[int]]:
    """The (session id, epoch, offset by partition, forgotten partitions) of the next request."""
    request = FetchRequest()
    numbers[session] = session.fill(request)
    return (
        request.session_id,
        request.session_epoch,
        {p.partition: p.fetch_offset for topic in request.topics for p in topic.partitions},
        [p for topic in request.forgotten_topics_data for p in topic.partitions],
    )


def test_after_the_first_request_only_changes_are_named() -> None:
    session = LeaderSession()
    session.want((TOPIC, 0), wanted(5))
    session.want((TOPIC, 1), wanted(7))
    assert sent(session) == (0, 0, {0: 5, 1: 7}, [])
    assert answered(session, 77)
    assert sent(session) == (77, 1, {}, [])
    assert answered(session, 77)
    session.want((TOPIC, 1), wanted(9))
    session.forget((TOPIC, 0))
    assert session.has_changes
    assert sent(session) == (77, 2, {1: 9}, [0])
    assert not session.has_changes


def test_a_leader_without_room_for_a_session_gets_all_each_time() -> None:
    session = LeaderSession()
    session.want((TOPIC, 0), wanted(5))
    for _ in range(2):
        assert sent(session) == (0, 0, {0: 5}, [])
        assert answered(session, 0)


def test_a_session_that_ends_with_its_last_partition_was_not_refused() -> None:
    session = LeaderSession()
    session.want((TOPIC, 0), wanted(5))
    sent(session)
    answered(session, 77)
    session.forget((TOPIC, 0))
    sent(session)
    assert answered(session, 0)
    session.want((TOPIC, 1), wanted(0))
    assert not session.is_refused, "the next one is asked for without waiting"
    assert sent(session) == (0, 0, {1: 0}, [])
    assert answered(session, 0)
    assert session.is_refused


def test_after_a_failure_all_is_said_anew_and_the_old_session_named() -> None:
    session = LeaderSession()
    session.want((TOPIC, 0), wanted(5))
    session.want((TOPIC, 1), wanted(5))
    sent(session)
    answered(session, 77)
    session.forget((TOPIC, 1))
    sent(session)
    session.failed()
    assert sent(session) == (77, 0, {0: 5}, [])
    assert not answered(session, 0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert sent(session) == (0, 0, {0: 5}, [])


def test_an_answer_counts_for_what_was_asked_until_its_request() -> None:
    session = LeaderSession()
    session.want((TOPIC, 0), wanted(5))
    sent(session)
    first = numbers[session]
    assert session.is_current((TOPIC, 0), first)
    session.want((TOPIC, 0), wanted(6))
    assert not session.is_current((TOPIC, 0), first)
    answered(session, 77)
    sent(session)
    assert not session.is_current((TOPIC, 0), first)
    assert session.is_current((TOPIC, 0), numbers[session])
    session.forget((TOPIC, 0))
    assert not session.is_current((TOPIC, 0), numbers[session])


def test_a_second_request_may_follow_before_the_first_is_answered() -> None:
    session = LeaderSession()
    session.want((TOPIC, 0), wanted(5))
    sent(session)
    assert not session.is_open, "which session it will be is not known yet"
    answered(session, 77)
    assert sent(session) == (77, 1, {}, [])
    first = numbers[session]
    session.want((TOPIC, 1), wanted(0))
    assert session.is_open
    assert sent(session) == (77, 2, {1: 0}, [])
    assert session.answered(first, ErrorCode.NONE, 77)
    assert not session.is_current((TOPIC, 1), first)
    assert answered(session, 77)
    assert session.is_current((TOPIC, 1), numbers[session])
    assert sent(session) == (77, 3, {}, [])


def test_answers_of_a_session_that_is_over_are_passed_over() -> None:
    session = LeaderSession()
    session.want((TOPIC, 0), wanted(5))
    sent(session)
    answered(session, 77)
    sent(session)
    first = numbers[session]
    session.want((TOPIC, 1), wanted(0))
    sent(session)
    assert not session.answered(first, ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    assert not answered(session, 77), "it went with the first"
    assert sent(session) == (77, 0, {0: 5, 1: 0}, [])
    assert not session.answered(first, ErrorCode.NONE, 77)
    assert answered(session, 78)
    assert sent(session) == (78, 1, {}, [])


# --- errors


def test_a_node_that_is_behind_with_the_metadata_is_asked_again_soon(tmp_path: Path) -> None:
    """One node learns of an election before the other, and a record may wait for the replica meanwhile."""
    here = SimpleNamespace(leader_epochs=epochs(tmp_path, (0, 0)), log_end_offset=0, log_start_offset=0)
    replica = SimpleNamespace(
        log=here, high_watermark=0, leader_epoch=1, topic_id=TOPIC, topic="flights", partition=0
    )
    partition = cast("ReplicatedPartition", SimpleNamespace(replica=replica))
    following = Following(2, 100, 1000, ReplicationThrottle(3, 1000, Clock()))
    following.add(partition)
    pauses_s = []

    def answer(error: ErrorCode) -> None:
        assert following.prepare(0.0)
        number = following.session.fill(FetchRequest())
        data = FetchResponse.PartitionData(error_code=error)
        assert not following.take((TOPIC, 0), data, number, 0.0)
        pauses_s.append(following.wakes_in_s(0.0))
        following.prepare(10.0)

    for _ in range(8):
        answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert pauses_s == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]
    pauses_s.clear()
    answer(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert pauses_s == [1.0], "replica.fetch.backoff.ms"


# --- throttles


class Clock:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def test_a_throttle_measures_over_its_samples() -> None:
    clock = Clock()
    throttle = ReplicationThrottle(3, 1000, clock)
    throttle.record(10_000)
    assert not throttle.is_exceeded, "no limit"
    throttle.bytes_per_second_max = 1000
    assert throttle.is_exceeded
    assert throttle.bytes_per_second == 10_000
    clock.now_ms = 2500
    assert throttle.bytes_per_second == 4000
    clock.now_ms = 3000
    assert throttle.bytes_per_second == 0
    assert not throttle.is_exceeded


def test_only_listed_replicas_of_this_broker_are_throttled() -> None:
    throttle = ReplicationThrottle(3, 1000, Clock())
    throttle.mark("a", ["0:1", "1:2", "2:1"], 1)
    throttle.mark("b", ["*"], 1)
    throttle.mark("c", ["0:2"], 1)
    assert [throttle.is_throttled("a", partition) for partition in range(3)] == [True, False, True]
    assert throttle.is_throttled("b", 9)
    assert not throttle.is_throttled("c", 0)
    for topic in ("a", "b"):
        throttle.mark(topic, [""], 1)
    assert throttle.is_idle


# --- the nearest replica


class Live:
    own_epoch = 1

    def live_epoch(self, broker_id: int) -> int | None:
        return 1

    def is_leaving(self, broker_id: int) -> bool:
        return False


def test_a_consumer_is_sent_to_the_best_in_sync_replica_in_its_rack() -> None:
    leading = Leadership(1, Live(), 1000)
    registration = PartitionRegistration(
        replicas=(1, 2, 3, 4, 5), isr=(1, 2, 3, 5), leader=1, leader_epoch=0, partition_epoch=0
    )
    leading.update(registration, 0, 0.0, is_new_leader=True)
    for broker_id, end_offset in ((2, 10), (3, 12), (4, 20), (5, 20)):
        leading.followers[broker_id].fetched(end_offset, 3, 20, 1, 0.0)
    racks: dict[int, str | None] = {2: "b", 3: "b", 4: "b", 5: None}
    assert nearest_replica(leading, "b", "a", racks.get, 5) == 3
    assert nearest_replica(leading, "b", "a", racks.get, 11) == 3
    assert nearest_replica(leading, "b", "a", racks.get, 13) is None, "none in sync has it yet"
    assert nearest_replica(leading, "b", "a", racks.get, 2) is None, "they start above"
    assert nearest_replica(leading, "b", "b", racks.get, 5) is None, "the leader is as near"
    assert nearest_replica(leading, "", "a", racks.get, 5) is None
    assert nearest_replica(leading, "z", "a", racks.get, 5) is None
