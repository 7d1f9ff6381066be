"""Fetch sessions (KIP-227) without a node: fetched partitions, answers and evictions."""

import pytest

from penstock.broker.reading.fetch_session import EVICTION_MS, FetchPlan, FetchSessionCache, SessionError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchRequest, FetchResponse

VERSION = 11
BY_ID_VERSION = 13


class Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def request(
    session_id: int = 0,
    epoch: int = 0,
    topics: dict[str, list[int]] | None = None,
    forgotten: dict[str, list[int]] | None = None,
) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchRequest.FetchTopic(
                topic=name,
                topic_id=name.encode().ljust(16, b"-"),
                partitions=[FetchRequest.FetchPartition(partition=p) for p in partitions],
            )
            for name, partitions in (topics or {}).items()
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(topic=name, partitions=partitions)
            for name, partitions in (forgotten or {}).items()
        ],
    )


def answer(plan: FetchPlan, records: dict[int, bytes] | None = None, error: int = 0) -> tuple[int, list[int]]:
    """Answer each partition of a plan; return the session id and the partitions in the answer."""
    results = [
        (
            target,
            FetchResponse.PartitionData(
                partition_index=target.partition,
                error_code=error,
                high_watermark=-1 if error else 10,
                log_start_offset=-1 if error else 0,
                records=(records or {}).get(target.partition, b""),
            ),
        )
        for target in plan.targets
    ]
    session_id, told = plan.finish(results)
    return session_id, [target.partition for target, _ in told]


def cache(slots: int = 10) -> tuple[FetchSessionCache, Clock]:
    clock = Clock()
    return FetchSessionCache(slots, clock), clock


def refused(sessions: FetchSessionCache, asked: FetchRequest, version: int = VERSION) -> ErrorCode:
    with pytest.raises(SessionError) as caught:
        sessions.plan(asked, version)
    return caught.value.code


def test_only_news_is_told_in_a_session() -> None:
    sessions, _ = cache()
    session_id, told = answer(sessions.plan(request(topics={"t": [0, 1, 2]}), VERSION))
    assert session_id > 0
    assert told == [0, 1, 2]
    assert answer(sessions.plan(request(session_id, 1), VERSION)) == (session_id, [])
    plan = sessions.plan(request(session_id, 2), VERSION)
    assert answer(plan, {1: b"records"}) == (session_id, [1])


def test_what_a_follower_says_it_does_not_know_is_told_again() -> None:
    sessions, _ = cache()
    asked = request(topics={"t": [0, 1]})
    session_id, _ = answer(sessions.plan(asked, BY_ID_VERSION))
    named = request(session_id, 1, topics={"t": [0, 1]})
    behind, up_to_date = named.topics[0].partitions
    behind.high_watermark = 7
    up_to_date.high_watermark = 10
    assert answer(sessions.plan(named, BY_ID_VERSION)) == (session_id, [0])


def test_a_served_partition_goes_to_the_end_of_the_queue() -> None:
    sessions, _ = cache()
    session_id, _ = answer(sessions.plan(request(topics={"t": [0, 1, 2]}), VERSION))
    answer(sessions.plan(request(session_id, 1), VERSION), {0: b"records"})
    plan = sessions.plan(request(session_id, 2), VERSION)
    assert [target.partition for target in plan.targets] == [1, 2, 0]


def test_a_followers_served_partition_goes_to_the_end_too() -> None:
    """Otherwise the partitions behind it could leave the ISR when an answer has no room for all."""
    sessions, _ = cache()

    def by_follower(*words: int, topics: dict[str, list[int]] | None = None) -> FetchRequest:
        asked = request(*words, topics=topics)
        asked.replica_state = FetchRequest.ReplicaState(replica_id=2)
        return asked

    session_id, _ = answer(sessions.plan(by_follower(topics={"t": [0, 1, 2]}), BY_ID_VERSION))
    answer(sessions.plan(by_follower(session_id, 1), BY_ID_VERSION), {0: b"records"})
    plan = sessions.plan(by_follower(session_id, 2, topics={"t": [0]}), BY_ID_VERSION)
    assert [target.partition for target in plan.targets] == [1, 2, 0]


def test_an_error_is_told_each_time_and_its_end_too() -> None:
    sessions, _ = cache()
    session_id, _ = answer(sessions.plan(request(topics={"t": [0]}), VERSION))
    assert answer(sessions.plan(request(session_id, 1), VERSION), error=3)[1] == [0]
    assert answer(sessions.plan(request(session_id, 2), VERSION), error=3)[1] == [0]
    assert answer(sessions.plan(request(session_id, 3), VERSION))[1] == [0]
    assert answer(sessions.plan(request(session_id, 4), VERSION))[1] == []


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions, _ = cache()
    session_id, _ = answer(sessions.plan(request(topics={"t": [0, 1]}), VERSION))
    plan = sessions.plan(request(session_id, 1, topics={"u": [5]}, forgotten={"t": [0]}), VERSION)
    assert [(target.topic, target.partition) for target in plan.targets] == [("t", 1), ("u", 5)]


def test_a_session_without_partitions_ends() -> None:
    sessions, _ = cache()
    session_id, _ = answer(sessions.plan(request(topics={"t": [0]}), VERSION))
    plan = sessions.plan(request(session_id, 1, forgotten={"t": [0]}), VERSION)
    assert answer(plan) == (0, [])
    assert len(sessions) == 0


def test_the_final_epoch_closes_a_session_and_opens_none() -> None:
    sessions, _ = cache()
    session_id, _ = answer(sessions.plan(request(topics={"t": [0]}), VERSION))
    assert answer(sessions.plan(request(session_id, -1, topics={"t": [0]}), VERSION)) == (0, [0])
    assert len(sessions) == 0


def test_wrong_sessions_epochs_and_topic_ids_are_refused() -> None:
    sessions, _ = cache()
    session_id, _ = answer(sessions.plan(request(topics={"t": [0]}), VERSION))
    assert refused(sessions, request(session_id + 1, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert refused(sessions, request(session_id, 7)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refused(sessions, request(session_id, 1), BY_ID_VERSION) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_cache_opens_no_session_until_one_is_stale() -> None:
    sessions, clock = cache(slots=2)
    for _ in range(2):
        assert answer(sessions.plan(request(topics={"t": [0]}), VERSION))[0] > 0
    assert answer(sessions.plan(request(topics={"t": [0]}), VERSION))[0] == 0
    clock.now_ms += EVICTION_MS + 1
    assert answer(sessions.plan(request(topics={"t": [0]}), VERSION))[0] > 0
    assert sessions.evictions == 1


def test_an_old_session_gives_way_to_a_larger_one_only() -> None:
    sessions, clock = cache(slots=1)
    session_id, _ = answer(sessions.plan(request(topics={"t": [0, 1]}), VERSION))
    clock.now_ms += EVICTION_MS + 1
    sessions.plan(request(session_id, 1), VERSION)
    assert answer(sessions.plan(request(topics={"t": [0, 1]}), VERSION))[0] == 0
    assert answer(sessions.plan(request(topics={"t": [0, 1, 2]}), VERSION))[0] > 0
    assert refused(sessions, request(session_id, 2)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_old_versions_know_no_sessions() -> None:
    sessions, _ = cache()
    assert answer(sessions.plan(request(topics={"t": [0]}, epoch=-1), 4)) == (0, [0])
