"""Transactions in one log: the right to begin one, and the markers that end it (KIP-890, KIP-1228)."""

import random

import pytest
from log_building import START_MS, LogBench, append, append_marker, append_values, values_batch

from penstock.protocol.batch import iter_headers, parse_header
from penstock.protocol.records import encode_end_txn_marker
from penstock.storage.config import LogConfig
from penstock.storage.disk.files import REAL_FILES
from penstock.storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from penstock.storage.partition.log import AppendInfo, Log
from penstock.storage.producers.staged_append import Origin
from penstock.storage.producers.verification import NOT_REQUIRED, Verification
from penstock.storage.segments.transaction_index import AbortedTransaction, TransactionIndex

PRODUCER = 9
DAY_MS = 86_400_000


def begin(
    log: Log, epoch: int = 0, sequence: int = 0, *, version_2: bool = False, now_ms: int = START_MS
) -> Verification | None:
    return log.producer_state.begin_verification(PRODUCER, epoch, sequence, version_2, now_ms)


def write(
    log: Log,
    verification: Verification | None,
    epoch: int = 0,
    sequence: int = 0,
    *,
    transactional: bool = True,
) -> AppendInfo:
    data = values_batch(
        [b"%d" % sequence],
        START_MS,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return log.append(bytearray(data), [parse_header(data)], 0, verification=verification)


def end(log: Log, epoch: int = 0, *, committed: bool = True, version: int = 0) -> AppendInfo:
    return append_marker(log, PRODUCER, epoch, committed=committed, transaction_version=version)


# --- verification


def test_a_transaction_begins_with_the_word_of_its_coordinator_only(bench: LogBench) -> None:
    log = bench.open()
    with pytest.raises(InvalidTransactionState):
        write(log, None)
    verification = begin(log)
    with pytest.raises(InvalidTransactionState):
        write(log, None)
    assert write(log, verification).first_offset == 0
    assert begin(log, sequence=1) is None, "it is open now"
    assert write(log, None, sequence=1).first_offset == 1


def test_a_word_that_comes_after_the_marker_lets_nothing_in(bench: LogBench) -> None:
    """This holds even if another batch of the next transaction has started a verification meanwhile."""
    log = bench.open()
    late = begin(log)
    end(log, committed=False)
    with pytest.raises(InvalidTransactionState):
        write(log, late)
    current = begin(log)
    assert current is not late
    with pytest.raises(InvalidTransactionState):
        write(log, late)
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
    write(log, current)


def test_in_version_2_the_marker_of_the_transaction_before_leaves_the_next_ones_question(
    bench: LogBench,
) -> None:
    """The marker has the epoch of the next transaction, which the client knew before the marker arrived."""
    log = bench.open()
    write(log, begin(log, epoch=0, version_2=True), epoch=0)
    verification = begin(log, epoch=1, version_2=True)
    end(log, epoch=1, version=2)
    assert write(log, verification, epoch=1).first_offset == 2


def test_old_epochs_are_refused_before_the_coordinator_is_asked(bench: LogBench) -> None:
    log = bench.open()
    write(log, begin(log, epoch=3), epoch=3)
    for attempt in (lambda: begin(log, epoch=2), lambda: write(log, None, epoch=2)):
        with pytest.raises(InvalidProducerEpoch):
            attempt()


def test_no_batch_overtakes_one_that_waits_to_be_verified(bench: LogBench) -> None:
    log = bench.open()
    first = begin(log, sequence=0)
    assert begin(log, sequence=1) is first, "the same question"
    with pytest.raises(OutOfOrderSequence):
        write(log, first, sequence=1)
    write(log, first, sequence=0)
    write(log, None, sequence=1)


def test_a_new_epoch_begins_its_sequences_anew(bench: LogBench) -> None:
    log = bench.open()
    first = begin(log, epoch=0, sequence=5)
    assert begin(log, epoch=1, sequence=7) is first
    write(log, first, epoch=1, sequence=7)


def test_in_version_2_a_producer_without_state_begins_at_zero(bench: LogBench) -> None:
    log = bench.open()
    verification = begin(log, sequence=5, version_2=True)
    with pytest.raises(OutOfOrderSequence):
        write(log, verification, sequence=5)
    other = bench.directory.parent / "older-0"
    older = LogBench(other).open()
    write(older, begin(older, sequence=5), sequence=5)


def test_verification_can_be_done_without(bench: LogBench) -> None:
    write(bench.open(), NOT_REQUIRED)


def test_questions_never_answered_expire_with_the_producers(bench: LogBench) -> None:
    log = bench.open()
    verification = begin(log)
    log.remove_expired_producers(START_MS + DAY_MS - 1)
    assert log.producer_state.verifications == {PRODUCER: verification}
    log.remove_expired_producers(START_MS + DAY_MS)
    assert log.producer_state.verifications == {}


# --- markers


def test_in_version_2_only_a_higher_epoch_ends_a_transaction(bench: LogBench) -> None:
    """A delayed marker must not end the current transaction."""
    log = bench.open()
    write(log, begin(log, epoch=4, version_2=True), epoch=4)
    end(log, epoch=5, version=2)
    write(log, begin(log, epoch=5, version_2=True), epoch=5)
    for late in (4, 5):
        with pytest.raises(InvalidProducerEpoch):
            end(log, epoch=late, version=2)
    assert log.last_stable_offset(log.log_end_offset) == 2
    end(log, epoch=6, version=2)
    assert log.last_stable_offset(log.log_end_offset) == 4


def test_in_version_2_a_marker_may_be_repeated_while_nothing_is_open(bench: LogBench) -> None:
    """A coordinator that was killed meanwhile does not know whether the marker was written."""
    log = bench.open()
    write(log, begin(log, epoch=0, version_2=True), epoch=0)
    end(log, epoch=1, committed=False, version=2)
    end(log, epoch=1, committed=False, version=2)
    assert log.aborted_transactions(0, 10) == [(PRODUCER, 0, 1, 2)]


def test_the_last_epoch_of_all_may_end_its_own_transaction(bench: LogBench) -> None:
    log = bench.open()
    write(log, begin(log, epoch=32767, version_2=True), epoch=32767)
    end(log, epoch=32767, version=2)
    assert log.last_stable_offset(1) == 0
    assert log.last_stable_offset(2) == 2


def test_older_markers_have_the_epoch_of_their_transaction(bench: LogBench) -> None:
    log = bench.open()
    write(log, begin(log, epoch=4), epoch=4)
    with pytest.raises(InvalidProducerEpoch):
        end(log, epoch=3)
    end(log, epoch=4)
    write(log, begin(log, epoch=4, sequence=1), epoch=4, sequence=1)


def test_deleted_records_of_an_open_transaction_leave_readers_at_the_log_start(bench: LogBench) -> None:
    log = bench.open()
    write(log, begin(log))
    append_values(log, b"after")
    assert log.last_stable_offset(2) == 0
    log.delete_records_before(2)
    assert log.last_stable_offset(2) == 2


@pytest.mark.parametrize("clean", [True, False])
def test_open_and_ended_transactions_survive_a_restart(bench: LogBench, clean: bool) -> None:
    bench.config = LogConfig(segment_bytes=200)
    log = bench.open()
    write(log, begin(log))
    end(log, committed=False)
    append_values(log, b"plain")
    write(log, begin(log, sequence=1), sequence=1)
    if clean:
        log.close()
    log = bench.open(clean=clean)
    assert log.last_stable_offset(4) == 3
    assert log.aborted_transactions(0, 4) == [(PRODUCER, 0, 1, 2)]
    assert log.producer_state.is_open(PRODUCER, 0)
    write(log, None, sequence=2)
    end(log)
    assert log.last_stable_offset(6) == 6


# --- comparison with a model


@pytest.mark.parametrize("seed", range(20))
def test_stable_offsets_and_aborted_transactions_of_random_histories(bench: LogBench, seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    bench.config = LogConfig(segment_bytes=rng.choice([150, 1000, 1 << 20]))
    log = bench.open()
    open_since: dict[int, int] = {}
    sequences: dict[int, int] = {}
    aborted: set[tuple[int, int]] = set()
    for _ in range(150):
        producer = rng.randrange(5)
        if rng.random() < 0.5:
            sequence = sequences[producer] = sequences.get(producer, -1) + 1
            data = values_batch(
                [b"x"],
                START_MS,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
            offset = append(log, data).first_offset
            open_since.setdefault(producer, offset)
        elif rng.random() < 0.3:
            append_values(log, b"plain")
        else:
            committed = rng.random() < 0.5
            append_marker(log, producer, 0, committed=committed)
            first_offset = open_since.pop(producer, None)
            if first_offset is not None and not committed:
                aborted.add((producer, first_offset))
        end_offset = log.log_end_offset
        assert log.last_stable_offset(end_offset) == min(open_since.values(), default=end_offset)
        if rng.random() < 0.2:
            log.producer_state.on_high_watermark(end_offset)
        if rng.random() < 0.05:
            log.close()
            log = bench.open(clean=rng.random() < 0.5)
    found = log.aborted_transactions(0, log.log_end_offset)
    assert {(entry.producer_id, entry.first_offset) for entry in found} == aborted
    start = rng.randrange(log.log_end_offset)
    touching = {entry for entry in found if entry.last_offset >= start}
    assert set(log.aborted_transactions(start, log.log_end_offset)) == touching


def test_an_index_that_was_read_goes_on_growing(bench: LogBench) -> None:
    index = TransactionIndex(bench.directory.parent / "0.txnindex", REAL_FILES)
    assert index.entries() == []
    entries = [AbortedTransaction(1, 10 * n, 10 * n + 5, 10 * n + 6) for n in range(10)]
    for entry in entries:
        index.append(entry)
    assert index.overlapping(0, 1000) == (entries, False)
    assert index.overlapping(26, 56) == (entries[3:6], True)
    assert index.overlapping(25, 50) == (entries[2:5], True)
    index.truncate_to(55)
    assert index.overlapping(0, 1000) == (entries[:5], False)


@pytest.mark.parametrize("segment_bytes", [500, 1 << 20])
def test_readers_hear_of_the_aborted_transactions_in_what_they_read(
    bench: LogBench, segment_bytes: int
) -> None:
    """They do not get later aborted transactions, which a lagging reader would receive again and again."""
    bench.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100)
    log = bench.open()
    for sequence in range(100):
        write(log, NOT_REQUIRED, sequence=sequence)
        end(log, committed=False)
    offset = heard = 0
    while (found := log.read(offset, 300)) is not None:
        last = list(iter_headers(found.read()))[-1][1].last_offset
        aborted = log.aborted_transactions(offset, log.log_end_offset, found)
        assert [entry.first_offset for entry in aborted] == [
            first for first in range(0, 200, 2) if first + 1 >= offset and first <= last
        ]
        heard += len(aborted)
        offset = last + 1
    assert offset == 200
    assert heard < 200


def test_a_reader_hears_of_aborted_transactions_though_their_segments_are_gone(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=200, retention_ms=-1)
    log = bench.open()
    for sequence in range(5):
        write(log, NOT_REQUIRED, sequence=sequence)
        end(log, committed=False)
    found = log.read(0, 1000)
    log.delete_records_before(10)
    assert log.delete_old_segments(START_MS)
    log.remove_deleted_files(START_MS + DAY_MS)
    assert found is not None
    assert log.aborted_transactions(0, 10, found)[0] == (PRODUCER, 0, 1, 2)
    assert (PRODUCER, 0, 1, 2) not in log.aborted_transactions(0, 10)


def test_transactions_of_several_producers_in_one_append(bench: LogBench) -> None:
    """A follower gets such appends: the first open transaction limits readers."""
    log = bench.open()

    def data(producer: int, sequence: int) -> bytes:
        options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        return bytes(values_batch([b"x"], START_MS, transactional=True, **options))

    def marker(producer: int) -> bytes:
        return encode_end_txn_marker(
            committed=False, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp=START_MS
        )

    append(log, data(1, 0) + data(2, 0) + marker(1) + data(1, 1), origin=Origin.REPLICATION)
    append(log, marker(2), origin=Origin.REPLICATION)
    assert log.last_stable_offset(5) == 3
    assert list(log.producer_state.open_offsets) == [3]
    assert log.aborted_transactions(0, 5) == [(1, 0, 2, 1), (2, 1, 4, 3)]
