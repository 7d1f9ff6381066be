"""Offset, time and transaction indexes: Kafka's bytes, and lookups against a plain list."""

import struct
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.disk.files import REAL_FILES
from penstock.storage.segments.sparse_indexes import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from penstock.storage.segments.transaction_index import AbortedTransaction, TransactionIndex

BASE = 1000


def offset_index(path: Path) -> OffsetIndex:
    return OffsetIndex(path, BASE, 10 << 20, REAL_FILES)


@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9000), st.booleans()), max_size=150),
    probes=st.lists(st.integers(BASE - 5, BASE + 1500), max_size=20),
    cut=st.integers(BASE, BASE + 1500),
)
def test_offset_index_against_a_list(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, bool]], probes: list[int], cut: int
) -> None:
    path = tmp_path_factory.mktemp("index") / "i.index"
    index, model = offset_index(path), []
    offset, position = BASE, 0
    for offset_step, position_step, spill in steps:
        offset, position = offset + offset_step, position + position_step
        index.add(offset - BASE, position)
        model.append((offset, position))
        if spill:
            index.spill()

    def check(index: OffsetIndex, model: list[tuple[int, int]]) -> None:
        assert index.entries == len(model)
        assert index.last() == (model[-1] if model else (BASE, 0))
        for probe in probes:
            at = bisect_right(model, probe, key=lambda entry: entry[0])
            assert index.lookup(probe) == (model[at - 1] if at else (BASE, 0))
            assert index.lookup(probe, wait=False) == index.lookup(probe)
            at = bisect_right(model, probe * 7, key=lambda entry: entry[1])
            assert index.lookup_position(probe * 7) == (model[at - 1] if at else (BASE, 0))
            assert index.lookup_position(probe * 7, wait=False) == index.lookup_position(probe * 7)

    check(index, model)
    index.truncate_to(cut)
    model = [entry for entry in model if entry[0] < cut]
    check(index, model)
    index.spill()
    check(offset_index(path), model)
    assert path.read_bytes() == b"".join(struct.pack(">ii", o - BASE, p) for o, p in model)


def test_time_index_keeps_only_later_timestamps_and_one_slot_for_the_roll(tmp_path: Path) -> None:
    index = TimeIndex(tmp_path / "t.timeindex", BASE, 12 * 3 + 5, REAL_FILES)
    index.add_if_later(50, BASE + 1)
    index.add_if_later(50, BASE + 2)
    index.add_if_later(49, BASE + 3)
    assert index.entries == 1
    assert not index.is_full
    index.add_if_later(60, BASE + 9)
    assert index.is_full, "three fit, and the third is the roll's"
    assert index.lookup(49) == TimestampOffset(-1, BASE)
    assert index.lookup(59) == TimestampOffset(50, BASE + 1)
    assert index.lookup(60) == index.last() == TimestampOffset(60, BASE + 9)
    index.spill()
    assert (tmp_path / "t.timeindex").read_bytes() == struct.pack(">qiqi", 50, 1, 60, 9)
    index.truncate_to(BASE + 9)
    assert index.last() == TimestampOffset(50, BASE + 1)


def test_an_index_that_a_crash_left_behind_is_emptied_by_clear(tmp_path: Path) -> None:
    path = tmp_path / "i.index"
    path.write_bytes(bytes(100))
    index = offset_index(path)
    index.clear()
    assert index.entries == 0
    assert path.read_bytes() == b""
    assert index.lookup(BASE + 5) == OffsetPosition(BASE, 0)


def test_transaction_index_bytes_and_search(tmp_path: Path) -> None:
    path = tmp_path / "x.txnindex"
    index = TransactionIndex(path, REAL_FILES)
    assert index.entries() == []
    assert not path.exists(), "no aborted transaction, no file"
    first = AbortedTransaction(7, 10, 20, 15)
    second = AbortedTransaction(8, 15, 30, 31)
    index.append(first)
    index.append(second)
    assert path.read_bytes()[:34] == struct.pack(">hqqqq", 0, 7, 10, 20, 15)
    assert TransactionIndex(path, REAL_FILES).entries() == [first, second]
    assert index.overlapping(0, 15) == ([first], True)
    assert index.overlapping(21, 40) == ([second], False)
    index.truncate_to(30)
    assert index.entries() == [first]
