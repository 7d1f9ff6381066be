"""The state log: whatever attempts were made, the state read is the state kept; damage is reported."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams_without_spark import MemoryPages

from penstock.spark.streams.state import log
from penstock.spark.streams.state.log import Changes, GroupState, StateDamaged, append, load
from penstock.topology.stores.ordered_bytes import OrderedBytes


def new_map(name: str) -> OrderedBytes:
    return OrderedBytes()


def change(state: GroupState, store: str, changes: dict[bytes, bytes | None]) -> dict:
    entries = state.maps.setdefault(store, OrderedBytes())
    for key, value in changes.items():
        if value is None:
            entries.delete(key)
        else:
            entries.put(key, value)
    delta = entries.take_delta()
    return {store: Changes.of(delta)} if delta else {}


def batch(pages: MemoryPages, known: GroupState | None, store: str, changes: dict) -> GroupState:
    state, _ = load(pages, known, new_map)
    append(pages, state, change(state, store, changes))
    return state


KEYS = st.sampled_from([b"a", b"b", b"c", b""])
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=40), max_size=4)
ATTEMPTS = st.lists(
    st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from(["s", "t"]), CHANGES, CHANGES), max_size=25
)


@pytest.fixture(autouse=True)
def short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "CHANGES_MIN_BYTES", 100)
    monkeypatch.setattr(log, "SEGMENT_BYTES", 50)


@given(ATTEMPTS)
def test_workers_with_memories_see_the_state_that_was_kept(attempts: list) -> None:
    """Run three workers, with attempts that fail.

    A failed attempt leaves its changes in its worker's memory, and another worker runs the batch again with
    other changes.
    """
    pages = MemoryPages()
    workers: list[GroupState | None] = [None, None, None]
    expected: dict[str, dict[bytes, bytes]] = {}
    for worker, fails_first, store, changes, others in attempts:
        if fails_first:
            lost = (worker + 1) % 3
            workers[lost] = batch(copy.deepcopy(pages), workers[lost], store, others)
        workers[worker] = batch(pages, workers[worker], store, changes)
        kept = expected.setdefault(store, {})
        for key, value in changes.items():
            if value is None:
                kept.pop(key, None)
            else:
                kept[key] = value
        for known in (None, copy.deepcopy(workers[(worker + 2) % 3])):
            state, _ = load(pages, known, new_map)
            assert {name: m.data for name, m in state.maps.items() if m.data} == {
                n: e for n, e in expected.items() if e
            }


def test_a_memory_that_is_up_to_date_reads_one_page() -> None:
    pages = MemoryPages()
    state = batch(pages, None, "s", {b"a": b"1"})
    pages.read = 0
    again, is_same = load(pages, state, new_map)
    assert (again is state, is_same, pages.read) == (True, True, 1)


def test_a_memory_that_is_behind_reads_what_it_lacks() -> None:
    pages = MemoryPages()
    behind = copy.deepcopy(batch(pages, None, "s", {b"a": b"1"}))
    ahead = copy.deepcopy(behind)
    for number in range(2):
        ahead = batch(pages, ahead, "s", {b"b": b"%d" % number})
    pages.read = 0
    state, is_same = load(pages, behind, new_map)
    assert (state.maps["s"].data, is_same, pages.read) == ({b"a": b"1", b"b": b"1"}, False, 3)


def test_a_memory_that_is_ahead_is_not_believed() -> None:
    pages = MemoryPages()
    first = batch(pages, None, "s", {b"a": b"1"})
    failed = batch(copy.deepcopy(pages), copy.deepcopy(first), "s", {b"a": b"lost"})
    state, _ = load(pages, failed, new_map)
    assert state.maps["s"].data == {b"a": b"1"}
    # The memory's version is that of the state that was kept, but its history differs.
    batch(pages, first, "s", {b"b": b"2"})
    failed = batch(copy.deepcopy(pages), failed, "t", {b"a": b"lost"})
    state, _ = load(pages, failed, new_map)
    assert {name: m.data for name, m in state.maps.items()} == {"s": {b"a": b"1", b"b": b"2"}}


def test_chains_begin_anew_and_old_segments_go() -> None:
    pages = MemoryPages()
    state = None
    for number in range(200):
        state = batch(
            pages,
            state,
            "s",
            {b"k": b"%d" % number, b"gone%d" % number: b"x", b"gone%d" % (number - 1): None},
        )
    assert len(pages.segments("s")) < 12
    found, _ = load(pages, None, new_map)
    assert found.maps["s"].data == {b"k": b"199", b"gone199": b"x"}
    assert found.size_bytes < 1000


def test_a_small_change_does_not_write_the_whole_anew() -> None:
    pages = MemoryPages()
    state = batch(pages, None, "s", {b"%03d" % n: b"x" * 20 for n in range(100)})
    whole = len(pages.segments("s"))
    batch(pages, state, "s", {b"000": b"y"})
    assert len(pages.segments("s")) == whole + 1
    assert whole > 50  # pages of 50 bytes


def chain_of_three(first: int = 0) -> MemoryPages:
    pages = MemoryPages()
    state = None
    for number in range(first, first + 3):
        state = batch(pages, state, "s", {b"k": b"%d" % number})
    return pages


def test_lost_segments_are_named() -> None:
    for number in range(3):
        pages = chain_of_three()
        del pages.pages[pages.segments("s")[number]]
        with pytest.raises(StateDamaged, match=f"segment {number} of store s is missing"):
            load(pages, None, new_map)


def test_segments_of_another_chain_are_named() -> None:
    pages = chain_of_three()
    first, second, third = pages.segments("s")
    pages.pages[second] = pages.pages[first]
    with pytest.raises(StateDamaged, match="does not follow"):
        load(pages, None, new_map)
    pages = chain_of_three()
    pages.pages[third] = chain_of_three(first=1).pages[third]
    with pytest.raises(StateDamaged, match="does not follow"):
        load(pages, None, new_map)
    pages = chain_of_three()
    pages.pages[third] = pages.pages[third][:20]
    with pytest.raises(StateDamaged, match="20 bytes"):
        load(pages, None, new_map)


def test_the_table_of_stores_tells_newer_releases_and_damage() -> None:
    pages = chain_of_three()
    pages.pages[b"meta"] = b'{"version": 7, "stores": {}}'
    with pytest.raises(StateDamaged, match="version 7"):
        load(pages, None, new_map)
    pages.pages[b"meta"] = b"{]"
    with pytest.raises(StateDamaged, match="damaged"):
        load(pages, None, new_map)


def test_attempts_that_did_the_same_may_be_mixed() -> None:
    """Spark keeps one attempt's file and continues with the other's if an executor dies between the two."""
    pages = MemoryPages()
    batch(pages, None, "s", {b"a": b"1"})
    one, other = copy.deepcopy(pages), copy.deepcopy(pages)
    batch(one, None, "s", {b"a": b"2", b"b": b"1"})
    went_on = batch(other, None, "s", {b"a": b"2", b"b": b"1"})
    before = dict(other.pages)
    batch(other, went_on, "s", {b"b": b"2"})
    one.pages |= {key: value for key, value in other.pages.items() if before.get(key) != value}
    found, _ = load(one, None, new_map)
    assert dict(found.maps["s"].data) == {b"a": b"2", b"b": b"2"}
