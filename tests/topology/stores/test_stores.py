"""Stores over their bytes: formats of keys, timestamps, ranges, expiry, changelogs, versions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.topology.serdes import Window, Windowed, long, string
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec, VersionedRecord, VersionedSpec
from penstock.topology.stores.window_stores import SessionSpec, WindowSpec

KEY_VALUE = KeyValueSpec(name="kv", key=string, value=long)
WINDOWS = WindowSpec(name="w", key=string, value=long, retention_ms=10_000, window_size_ms=1_000)
JOIN = WindowSpec(
    name="j",
    key=string,
    value=long,
    retention_ms=10_000,
    window_size_ms=1_000,
    timestamped=False,
    duplicates=True,
)
SESSIONS = SessionSpec(name="s", key=string, value=long, retention_ms=10_000)
VERSIONS = VersionedSpec(name="v", key=string, value=string, history_retention_ms=100)


def _restored(spec: StoreSpec, data: OrderedBytes, commit_ms: int = 0) -> OrderedBytes:
    """The map as it is restored from its changelog."""
    restored = spec.new_map()
    changes = [spec.to_changelog(key, value) for key, value in data.take_delta().items()]
    restored.apply(
        spec.from_changelog(r.key, r.value, commit_ms if r.timestamp_ms is None else r.timestamp_ms)
        for r in changes
        if r is not None
    )
    return restored


def test_key_value() -> None:
    data = KEY_VALUE.new_map()
    store = KEY_VALUE.open(data)
    store.put("b", 2, 20)
    store.put("a", 1, 10)
    store.put("c", 3, 30)
    store.put("ab", 0, 5)
    assert store.get("a") == 1
    assert store.get("x") is None
    assert store.get_with_timestamp("b") == (2, 20)
    assert list(store.all()) == [("a", 1), ("ab", 0), ("b", 2), ("c", 3)]
    assert list(store.range("ab", "b")) == [("ab", 0), ("b", 2)]
    assert list(store.range(last="a")) == [("a", 1)]
    assert list(store.range("b", reverse=True)) == [("c", 3), ("b", 2)]
    assert list(store.prefix(b"a")) == [("a", 1), ("ab", 0)]
    assert store.put_if_absent("a", 9, 40) == 1
    assert store.put_if_absent("z", 9, 40) is None
    store.delete("c")
    store.put("b", None, 50)
    assert "c" not in store
    assert len(store) == 3
    assert _restored(KEY_VALUE, data).data == data.data


def test_the_changelog_of_a_key_value_store_is_that_of_kafka_streams() -> None:
    data = KEY_VALUE.new_map()
    KEY_VALUE.open(data).put("k", 7, 1234)
    ((key, value),) = data.take_delta().items()
    assert KEY_VALUE.to_changelog(key, value) == (b"k", (7).to_bytes(8, "big"), 1234)
    assert KEY_VALUE.to_changelog(key, None) == (b"k", None, None)


def test_windows_of_a_key_between_two_times() -> None:
    data = WINDOWS.new_map()
    store = WINDOWS.open(data)
    for start in (1000, 2000, 3000):
        store.put("a", start, start, start + 5)
    store.put("a\x00", 1, 2000, 0)  # sorts among the windows of "a"
    store.put("b", 1, 2000, 0)
    assert list(store.fetch("a", 1000, 2000)) == [(1000, 1000), (2000, 2000)]
    assert list(store.fetch("a", 1001)) == [(2000, 2000), (3000, 3000)]
    assert list(store.fetch("a", reverse=True)) == [(3000, 3000), (2000, 2000), (1000, 1000)]
    assert list(store.fetch_with_timestamps("a", 3000)) == [(3000, 3000, 3005)]
    assert store.get("a", 2000) == 2000
    assert store.get_with_timestamp("a", 2000) == (2000, 2005)
    assert store.get("a", 2001) is None
    assert {windowed for windowed, _ in store.all(2000, 2000)} == {
        Windowed("a", Window(2000, 3000)),
        Windowed("a\x00", Window(2000, 3000)),
        Windowed("b", Window(2000, 3000)),
    }
    store.put("a", None, 2000, 0)
    assert [start for start, _ in store.fetch("a")] == [1000, 3000]
    assert _restored(WINDOWS, data).data == data.data


def test_windows_expire_when_time_has_passed() -> None:
    data = WINDOWS.new_map()
    store = WINDOWS.open(data)
    assert store.put("a", 1, 0, 0)
    assert store.put("a", 2, 5_000, 0)
    assert store.put("b", 3, 10_000, 0)
    assert store.get("a", 0) is None  # it expired with the retention
    assert list(store.fetch("a")) == [(5_000, 2)]
    assert not store.put("a", 4, 0, 0)
    store.put("b", 5, 30_000, 0)
    assert len(data) == 1
    assert data.take_delta()[b"a" + (5_000).to_bytes(8, "big") + bytes(4)] is None


def test_the_key_of_a_window_is_that_of_kafka_streams() -> None:
    data = WINDOWS.new_map()
    WINDOWS.open(data).put("key", 7, 1000, 1234)
    ((key, value),) = data.take_delta().items()
    assert key == b"key" + (1000).to_bytes(8, "big") + bytes(4)
    assert WINDOWS.to_changelog(key, value) == (key, (7).to_bytes(8, "big"), 1234)


def test_duplicates_at_one_time_stay_in_their_order_after_a_restart_too() -> None:
    data = JOIN.new_map()
    store = JOIN.open(data)
    store.put("b", 1, 1000)
    store.put("a", 1, 1000)
    store.put("a", 2, 1000)
    store.put("a", None, 1000)
    store = JOIN.open(_restored(JOIN, data))
    store.put("a", 3, 1000)
    store.put("b", 2, 1000)
    assert list(store.fetch("a")) == [(1000, 1), (1000, 2), (1000, 3)]
    assert list(store.fetch("b")) == [(1000, 1), (1000, 2)]


def test_a_duplicate_is_put_behind_those_of_before_a_restart() -> None:
    """If its numbers started from zero, it would stand before those with greater ones."""
    data = JOIN.new_map()
    store = JOIN.open(data)
    for key in "bca":
        store.put(key, 1, 1000)
    store = JOIN.open(_restored(JOIN, data))
    store.put("a", 2, 1000)
    assert list(store.fetch("a")) == [(1000, 1), (1000, 2)]


def test_sessions_that_touch_a_span_of_time() -> None:
    data = SESSIONS.new_map()
    store = SESSIONS.open(data)
    for start, end in [(100, 200), (300, 300), (500, 900)]:
        store.put("a", Window(start, end), end)
    store.put("a\x00", Window(250, 260), 0)
    assert [window for window, _ in store.find("a", 200, 300)] == [Window(100, 200), Window(300, 300)]
    assert [window for window, _ in store.find("a", 301)] == [Window(500, 900)]
    assert store.get("a", Window(500, 900)) == 900
    store.put("a", Window(300, 300), None)
    store.delete("a", Window(100, 200))
    assert list(store.find("a")) == [(Window(500, 900), 900)]
    assert len(list(store.all())) == 2
    assert _restored(SESSIONS, data).data == data.data
    assert store.put("b", Window(20_000, 20_001), 1)
    assert list(store.find("a")) == []
    assert not store.put("a", Window(500, 900), 1)


def test_the_key_of_a_session_is_that_of_kafka_streams() -> None:
    data = SESSIONS.new_map()
    SESSIONS.open(data).put("key", Window(100, 200), 1)
    ((key, _),) = data.take_delta().items()
    assert key == b"key" + (200).to_bytes(8, "big") + (100).to_bytes(8, "big")


def test_versions_in_and_out_of_order() -> None:
    data = VERSIONS.new_map()
    store = VERSIONS.open(data)
    assert store.put("k", "a", 10) == (True, True)
    assert store.put("k", "c", 30) == (True, True)
    assert store.put("k", "b", 20) == (True, False)
    assert store.put("k", None, 40) == (True, True)
    assert store.get("k") is None
    assert store.get("k", 9) is None
    assert [store.get("k", time) for time in (10, 19, 20, 30, 39, 40)] == ["a", "a", "b", "c", "c", None]
    assert store.get_with_timestamp("k", 25) == VersionedRecord("b", 20, 30)
    assert list(store.fetch("k", 15, 25)) == [VersionedRecord("b", 20, 30), VersionedRecord("a", 10, 20)]
    assert _restored(VERSIONS, data).data == data.data


def test_history_ends_with_the_retention_and_the_latest_version_stays() -> None:
    data = VERSIONS.new_map()
    store = VERSIONS.open(data)
    store.put("quiet", "q", 10)
    store.put("k", "a", 10)
    store.put("k", "b", 50)
    store.put("k", "c", 200)
    assert store.put("k", "late", 99) == (False, False)
    assert store.get("k", 60) is None  # b, but its time is out of the history
    assert store.get("k", 100) == "b"
    assert store.get("quiet") == "q"
    store.put("k", "d", 400)
    assert len(data) == 3  # quiet's, c (valid until 400, within the history) and d
    assert dict(store.all()) == {"k": "d", "quiet": "q"}


def test_a_version_that_is_trimmed_leaves_no_tombstone_in_the_changelog() -> None:
    data = VERSIONS.new_map()
    store = VERSIONS.open(data)
    store.put("k", "a", 10)
    data.take_delta()
    store.put("k", "b", 500)
    store.put("k", "c", 900)
    delta = data.take_delta()
    assert None in delta.values()
    records = [VERSIONS.to_changelog(key, value) for key, value in delta.items()]
    assert [record.value for record in records if record is not None] == [b"b", b"c"]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.none() | st.sampled_from("xyz"), st.integers(0, 50)), max_size=30
    )
)
def test_versions_within_the_history_are_those_of_a_list(puts: list[tuple[str, str | None, int]]) -> None:
    store = VERSIONS.open(VERSIONS.new_map())
    model: dict[str, dict[int, str | None]] = {"a": {}, "b": {}}
    for key, value, time in puts:
        store.put(key, value, time)
        model[key][time] = value
    for key, versions in model.items():
        for time in range(51):
            before = [at for at in versions if at <= time]
            assert store.get(key, time) == (versions[max(before)] if before else None)
        assert store.get(key) == (versions[max(versions)] if versions else None)
