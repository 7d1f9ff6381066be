"""Histories of clients that cannot be true, and histories that can."""

import pytest

from penstock.testing.simulator.history import CONTROL, Decision, History, Partition, Transaction, Violation

P = Partition("t", 0)


def test_what_everybody_sees_alike_is_fine() -> None:
    history = History()
    history.acknowledged(P, 0, [b"a-0", b"a-1"])
    history.read(P, 1, b"a-1")
    history.read(P, 2, b"b-0")
    history.acknowledged(P, -1, [b"b-0"])  # repeated: its producer never learns the offset
    history.high_watermark(P, "c", 1, 3)
    history.high_watermark(P, "other", 1, 2)  # asked earlier, answered later
    history.high_watermark(P, "c", 2, 1)  # a new leader may start with a lower one
    history.check_whole(P, {0: b"a-0", 1: b"a-1", 2: b"b-0", 3: CONTROL})


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ({0: b"a-0"}, "offset 1: b'a-1' was acknowledged, found None"),
        ({0: b"a-0", 1: b"x-1"}, "offset 1: b'a-1' was acknowledged, found b'x-1'"),
        ({0: b"a-0", 1: b"a-1", 2: b"a-0"}, "b'a-0' appears twice, at 0 and 2"),
        ({0: b"a-0", 1: b"a-1", 2: b"b-1", 3: b"b-0"}, "b'b-0' at 3 comes after 1"),
        ({0: b"a-0", 1: b"a-1", 2: b"b-1"}, "b'c-0' was acknowledged and is missing"),
    ],
)
def test_what_is_lost_changed_repeated_or_out_of_order_is_found(records: dict[int, bytes], said: str) -> None:
    history = History()
    history.acknowledged(P, 0, [b"a-0", b"a-1"])
    history.acknowledged(P, -1, [b"c-0"])
    with pytest.raises(Violation, match=said):
        history.check_whole(P, records)


def test_an_offset_has_one_value_for_all() -> None:
    history = History()
    history.read(P, 0, b"a-0")
    with pytest.raises(Violation, match="offset 0: read b'b-0'"):
        history.read(P, 0, b"b-0")
    with pytest.raises(Violation, match="offset 0: acknowledged b'b-0'"):
        history.acknowledged(P, 0, [b"b-0"])
    history.acknowledged(P, 5, [b"c-0"])
    with pytest.raises(Violation, match="offset 5: read b'd-0'"):
        history.read(P, 5, b"d-0")


def test_a_high_watermark_does_not_fall_within_an_epoch() -> None:
    history = History()
    history.high_watermark(P, "c", 1, 3)
    with pytest.raises(Violation, match="a high watermark of 3, then 2, in epoch 1"):
        history.high_watermark(P, "c", 1, 2)


def test_a_partition_has_one_owner_in_a_generation() -> None:
    history = History()
    history.owns("g", 1, "a", [P])
    history.owns("g", 2, "b", [P])
    with pytest.raises(Violation, match="g generation 1: t-0 is owned by a and b"):
        history.owns("g", 1, "b", [P])


def test_an_offset_that_was_committed_is_found_again() -> None:
    history = History()
    history.committing("g", P, 7)
    history.committed("g", P, 5)
    known = history.committed_now("g")
    history.committed("g", P, 7)
    history.fetched("g", known, {P: 5})
    with pytest.raises(Violation, match="t-0 was committed at 7, found at 5"):
        history.fetched("g", history.committed_now("g"), {P: 5})


def test_an_offset_of_a_topic_before_is_no_offset_of_this_one() -> None:
    history = History()
    before, now = Partition("t", 0, b"before"), Partition("t", 0, b"now")
    history.committing("g", before, 5)
    history.committed("g", before, 5)
    known = history.committed_now("g")
    with pytest.raises(Violation, match="t-0 is found at 5, which no member committed"):
        history.fetched("g", known, {now: 5})
    history.doomed[b"before"] = None
    history.fetched("g", known, {before: 0, now: 0})  # the commit was deleted with its topic


