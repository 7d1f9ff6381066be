"""Transactions over the wire: results of commit and abort, fencing, and waits."""

from collections.abc import Callable

import pytest

from broker_wire import Wire, batch_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from penstock.testing import Cluster
from transaction_wire import (
    GROUP,
    Transactor,
    committed_offset,
    committed_values,
    find_coordinator,
)
from waiting import wait_until

OK = ErrorCode.NONE
BOTH_VERSIONS = pytest.mark.parametrize("version_2", [False, True], ids=["v1", "v2"])


@pytest.fixture
def producer(wire: Wire, topic: str) -> Callable[..., Transactor]:
    """A factory of producers whose transactional ids are unique to this test."""

    def begin(*, version_2: bool = True, timeout_ms: int = 60_000) -> Transactor:
        return Transactor(wire, f"of-{topic}", version_2=version_2, timeout_ms=timeout_ms).begin()

    return begin


def state_of(wire: Wire, transactional_id: str) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return wire.ask(request, DescribeTransactionsResponse).transaction_states[0].transaction_state


@BOTH_VERSIONS
def test_what_is_committed_is_read_when_end_txn_is_answered(
    wire: Wire, topic: str, producer: Callable[..., Transactor], version_2: bool
) -> None:
    p = producer(version_2=version_2)
    for value in (b"a", b"b"):
        assert p.write(topic, value) is OK
    assert committed_values(wire, topic) == []
    assert p.end() is OK
    assert committed_values(wire, topic) == [b"a", b"b"]
    assert state_of(wire, p.transactional_id) == "CompleteCommit"


@BOTH_VERSIONS
def test_what_is_aborted_never_was(
    wire: Wire, topic: str, producer: Callable[..., Transactor], version_2: bool
) -> None:
    p = producer(version_2=version_2)
    for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
        assert p.write(topic, value) is OK
        assert p.end(commit=commit) is OK
    assert committed_values(wire, topic) == [b"a", b"c"]


@BOTH_VERSIONS
def test_who_takes_over_a_transactional_id_ends_what_was_open(
    wire: Wire, topic: str, producer: Callable[..., Transactor], version_2: bool
) -> None:
    old = producer(version_2=version_2)
    assert old.write(topic, b"lost") is OK
    new = producer(version_2=version_2)
    assert new.write(topic, b"kept") is OK
    assert new.end() is OK
    assert committed_values(wire, topic) == [b"kept"]
    assert old.produce(topic, b"zombie") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.end() is ErrorCode.PRODUCER_FENCED
    find_coordinator(wire, "zombies", GROUP)
    assert old.commit_offset("zombies", topic, 1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_older_clients_know_no_producer_fenced(
    wire: Wire, topic: str, producer: Callable[..., Transactor]
) -> None:
    old = producer(version_2=False)
    producer(version_2=False)
    fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    assert [old.end(version=version) for version in range(5)] == [invalid] * 2 + [fenced] * 3
    assert [old.add_partitions(topic, 0, version=version) for version in range(4)] == [
        [invalid],
        [invalid],
        [fenced],
        [fenced],
    ]
    assert [old.add_offsets("g", version=version) for version in range(5)] == [invalid] * 2 + [fenced] * 3
    # Clients send their id and epoch since version 3, which has no error code for fenced producers yet.
    assert [old.init(known=True, version=version) for version in (3, 4)] == [invalid, fenced]


def test_an_end_txn_that_comes_late_does_not_touch_the_next_transaction(
    wire: Wire, topic: str, producer: Callable[..., Transactor]
) -> None:
    p = producer()
    assert p.write(topic, b"first") is OK
    late = p.copy()
    assert p.end() is OK
    assert p.write(topic, b"second") is OK
    assert late.end() is ErrorCode.PRODUCER_FENCED
    assert late.end(commit=False) is ErrorCode.PRODUCER_FENCED
    assert committed_values(wire, topic) == [b"first"]
    assert p.end() is OK
    assert committed_values(wire, topic) == [b"first", b"second"]


def test_an_end_txn_whose_answer_was_lost_is_told_again(
    wire: Wire, topic: str, producer: Callable[..., Transactor]
) -> None:
    p = producer()
    assert p.write(topic, b"a") is OK
    retry = p.copy()
    assert p.end() is OK
    assert retry.end() is OK
    assert (retry.producer_id, retry.epoch) == (p.producer_id, p.epoch)
    assert committed_values(wire, topic) == [b"a"]


def test_what_is_outside_of_any_transaction_is_refused(
    wire: Wire, topic: str, producer: Callable[..., Transactor]
) -> None:
    find_coordinator(wire, "g", GROUP)
    p = producer(version_2=False)
    assert p.produce(topic, b"never added") is ErrorCode.TRANSACTION_ABORTABLE
    p.versions = {**p.versions, "produce": 10}
    assert p.produce(topic, b"never added") is ErrorCode.INVALID_TXN_STATE
    assert p.commit_offset("g", topic, 1, version=3) is ErrorCode.INVALID_TXN_STATE
    assert p.commit_offset("g", topic, 1, version=4) is ErrorCode.TRANSACTION_ABORTABLE


def test_a_transaction_that_takes_too_long_is_aborted(
    wire: Wire, topic: str, producer: Callable[..., Transactor]
) -> None:
    p = producer(timeout_ms=100)
    assert p.write(topic, b"late") is OK
    wait_until(lambda: state_of(wire, p.transactional_id) == "CompleteAbort")
    assert p.produce(topic, b"later") is ErrorCode.INVALID_PRODUCER_EPOCH
    assert p.end() in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
    assert wire.produce(topic, batch_of(b"plain")).error_code == OK
    assert committed_values(wire, topic) == [b"plain"]


def test_partitions_are_added_all_or_none(topic: str, producer: Callable[..., Transactor]) -> None:
    p = producer(version_2=False)
    unknown, untried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert p.add_partitions(topic, 0, 9) == [untried, unknown]
    assert p.end() is ErrorCode.INVALID_TXN_STATE, "nothing has begun"


def test_a_transaction_over_more_partitions_than_one_turn_serves(wire: Wire) -> None:
    wire.create_topic("wide", partitions=200)
    p = Transactor(wire, "wide").begin()
    for partition in range(200):
        assert p.write("wide", b"x", partition=partition) is OK
    assert p.end() is OK
    wait_until(lambda: state_of(wire, "wide") == "CompleteCommit")
    assert all(committed_values(wire, "wide", partition) == [b"x"] for partition in range(200))


def test_a_topic_deleted_meanwhile_needs_no_marker(wire: Wire) -> None:
    for name in ("gone", "stays"):
        wire.create_topic(name)
    p = Transactor(wire, "gone").begin()
    assert [p.write("gone", b"x"), p.write("stays", b"y")] == [OK, OK]
    deleted = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name="gone")], timeout_ms=10_000
    )
    assert wire.ask(deleted, DeleteTopicsResponse).responses[0].error_code == OK
    assert p.end() is OK
    assert state_of(wire, "gone") == "CompleteCommit"
    assert committed_values(wire, "stays") == [b"y"]


