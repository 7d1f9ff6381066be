"""Idempotent producers under Kafka's rules, and their snapshots."""

import random
import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from log_building import START_MS, LogBench, append, append_marker, append_values, read_all, values_batch

from penstock.protocol.errors import ErrorCode
from penstock.storage.config import LogConfig
from penstock.storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    LogError,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from penstock.storage.partition.log import AppendInfo, Log
from penstock.storage.producers import snapshot_format
from penstock.storage.producers.staged_append import Origin

MAX_SEQUENCE = 2**31 - 1


def produce(log: Log, sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 9) -> AppendInfo:
    values = [b"%d/%d" % (sequence, i) for i in range(count)]
    return append_values(
        log,
        *values,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        timestamp=START_MS,
    )


def test_in_order_appends_and_duplicates_answered_with_the_first_result(bench: LogBench) -> None:
    log = bench.open()
    first = [produce(log, 3 * i, count=3) for i in range(6)]
    assert [info.first_offset for info in first] == [0, 3, 6, 9, 12, 15]
    for i in range(1, 6):
        again = produce(log, 3 * i, count=3)
        assert again == (3 * i, 3 * i + 2, START_MS + 2, True)
    with pytest.raises(OutOfOrderSequence):
        produce(log, 0, count=3)  # only the last five batches are kept
    with pytest.raises(OutOfOrderSequence):
        produce(log, 15, count=2)  # another range is no duplicate
    assert len(read_all(log)) == 18


@pytest.mark.parametrize("sequence", [0, 1, 2, 4, 1000, MAX_SEQUENCE])
def test_gaps_are_refused_and_leave_the_log_unchanged(bench: LogBench, sequence: int) -> None:
    log = bench.open()
    produce(log, 0, count=3)
    size = log.size_bytes
    with pytest.raises(OutOfOrderSequence) as raised:
        produce(log, sequence)
    assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (log.log_end_offset, log.size_bytes) == (3, size)
    assert produce(log, 3).first_offset == 3


def test_sequences_wrap(bench: LogBench) -> None:
    log = bench.open()
    produce(log, MAX_SEQUENCE - 1, count=2)
    assert produce(log, 0).first_offset == 2
    log = LogBench(bench.directory.parent / "b-0").open()
    produce(log, MAX_SEQUENCE - 1, count=4)
    assert produce(log, MAX_SEQUENCE - 1, count=4).duplicate
    assert produce(log, 2).first_offset == 4


def test_an_unknown_producer_begins_anywhere_and_a_new_epoch_at_zero(bench: LogBench) -> None:
    log = bench.open()
    produce(log, 77)
    with pytest.raises(OutOfOrderSequence):
        produce(log, 78, epoch=1)
    produce(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpoch) as raised:
        produce(log, 78, epoch=0)
    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not produce(log, 1, epoch=1).duplicate


def test_coordinators_are_checked_for_epochs_only(bench: LogBench) -> None:
    log = bench.open()
    for sequence in (0, 0, 5):
        data = values_batch([b"x"], producer_id=9, producer_epoch=3, base_sequence=sequence)
        assert not append(log, data, origin=Origin.COORDINATOR).duplicate
    old = values_batch([b"x"], producer_id=9, producer_epoch=2, base_sequence=0)
    with pytest.raises(InvalidProducerEpoch):
        append(log, old, origin=Origin.COORDINATOR)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("segment_bytes", [200, 1000, 1 << 20])