def test_what_a_deleted_topic_held_does_not_count() -> None:
    history = History()
    gone, stays = Partition("t", 0, b"before"), Partition("t", 0, b"now")
    history.sending(gone, [b"a-0"])
    history.acknowledged(gone, 0, [b"a-0"])
    history.transactions.append(Transaction("x", Decision.COMMITTED, {b"a-0": gone, b"b-0": stays}))
    with pytest.raises(Violation, match="transaction x"):
        history.check_transactions({stays: {b"b-0"}})
    history.doomed[b"before"] = None
    history.check_transactions({stays: {b"b-0"}})
    with pytest.raises(Violation, match="b'a-0' was sent to t-0 of 6265666f7265"):
        history.read(stays, 0, b"a-0")


def test_records_are_deleted_below_what_was_asked_for() -> None:
    history = History()
    history.acknowledged(P, 0, [b"a-0", b"a-1", b"a-2"])
    history.delete_before(P, 1)
    history.check_whole(P, {0: b"a-0", 1: b"a-1", 2: b"a-2"})  # requested, and not done
    history.check_whole(P, {1: b"a-1", 2: b"a-2"})
    with pytest.raises(Violation, match="offset 1: b'a-1' was acknowledged, found None"):
        history.check_whole(P, {2: b"a-2"})
    with pytest.raises(Violation, match=r"starts at 2: .* below 1 may be"):
        history.log_start(P, 2, 0)
    history.deleted_before(P, 1)
    with pytest.raises(Violation, match="starts at 0: records below 1 were deleted"):
        history.log_start(P, 0, history.of(P).deleted_before)


def test_a_transaction_is_whole_without_what_was_deleted() -> None:
    history = History()
    history.acknowledged(P, 0, [b"a-0", b"a-1"])
    history.transactions.append(Transaction("x", Decision.COMMITTED, {b"a-0": P, b"a-1": P}))
    history.delete_before(P, 1)
    history.check_transactions({P: {b"a-1"}})
    with pytest.raises(Violation, match="transaction x"):
        history.check_transactions({P: {b"a-0"}})


@pytest.mark.parametrize(
    ("decision", "there", "is_fine"),
    [
        (Decision.COMMITTED, {b"a-0", b"a-1"}, True),
        (Decision.COMMITTED, {b"a-0"}, False),
        (Decision.COMMITTED, set(), False),
        (Decision.ABORTED, set(), True),
        (Decision.ABORTED, {b"a-0", b"a-1"}, False),
        (Decision.COMMITTING, {b"a-0", b"a-1"}, True),
        (Decision.COMMITTING, set(), True),
        (Decision.COMMITTING, {b"a-1"}, False),
        (Decision.ABORTING, {b"a-1"}, False),
        (Decision.LOST, set(), True),
        (Decision.LOST, {b"a-2"}, False),
    ],
)
def test_a_transaction_counts_whole_or_not_at_all(
    decision: Decision, there: set[bytes], is_fine: bool
) -> None:
    history = History()
    doubtful = {b"a-2": P} if decision is Decision.LOST else {}
    history.transactions.append(Transaction("x", decision, {b"a-0": P, b"a-1": P}, doubtful=doubtful))
    if is_fine:
        history.check_transactions({P: there})
    else:
        with pytest.raises(Violation, match="transaction x"):
            history.check_transactions({P: there})


@pytest.mark.parametrize("found", range(6))
def test_offsets_in_transactions_are_those_of_the_last_that_counts(found: int) -> None:
    history = History()
    decisions = (Decision.COMMITTED, Decision.COMMITTED, Decision.ABORTED, Decision.COMMITTING, Decision.LOST)
    transactions = [Transaction(str(at), decision, offset=at) for at, decision in enumerate(decisions, 1)]
    if found in (2, 4):
        history.check_offset(transactions, found)
    else:
        with pytest.raises(Violation, match=f"one of .2, 4., it is at {found}"):
            history.check_offset(transactions, found)
