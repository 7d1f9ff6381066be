"""The ordered byte map compared with a plain dict that is sorted on demand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.topology.stores.ordered_bytes import OrderedBytes, after, after_prefix

KEYS = st.binary(max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.binary(max_size=2)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("scan"), st.none() | KEYS, st.none() | KEYS, st.booleans(), st.integers(0, 5)),
        st.tuples(st.just("prefix"), KEYS),
        st.tuples(st.just("take")),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_is_a_dict_in_key_order_and_its_deltas_rebuild_it(steps: list[tuple]) -> None:
    store, model, rebuilt = OrderedBytes(), {}, OrderedBytes()
    for step in steps:
        match step:
            case ("put", key, value):
                store.put(key, value)
                model[key] = value
            case ("delete", key):
                store.delete(key)
                model.pop(key, None)
            case ("scan", low, high, reverse, limit):
                expected = sorted(
                    (key, value)
                    for key, value in model.items()
                    if (low is None or key >= low) and (high is None or key < high)
                )
                assert list(store.scan(low, high, reverse=reverse)) == (
                    expected[::-1] if reverse else expected
                )
                some = list(store.scan(low, high, reverse=reverse, limit=limit))
                assert some == (expected[::-1] if reverse else expected)[:limit]
            case ("prefix", prefix):
                assert list(store.prefix(prefix)) == sorted(
                    item for item in model.items() if item[0].startswith(prefix)
                )
            case _:
                rebuilt.apply(store.take_delta().items())
                assert rebuilt.data == model
                assert list(rebuilt.scan()) == sorted(model.items())  # in order from here on
    assert store.data == model


def test_many_keys_split_and_empty_chunks() -> None:
    store = OrderedBytes()
    list(store.scan())  # from here on the keys are kept in order
    numbers = [number * 7919 % 10_007 for number in range(10_007)]
    for number in numbers:
        store.put(b"%05d" % number, b"")
    assert [int(key) for key, _ in store.scan()] == list(range(10_007))
    assert [int(key) for key, _ in store.scan(b"00600", b"05000", reverse=True)] == list(range(4999, 599, -1))
    assert [int(key) for key, _ in store.scan(b"00600", b"09000", limit=3_000)] == list(range(600, 3_600))
    last = store.scan(b"00600", b"09000", reverse=True, limit=3_000)
    assert [int(key) for key, _ in last] == list(range(8_999, 5_999, -1))
    given = OrderedBytes(store.scan())
    given.set_order([key for key, _ in store.scan()])
    assert list(given.scan(b"04000", b"04010")) == list(store.scan(b"04000", b"04010"))
    for number in numbers[:10_000]:
        store.delete(b"%05d" % number)
    assert [int(key) for key, _ in store.scan()] == sorted(numbers[10_000:])


def test_a_scan_goes_on_while_the_map_changes() -> None:
    store = OrderedBytes([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
    seen = []
    for key, value in store.scan():
        seen.append((key, value))
        store.delete(b"b")
        store.put(b"z", b"9")
    assert seen == [(b"a", b"1"), (b"c", b"3")]


def test_a_deletion_of_what_was_never_there_is_no_change() -> None:
    store = OrderedBytes([(b"a", b"1")])
    store.delete(b"b")
    assert store.take_delta() == {}
    store.delete(b"a")
    assert store.take_delta() == {b"a": None}


def test_ends_of_ranges() -> None:
    assert after_prefix(b"a\xff\xff") == b"b"
    assert after_prefix(b"\xff") is None
    assert after_prefix(b"") is None
    assert after(b"a") == b"a\x00"