def test_state_survives_a_restart(bench: LogBench, clean: bool, segment_bytes: int) -> None:
    """A clean stop leaves a snapshot; after a kill the batches above the last one are replayed."""
    bench.config = LogConfig(segment_bytes=segment_bytes)
    log = bench.open()
    for i in range(20):
        produce(log, 2 * i, count=2)
        produce(log, i, producer_id=10, epoch=1)
    if clean:
        log.close()
    log = bench.open(clean=clean)
    assert produce(log, 38, count=2) == (57, 58, START_MS + 1, True)
    assert produce(log, 19, producer_id=10, epoch=1).duplicate
    with pytest.raises(InvalidProducerEpoch):
        produce(log, 0, producer_id=10, epoch=0)
    with pytest.raises(OutOfOrderSequence):
        produce(log, 41)
    assert produce(log, 40).first_offset == 60


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("retention", [True, False])
@pytest.mark.parametrize("after", [0, 2])
def test_state_survives_the_deletion_of_its_records(
    bench: LogBench, after: int, retention: bool, clean: bool
) -> None:
    """A batch sent again is a duplicate even if its records, or their whole segment, were deleted."""
    log = bench.open()
    produce(log, 0, count=3)
    log.roll()
    log.flush()
    bench.recovery_point = log.recovery_point
    for sequence in range(after):
        append_values(log, b"other", producer_id=5, producer_epoch=0, base_sequence=sequence)
    log.delete_records_before(log.log_end_offset)
    if retention:
        assert log.delete_old_segments(START_MS) > 0
    if clean:
        log.close()
    log = bench.open(clean=clean, log_start_offset=log.log_start_offset)
    assert read_all(log) == []
    again = produce(log, 0, count=3)
    assert (again.first_offset, again.duplicate) == (0, True)
    assert produce(log, 3).first_offset == log.log_end_offset - 1


def test_a_broken_snapshot_is_dropped_and_an_older_one_replayed(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=400)
    log = bench.open()
    for i in range(12):
        produce(log, i)
    log.close()
    snapshots = sorted(bench.directory.glob("*.snapshot"))
    assert len(snapshots) > 2
    snapshots[-1].write_bytes(snapshots[-1].read_bytes()[:-1])
    snapshots[-2].write_bytes(b"")
    log = bench.open(clean=True)
    assert produce(log, 11).duplicate
    assert produce(log, 12).first_offset == 12


def test_snapshots_stand_at_segment_boundaries_and_the_end(bench: LogBench) -> None:
    bench.config = LogConfig(segment_bytes=400)
    log = bench.open()
    for i in range(12):
        produce(log, i)
    bases = log.segments.base_offsets
    log.close()
    found = sorted(int(path.stem) for path in bench.directory.glob("*.snapshot"))
    assert found == [*bases[1:], 12]


def test_idle_producers_are_forgotten(bench: LogBench) -> None:
    log = bench.open()
    produce(log, 0)
    append_values(
        log, b"t", producer_id=11, producer_epoch=0, base_sequence=0, transactional=True, timestamp=START_MS
    )
    assert log.remove_expired_producers(START_MS + 86_399_999) == 0
    assert log.remove_expired_producers(START_MS + 86_400_000) == 1
    assert list(log.producer_state.producers) == [11], "an open transaction keeps its producer"
    assert produce(log, 500).first_offset == 2


def test_truncation_takes_the_state_back(bench: LogBench) -> None:
    log = bench.open()
    for i in range(5):
        produce(log, i)
    log.truncate_to(3)
    with pytest.raises(OutOfOrderSequence):
        produce(log, 4)
    assert produce(log, 2).duplicate
    assert produce(log, 3).first_offset == 3


def test_transactions_hold_back_the_last_stable_offset(bench: LogBench) -> None:
    log = bench.open()
    txn = {"transactional": True, "producer_epoch": 0}
    append_values(log, b"plain")
    append_values(log, b"a1", producer_id=1, base_sequence=0, **txn)
    append_values(log, b"b1", producer_id=2, base_sequence=0, **txn)
    append_values(log, b"a2", producer_id=1, base_sequence=1, **txn)
    assert log.last_stable_offset(4) == 1
    append_marker(log, 1, 0, committed=True)
    assert log.last_stable_offset(4) == 1, "the marker is not replicated yet"
    assert log.last_stable_offset(5) == 2
    append_marker(log, 2, 0, committed=False)
    assert log.last_stable_offset(6) == 6
    assert log.aborted_transactions(0, 6) == [(2, 2, 5, 6)]
    with pytest.raises(TransactionCoordinatorFenced):
        append_marker(log, 2, 0, committed=True, coordinator_epoch=-2)
    append_values(log, b"a3", producer_id=1, base_sequence=2, **txn)
    with pytest.raises(InvalidTransactionState):
        append_values(log, b"a4", producer_id=1, base_sequence=3, producer_epoch=0)


