"""One partition of a store, fed with batches as a fetch returns them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.client.connections.metadata import TopicPartition
from penstock.protocol.records import Record, encode_batch, encode_end_txn_marker
from penstock.topology.serdes import long, string
from penstock.topology.stores.state_stores import KeyValueSpec
from penstock.topology.stores.window_stores import WindowSpec
from penstock.views.replica import Replica

TP = TopicPartition("changelog", 0)
COUNTS = KeyValueSpec(name="counts", key=string, value=long)


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


def batch(at: int, producer: int | None, **values: int | None) -> memoryview:
    records = [
        Record(0, 5, key.encode(), None if value is None else number(value), ())
        for key, value in values.items()
    ]
    if producer is None:
        return memoryview(encode_batch(records, at))
    return memoryview(
        encode_batch(records, at, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
    )


def marker(at: int, producer: int) -> memoryview:
    ended = encode_end_txn_marker(
        committed=True,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=5,
        base_offset=at,
    )
    return memoryview(ended)


def shown(replica: Replica) -> dict[str, int]:
    return dict(replica.store.all())


def test_a_transaction_waits_for_its_end() -> None:
    replica = Replica(COUNTS, TP)
    replica.restart(0)
    replica.take([batch(0, None, a=1)], 1, 1)
    assert (shown(replica), replica.position, replica.is_ready) == ({"a": 1}, 1, True)
    assert not replica.take([batch(1, 7, a=2, b=2)], 3, 9)
    assert not replica.take([batch(3, 7, c=2)], 4, 9)
    assert (shown(replica), replica.position, replica.read_until) == ({"a": 1}, 1, 4)
    assert replica.take([marker(4, 7)], 5, 9)
    assert (shown(replica), replica.position) == ({"a": 2, "b": 2, "c": 2}, 5)


def test_transactions_that_overlap_come_together() -> None:
    replica = Replica(COUNTS, TP)
    replica.restart(0)
    both = b"".join([batch(0, 7, a=1), batch(1, 8, b=1), marker(2, 7)])
    assert not replica.take([memoryview(both)], 3, 9)
    assert shown(replica) == {}
    rest = b"".join([batch(3, 8, a=2), marker(4, 8), batch(5, 9, c=3)])
    assert replica.take([memoryview(rest)], 6, 9)
    assert (shown(replica), replica.position) == ({"a": 2, "b": 1}, 5)
    assert replica.take([marker(6, 9)], 7, 9)
    assert shown(replica) == {"a": 2, "b": 1, "c": 3}


def test_at_the_last_stable_offset_nothing_is_undecided() -> None:
    """Compaction may have removed a transaction's marker; its records are committed all the same."""
    replica = Replica(COUNTS, TP)
    replica.restart(0)
    assert replica.take([batch(0, 7, a=1)], 1, 1)
    assert (shown(replica), replica.is_ready) == ({"a": 1}, True)


def test_deletions_null_keys_and_a_new_beginning() -> None:
    replica = Replica(COUNTS, TP)
    replica.restart(0)
    records = [Record(0, 5, None, number(1), ()), Record(0, 6, b"a", number(1), ())]
    replica.take([memoryview(encode_batch(records, 0)), batch(2, None, b=2)], 3, 3)
    assert shown(replica) == {"a": 1, "b": 2}
    replica.take([batch(3, None, a=None)], 4, 4)
    assert list(replica.map.scan()) == [(b"b", number(5) + number(2))]
    replica.restart(10)
    assert (shown(replica), replica.position, replica.is_ready) == ({}, 10, False)
    replica.take([], 10, 10)
    assert replica.is_ready


def test_keys_stay_in_order_when_they_come_later() -> None:
    replica = Replica(COUNTS, TP)
    replica.restart(0)
    replica.take([batch(0, None, d=1, b=1)], 2, 2)
    replica.take([batch(2, None, c=1, a=1, d=None)], 5, 5)
    assert [key for key, _ in replica.map.scan()] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("at_once", [True, False])
def test_windows_expire_by_themselves(at_once: bool) -> None:
    spec = WindowSpec(name="w", key=string, value=long, retention_ms=4_000, window_size_ms=1_000)
    replica = Replica(spec, TP)
    replica.restart(0)
    starts = [0, 1_000, 9_000]
    batches = [
        memoryview(encode_batch([Record(0, 5, b"a" + number(start) + bytes(4), number(1), ())], offset))
        for offset, start in enumerate(starts)
    ]
    if at_once:
        replica.take(batches, 3, 3)
    else:
        for offset, span in enumerate(batches):
            replica.take([span], offset + 1, 3)
    assert [window.key for window, _ in replica.store.all()] == ["a"]
    assert len(replica) == 1
    assert not replica.map.take_delta()


def test_a_large_transaction_leaves_room_for_those_who_ask_and_comes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There are no pauses while a log is read for the first time: queries are not possible then."""
    pauses: list[bool] = []
    # Replace the module's own name only: other threads of the process sleep too.
    sleep = SimpleNamespace(sleep=lambda _: pauses.append(replica.lock.locked()))
    monkeypatch.setattr("penstock.views.replica.time", sleep)
    replica = Replica(COUNTS, TP)
    replica.restart(0)
    first = {f"k{n}": n for n in range(3_000)}
    replica.take([batch(0, None, **first)], 3_000, 3_000)
    assert (shown(replica), pauses) == (first, [])
    second: dict[str, int | None] = {f"k{n}": n + 1 for n in range(2_000, 5_000)}
    replica.take([batch(3_000, None, **second)], 6_000, 6_000)
    assert shown(replica) == {**first, **second}
    assert pauses == [False, False, True, True]
    replica.take([batch(6_000, None, k0=None)], 6_001, 6_001)
    assert len(pauses) == 4, "a small one costs no pause"
    assert "k0" not in shown(replica)
