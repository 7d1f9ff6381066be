"""Window and session stores: many values per key, each with a time, which expire.

Keys and values have the formats of Kafka Streams' changelogs. Numbers in parentheses are bytes:

    store      stored key                                 stored value
    window     key + window's start (8) + number (4)      value; if ``timestamped``: timestamp (8) + value
    session    key + session's end (8) + start (8)        value

Entries older than the retention have expired: reads skip them, and puts of them are rejected. Stream time
here is the greatest time ever put (a window's start, a session's end). Expired entries are deleted in the
changelog as well. The changelog is therefore compacted and has no retention by wall-clock time, so that
windows of last year's events are kept as long as those of today's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from penstock.topology.errors import TopologyError
from penstock.topology.serdes import Serde, Window, Windowed
from penstock.topology.stores.ordered_bytes import TimedBytes
from penstock.topology.stores.state_stores import ChangelogRecord, StoreSpec

K = TypeVar("K")
V = TypeVar("V")

_TIME: Final = Struct(">q")
_START: Final = Struct(">qi")
_SESSION: Final = Struct(">qq")
_pack_time = _TIME.pack
_unpack_time = _TIME.unpack_from
pack_start = _START.pack
unpack_start = _START.unpack_from
_pack_session = _SESSION.pack
_unpack_session = _SESSION.unpack_from
_NUMBER_MAX: Final = 0x7FFFFFFF
_TIME_MAX: Final = 0x7FFFFFFFFFFFFFFF


def _start_of(key: bytes, value: bytes | None = None) -> int:
    start_ms: int = _unpack_time(key, len(key) - 12)[0]
    return start_ms


def _end_of(key: bytes, value: bytes | None = None) -> int:
    end_ms: int = _unpack_time(key, len(key) - 16)[0]
    return end_ms


def _segment_ms(retention_ms: int) -> int:
    return max(retention_ms // 4, 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec(StoreSpec):
    """A store of values by key and window start.

    Attributes:
        timestamped: whether values have their own timestamps (aggregates); otherwise the window's start is
            their time (joins).
        duplicates: whether a key may have several values at one time, so that each put adds one (joins).
    """

    retention_ms: int
    window_size_ms: int
    timestamped: bool = True
    duplicates: bool = False

    def __post_init__(self) -> None:
        if self.retention_ms < self.window_size_ms:
            raise TopologyError(
                f"store {self.name} keeps windows of {self.window_size_ms} ms for only {self.retention_ms} ms"
            )

    def new_map(self) -> TimedBytes:
        return TimedBytes(_start_of, _segment_ms(self.retention_ms))

    def open(self, data: TimedBytes) -> WindowStore[Any, Any]:
        return WindowStore(data, self)

    def to_changelog(self, key: bytes, value: bytes | None) -> ChangelogRecord | None:
        if value is None or not self.timestamped:
            return ChangelogRecord(key, value, None if value is None else _start_of(key))
        return ChangelogRecord(key, value[8:], _unpack_time(value)[0])

    def from_changelog(
        self, key: bytes, value: bytes | None, timestamp_ms: int
    ) -> tuple[bytes, bytes | None]:
        if value is None or not self.timestamped:
            return key, value
        return key, _pack_time(timestamp_ms) + value


class WindowStore(Generic[K, V]):
    """Values by key and window start, within the retention."""

    __slots__ = ("_number", "_skip", "data", "key_serde", "spec", "value_serde")

    def __init__(self, data: TimedBytes, spec: WindowSpec) -> None:
        self.data = data
        self.spec = spec
        self.key_serde: Serde[K] = spec.key
        self.value_serde: Serde[V] = spec.value
        self._skip = 8 if spec.timestamped else 0
        self._number: int | None = None

    @property
    def first_kept_ms(self) -> int:
        """Windows that start before this have expired."""
        return self.data.latest_ms - self.spec.retention_ms + 1

    def put(self, key: K, value: V | None, start_ms: int, timestamp_ms: int | None = None) -> bool:
        """Put the value of a window; None deletes it. Return False if the window has expired: nothing is put.

        ``timestamp_ms`` is required if the store is timestamped. With duplicates, putting None has no effect.
        """
        if start_ms < self.first_kept_ms:
            return False
        data, key_bytes = self.data, self.key_serde.serialize(key)
        if self.spec.duplicates:
            if value is not None:
                data.put(self._next_key(key_bytes, start_ms), self._stored(value, timestamp_ms))
        elif value is None:
            data.delete(key_bytes + pack_start(start_ms, 0))
        else:
            data.put(key_bytes + pack_start(start_ms, 0), self._stored(value, timestamp_ms))
        self.expire()
        return True

    def _stored(self, value: V, timestamp_ms: int | None) -> bytes:
        stored = self.value_serde.serialize(value)
        if not self._skip:
            return stored
        assert timestamp_ms is not None, "a timestamped store takes timestamps"
        return _pack_time(timestamp_ms) + stored

    def _next_key(self, key: bytes, start_ms: int) -> bytes:
        """Return the next stored key; values of one key and time are numbered in the order of arrival.

        The numbering continues after a restart.
        """
        number = self._number
        if number is None:
            number = max((unpack_start(stored, len(stored) - 12)[1] for stored in self.data.data), default=0)
        while True:
            number = (number + 1) & _NUMBER_MAX
            stored_key = key + pack_start(start_ms, number)
            if stored_key not in self.data.data:
                self._number = number
                return stored_key

    def expire(self) -> None:
        """Delete expired windows; `put` does this too."""
        self.data.expire(self.first_kept_ms)

    def delete(self, key: K, start_ms: int) -> None:
        self.data.delete(self.key_serde.serialize(key) + pack_start(start_ms, 0))

    def get(self, key: K, start_ms: int) -> V | None:
        """Return the value of one window, or None. For stores with duplicates use `fetch` instead."""
        if start_ms < self.first_kept_ms:
            return None
        stored = self.data.data.get(self.key_serde.serialize(key) + pack_start(start_ms, 0))
        return None if stored is None else self.value_serde.deserialize(stored[self._skip :])

    def get_with_timestamp(self, key: K, start_ms: int) -> tuple[V, int] | None:
        """Return the value and timestamp of one window of a timestamped store, or None."""
        if start_ms < self.first_kept_ms:
            return None
        stored = self.data.data.get(self.key_serde.serialize(key) + pack_start(start_ms, 0))
        return None if stored is None else (self.value_serde.deserialize(stored[8:]), _unpack_time(stored)[0])

    def fetch(
        self, key: K, from_ms: int = 0, to_ms: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[int, V]]:
        """Iterate over starts and values of a key's windows that start within ``from_ms`` to ``to_ms``.

        Both bounds are inclusive.
        """
        skip, value_of = self._skip, self.value_serde.deserialize
        key_bytes = self.key_serde.serialize(key)
        for start_ms, stored in self.fetch_bytes(key_bytes, from_ms, to_ms, reverse=reverse):
            yield start_ms, value_of(stored[skip:])

    def fetch_with_timestamps(
        self, key: K, from_ms: int = 0, to_ms: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[int, V, int]]:
        """Iterate over starts, values and timestamps of a key's windows in a timestamped store."""
        value_of, key_bytes = self.value_serde.deserialize, self.key_serde.serialize(key)
        for start_ms, stored in self.fetch_bytes(key_bytes, from_ms, to_ms, reverse=reverse):
            yield start_ms, value_of(stored[8:]), _unpack_time(stored)[0]

    def fetch_bytes(
        self, key: bytes, from_ms: int = 0, to_ms: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[int, bytes]]:
        """Iterate over starts and stored values of a serialized key's windows."""
        low = key + pack_start(max(from_ms, self.first_kept_ms, 0), 0)
        high = key + pack_start(_TIME_MAX if to_ms is None else max(to_ms, -1) + 1, 0)
        length = len(low)
        for stored_key, stored in self.data.scan(low, high, reverse=reverse):
            if len(stored_key) == length:  # longer keys with this prefix lie in between
                yield unpack_start(stored_key, length - 12)[0], stored

    def all(
        self, from_ms: int = 0, to_ms: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Iterate over all windows that start from ``from_ms`` to ``to_ms``, in the keys' byte order."""
        size_ms, skip, first_ms = self.spec.window_size_ms, self._skip, max(from_ms, self.first_kept_ms)
        key_of, value_of = self.key_serde.deserialize, self.value_serde.deserialize
        for stored_key, stored in self.data.scan(reverse=reverse):
            start_ms = _start_of(stored_key)
            if first_ms <= start_ms and (to_ms is None or start_ms <= to_ms):
                window = Window(start_ms, start_ms + size_ms)
                yield Windowed(key_of(stored_key[:-12]), window), value_of(stored[skip:])


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec(StoreSpec):
    """A store of values by key and session."""

    retention_ms: int

    def new_map(self) -> TimedBytes:
        return TimedBytes(_end_of, _segment_ms(self.retention_ms))

    def open(self, data: TimedBytes) -> SessionStore[Any, Any]:
        return SessionStore(data, self)

    def to_changelog(self, key: bytes, value: bytes | None) -> ChangelogRecord | None:
        return ChangelogRecord(key, value, None if value is None else _end_of(key))


class SessionStore(Generic[K, V]):
    """Values by key and session, within the retention."""

    __slots__ = ("data", "key_serde", "spec", "value_serde")

    def __init__(self, data: TimedBytes, spec: SessionSpec) -> None:
        self.data = data
        self.spec = spec
        self.key_serde: Serde[K] = spec.key
        self.value_serde: Serde[V] = spec.value

    @property
    def first_kept_ms(self) -> int:
        """Sessions that end before this have expired."""
        return self.data.latest_ms - self.spec.retention_ms + 1

    def put(self, key: K, window: Window, value: V | None) -> bool:
        """Put the value of a session; None deletes it. Return False if it has expired: nothing is put."""
        if window.end_ms < self.first_kept_ms:
            return False
        stored_key = self.key_serde.serialize(key) + _pack_session(window.end_ms, window.start_ms)
        if value is None:
            self.data.delete(stored_key)
        else:
            self.data.put(stored_key, self.value_serde.serialize(value))
        self.data.expire(self.first_kept_ms)
        return True

    def delete(self, key: K, window: Window) -> None:
        self.data.delete(self.key_serde.serialize(key) + _pack_session(window.end_ms, window.start_ms))

    def get(self, key: K, window: Window) -> V | None:
        """Return the value of one session, or None."""
        if window.end_ms < self.first_kept_ms:
            return None
        key_bytes = self.key_serde.serialize(key)
        stored = self.data.data.get(key_bytes + _pack_session(window.end_ms, window.start_ms))
        return None if stored is None else self.value_serde.deserialize(stored)

    def find(
        self, key: K, earliest_end_ms: int = 0, latest_start_ms: int | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[Window, V]]:
        """Iterate over a key's sessions in the order of their ends.

        The sessions end at or after ``earliest_end_ms`` and start at or before ``latest_start_ms``.
        """
        value_of, key_bytes = self.value_serde.deserialize, self.key_serde.serialize(key)
        low = key_bytes + _pack_time(max(earliest_end_ms, self.first_kept_ms, 0))
        high = key_bytes + _pack_time(_TIME_MAX)
        length = len(key_bytes) + 16
        for stored_key, stored in self.data.scan(low, high, reverse=reverse):
            if len(stored_key) == length:  # longer keys with this prefix lie in between
                end_ms, start_ms = _unpack_session(stored_key, length - 16)
                if latest_start_ms is None or start_ms <= latest_start_ms:
                    yield Window(start_ms, end_ms), value_of(stored)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """Iterate over all sessions and their values, in the keys' byte order."""
        key_of, value_of = self.key_serde.deserialize, self.value_serde.deserialize
        first_ms = self.first_kept_ms
        for stored_key, stored in self.data.scan(reverse=reverse):
            end_ms, start_ms = _unpack_session(stored_key, len(stored_key) - 16)
            if end_ms >= first_ms:
                yield Windowed(key_of(stored_key[:-16]), Window(start_ms, end_ms)), value_of(stored)