# -- offsets -------------------------------------------------------------------------------------------


@BOTH_VERSIONS
def test_offsets_count_when_their_transaction_commits(
    wire: Wire, topic: str, producer: Callable[..., Transactor], version_2: bool
) -> None:
    group_id = f"group-of-{topic}"
    find_coordinator(wire, group_id, GROUP)
    p = producer(version_2=version_2)

    def commit(offset: int) -> None:
        assert version_2 or p.add_offsets(group_id) is OK
        assert p.commit_offset(group_id, topic, offset) is OK

    commit(5)
    assert committed_offset(wire, group_id, topic) == (-1, OK)
    unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert committed_offset(wire, group_id, topic, require_stable=True) == unstable
    assert p.end() is OK
    assert committed_offset(wire, group_id, topic, require_stable=True) == (5, OK)
    commit(9)
    assert committed_offset(wire, group_id, topic) == (5, OK)
    assert p.end(commit=False) is OK
    assert committed_offset(wire, group_id, topic, require_stable=True) == (5, OK)


def test_a_transaction_of_offsets_alone_is_one(
    wire: Wire, topic: str, producer: Callable[..., Transactor]
) -> None:
    find_coordinator(wire, topic, GROUP)
    p = producer()
    before = p.epoch
    assert p.commit_offset(topic, topic, 1) is OK
    assert p.end() is OK
    assert p.epoch == before + 1
    assert committed_offset(wire, topic, topic) == (1, OK)


def test_a_plain_commit_after_a_transactional_one_stays(
    wire: Wire, topic: str, producer: Callable[..., Transactor]
) -> None:
    find_coordinator(wire, topic, GROUP)
    p = producer()
    assert p.commit_offset(topic, topic, 1) is OK
    commit = OffsetCommitRequest(
        group_id=topic,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=2)
                ],
            )
        ],
    )
    assert wire.ask(commit, OffsetCommitResponse, 9).topics[0].partitions[0].error_code == OK
    assert p.end() is OK
    assert committed_offset(wire, topic, topic) == (2, OK)


def test_only_members_of_today_commit_offsets(
    wire: Wire, topic: str, producer: Callable[..., Transactor]
) -> None:
    find_coordinator(wire, topic, GROUP)
    join = JoinGroupRequest(
        group_id=topic,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = wire.ask(join, JoinGroupResponse, 3)
    assert joined.error_code == OK
    p = producer()
    member = (joined.member_id, joined.generation_id)

    def commit(member_id: str, generation: int) -> ErrorCode:
        return p.commit_offset(topic, topic, 1, member=(member_id, generation))

    assert commit("stranger", joined.generation_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(joined.member_id, joined.generation_id + 1) is ErrorCode.ILLEGAL_GENERATION
    assert p.commit_offset("nobody", topic, 1, member=member) is ErrorCode.ILLEGAL_GENERATION
    assert commit(*member) is OK, "though the rebalance is not over: only plain commits wait for that"
    assert commit("", -1) is OK, "as from before KIP-447"


def test_offsets_of_partitions_that_do_not_exist(
    wire: Wire, topic: str, producer: Callable[..., Transactor]
) -> None:
    find_coordinator(wire, topic, GROUP)
    p = producer()
    assert p.commit_offset(topic, "no-such-topic", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert p.commit_offset(topic, topic, 1, partition=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert p.commit_offset("", topic, 1) is ErrorCode.INVALID_GROUP_ID


def test_no_transaction_topic_before_it_is_needed(start_node: Callable[..., Cluster]) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        p = Transactor(wire, "t")
        assert p.init() is ErrorCode.NOT_COORDINATOR
        assert p.begin().end(commit=False) is OK