def test_snapshot_bytes(tmp_path: Path) -> None:
    entry = snapshot_format.SnapshotEntry(9, 2, 41, 60, 3, START_MS, -1, -1)
    data = snapshot_format.encode([entry])
    body = struct.pack(">iqhiqiqiq", 1, 9, 2, 41, 60, 3, START_MS, -1, -1)
    assert data == struct.pack(">hI", 1, crc32c(body)) + body
    assert snapshot_format.decode(data) == [entry]
    assert snapshot_format.decode(snapshot_format.encode([])) == []
    for broken in (b"", data[:-1], data + b"\0", b"\0\2" + data[2:], data[:9] + b"\2" + data[10:]):
        with pytest.raises(snapshot_format.SnapshotCorrupt):
            snapshot_format.decode(broken)


@given(st.binary(max_size=200))
def test_random_snapshot_bytes_are_refused_without_a_surprise(data: bytes) -> None:
    with pytest.raises(snapshot_format.SnapshotCorrupt):
        snapshot_format.decode(data)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 12), st.integers(1, 3)), max_size=40
    )
)
def test_judgement_against_a_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int, int]]
) -> None:
    """Batches are accepted, duplicate or rejected according to the rules of KIP-98."""
    log = LogBench(tmp_path_factory.mktemp("producers") / "flights-0").open()
    model: dict[int, tuple[int, list[tuple[int, int]]]] = {}
    for producer_id, epoch, sequence, count in steps:
        known_epoch, batches = model.get(producer_id, (-1, []))
        wanted = (sequence, sequence + count - 1)
        if epoch == known_epoch and wanted in batches[-5:]:
            expected = "duplicate"
        elif epoch < known_epoch:
            expected = "InvalidProducerEpoch"
        elif known_epoch == -1 or (sequence == 0 if epoch > known_epoch else sequence == batches[-1][1] + 1):
            expected = "appended"
            model[producer_id] = (epoch, [*(batches if epoch == known_epoch else []), wanted])
        else:
            expected = "OutOfOrderSequence"
        try:
            info = produce(log, sequence, count=count, epoch=epoch, producer_id=producer_id)
            outcome = "duplicate" if info.duplicate else "appended"
        except LogError as error:
            outcome = type(error).__name__
        assert outcome == expected


@pytest.mark.parametrize("seed", range(30))
def test_batches_that_follow_take_a_short_way_to_the_same_state(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    logs = [LogBench(tmp_path / name / "flights-0").open() for name in ("short", "general")]
    logs[1].producer_state.continued_by = lambda _header: None  # type: ignore[method-assign]
    sequences = [0, 0, 0]
    for _ in range(60):
        producer_id, epoch = rng.randrange(3), rng.choice((0, 0, 0, 0, 1))
        sequence = sequences[producer_id] if rng.random() < 0.8 else rng.randrange(20)
        count, transactional = rng.randrange(1, 4), rng.random() < 0.4
        ends, committed = rng.random() < 0.15, rng.random() < 0.5
        outcomes: list[object] = []
        for log in logs:
            try:
                if ends:
                    outcomes.append(append_marker(log, producer_id, epoch, committed=committed))
                else:
                    outcomes.append(
                        append_values(
                            log,
                            *(b"%d" % i for i in range(count)),
                            producer_id=producer_id,
                            producer_epoch=epoch,
                            base_sequence=sequence,
                            transactional=transactional,
                        )
                    )
            except LogError as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]
        if isinstance(outcomes[0], AppendInfo) and not ends:
            sequences[producer_id] = sequence + count
        states = [
            (
                {id_: entry.to_snapshot() for id_, entry in log.producer_state.producers.items()},
                [entry.batches for entry in log.producer_state.producers.values()],
                list(log.producer_state.open_offsets),
            )
            for log in logs
        ]
        assert states[0] == states[1]
