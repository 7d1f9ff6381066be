"""State stores: typed access to the state of a node, over the bytes of an `OrderedBytes`.

A `StoreSpec` is the definition: name, serdes and retention. `StoreSpec.open` returns the store of one task.
Stored keys and changelog records have the formats of Kafka Streams. Numbers in parentheses are bytes:

    store                  stored key                         stored value
    key-value              key                                timestamp (8) + value
    versioned (KIP-889)    key + version's timestamp (8)      flag (1 byte; 0: tombstone) + value
    window, session        see `penstock.topology.stores.window_stores`

A changelog record of a key-value or versioned store has the plain key and value, and its timestamp is that of
the value or version. Times are milliseconds since 1970. A value of None deletes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from penstock.topology.serdes import Serde, raw
from penstock.topology.stores.ordered_bytes import OrderedBytes, TimedBytes, after, after_prefix

K = TypeVar("K")
V = TypeVar("V")

_TIME: Final = Struct(">q")
_pack_time = _TIME.pack
_unpack_time = _TIME.unpack_from
DAY_MS: Final = 86_400_000


class ChangelogRecord(NamedTuple):
    """An entry in the form of its changelog topic. If ``timestamp_ms`` is None, it gets the commit's time."""

    key: bytes
    value: bytes | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec(ABC):
    """The definition of a store. ``logged`` says whether it has a changelog topic."""

    name: str
    key: Serde[Any]
    value: Serde[Any]
    logged: bool = True

    def new_map(self) -> OrderedBytes:
        """Create an empty map of the kind that `open` takes; restore it with `OrderedBytes.apply`."""
        return OrderedBytes()

    @abstractmethod
    def open(self, data: Any) -> Any:
        """Return the store of one task over its bytes."""

    def to_changelog(self, key: bytes, value: bytes | None) -> ChangelogRecord | None:
        """Convert a change of the store's delta to a changelog record; None if the changelog needs none."""
        return ChangelogRecord(key, value, None)

    def from_changelog(
        self, key: bytes, value: bytes | None, timestamp_ms: int
    ) -> tuple[bytes, bytes | None]:
        """Convert a changelog record to the change that `OrderedBytes.apply` takes for restoring."""
        return key, value

    def changelog_config(self) -> Mapping[str, str]:
        """Return the topic configs of the changelog."""
        return {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValueSpec(StoreSpec):
    """A store of the latest value of each key and its timestamp.

    A value expires once stream time is ``ttl_ms`` past its timestamp. None: values do not expire.
    """

    ttl_ms: int | None = None

    def new_map(self) -> OrderedBytes:
        if self.ttl_ms is None:
            return OrderedBytes()
        return TimedBytes(_value_time, max(self.ttl_ms // 4, 1_000), moves=True)

    def open(self, data: OrderedBytes) -> KeyValueStore[Any, Any]:
        if self.ttl_ms is None:
            return KeyValueStore(data, self.key, self.value)
        assert isinstance(data, TimedBytes), "a store's map is made by its spec"
        return ExpiringStore(data, self.key, self.value, self.ttl_ms)

    def to_changelog(self, key: bytes, value: bytes | None) -> ChangelogRecord:
        if value is None:
            return ChangelogRecord(key, None, None)
        return ChangelogRecord(key, value[8:], _unpack_time(value)[0])

    def from_changelog(
        self, key: bytes, value: bytes | None, timestamp_ms: int
    ) -> tuple[bytes, bytes | None]:
        return key, None if value is None else _pack_time(timestamp_ms) + value


def _value_time(key: bytes, value: bytes) -> int:
    time_ms: int = _unpack_time(value)[0]
    return time_ms


class KeyValueStore(Generic[K, V]):
    """The latest value of each key and its timestamp. Iteration is in the order of the keys' bytes."""

    __slots__ = ("_get", "data", "key_serde", "value_serde")

    def __init__(self, data: OrderedBytes, key: Serde[K], value: Serde[V]) -> None:
        self.data = data
        self.key_serde = key
        self.value_serde = value
        self._get = data.data.get

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, key: K) -> bool:
        return self.key_serde.serialize(key) in self.data

    def get(self, key: K) -> V | None:
        """Return the value, or None."""
        stored = self._get(self.key_serde.serialize(key))
        return None if stored is None else self.value_serde.deserialize(stored[8:])

    def get_with_timestamp(self, key: K) -> tuple[V, int] | None:
        """Return the value and its timestamp, or None."""
        stored = self._get(self.key_serde.serialize(key))
        if stored is None:
            return None
        return self.value_serde.deserialize(stored[8:]), _unpack_time(stored)[0]

    def put(self, key: K, value: V | None, timestamp_ms: int) -> None:
        """Replace the value; None deletes it."""
        if value is None:
            self.data.delete(self.key_serde.serialize(key))
        else:
            stored = _pack_time(timestamp_ms) + self.value_serde.serialize(value)
            self.data.put(self.key_serde.serialize(key), stored)

    def put_if_absent(self, key: K, value: V, timestamp_ms: int) -> V | None:
        """Put the value if the key has none; return the value that was present, or None."""
        present = self.get(key)
        if present is None:
            self.put(key, value, timestamp_ms)
        return present

    def delete(self, key: K) -> None:
        self.data.delete(self.key_serde.serialize(key))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Iterate over all keys and values."""
        return self._pairs(self.data.scan(reverse=reverse))

    def range(
        self, first: K | None = None, last: K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        """Iterate from ``first`` to ``last``, both inclusive, by the keys' bytes; None leaves a side open."""
        low = None if first is None else self.key_serde.serialize(first)
        high = None if last is None else after(self.key_serde.serialize(last))
        return self._pairs(self.data.scan(low, high, reverse=reverse))

    def prefix(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Iterate over the keys whose bytes begin with ``prefix``, and their values."""
        return self._pairs(self.data.scan(prefix, after_prefix(prefix), reverse=reverse))

    def _pairs(self, entries: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[K, V]]:
        key, value = self.key_serde.deserialize, self.value_serde.deserialize
        for stored_key, stored in entries:
            yield key(stored_key), value(stored[8:])


class ExpiringStore(KeyValueStore[K, V]):
    """A key-value store whose values expire after their time to live.

    ``stream_time`` returns the current time; until a task sets it, that is the greatest timestamp put so far.
    """

    __slots__ = ("_timed", "stream_time", "ttl_ms")

    def __init__(self, data: TimedBytes, key: Serde[K], value: Serde[V], ttl_ms: int) -> None:
        super().__init__(data, key, value)
        self._timed = data
        self.ttl_ms = ttl_ms
        self.stream_time: Callable[[], int] = lambda: data.latest_ms

    def _alive(self, stored: bytes) -> bool:
        timestamp_ms: int = _unpack_time(stored)[0]
        return timestamp_ms + self.ttl_ms > self.stream_time()

    def __contains__(self, key: K) -> bool:
        return self.get_with_timestamp(key) is not None

    def get(self, key: K) -> V | None:
        found = self.get_with_timestamp(key)
        return None if found is None else found[0]

    def get_with_timestamp(self, key: K) -> tuple[V, int] | None:
        stored = self._get(self.key_serde.serialize(key))
        if stored is None or not self._alive(stored):
            return None
        return self.value_serde.deserialize(stored[8:]), _unpack_time(stored)[0]

    def put(self, key: K, value: V | None, timestamp_ms: int) -> None:
        super().put(key, value, timestamp_ms)
        self.expire()

    def expire(self) -> None:
        """Delete expired values; `put` does this too."""
        self._timed.expire(self.stream_time() - self.ttl_ms + 1)

    def _pairs(self, entries: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[K, V]]:
        return super()._pairs(entry for entry in entries if self._alive(entry[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesSpec(StoreSpec):
    """The definition of an untyped store, which is the `OrderedBytes` itself."""

    key: Serde[Any] = raw
    value: Serde[Any] = raw

    def open(self, data: OrderedBytes) -> OrderedBytes:
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedSpec(StoreSpec):
    """A store of each key's values of the last ``history_retention_ms``, by timestamp (KIP-889)."""

    history_retention_ms: int

    def new_map(self) -> TimedBytes:
        return TimedBytes(_version_time)

    def open(self, data: TimedBytes) -> VersionedStore[Any, Any]:
        return VersionedStore(data, self.key, self.value, self.history_retention_ms)

    def to_changelog(self, key: bytes, value: bytes | None) -> ChangelogRecord | None:
        if value is None:
            return None  # an expired version: a tombstone would make compaction delete the key's latest
        return ChangelogRecord(key[:-8], _version_value(value), _unpack_time(key, len(key) - 8)[0])

    def from_changelog(
        self, key: bytes, value: bytes | None, timestamp_ms: int
    ) -> tuple[bytes, bytes | None]:
        return key + _pack_time(timestamp_ms), b"\x00" if value is None else b"\x01" + value

    def changelog_config(self) -> Mapping[str, str]:
        lag_ms = self.history_retention_ms + DAY_MS
        return {"cleanup.policy": "compact", "min.compaction.lag.ms": str(lag_ms)}


def _version_time(key: bytes, value: bytes) -> int:
    time_ms: int = _unpack_time(key, len(key) - 8)[0]
    return time_ms


def _version_value(stored: bytes) -> bytes | None:
    return stored[1:] if stored[0] else None


class VersionedRecord(NamedTuple, Generic[V]):
    """One version of a key, valid from its timestamp up to ``valid_to_ms``, exclusive.

    ``valid_to_ms`` is None for the latest version.
    """

    value: V
    timestamp_ms: int
    valid_to_ms: int | None


class Put(NamedTuple):
    """The result of a put: whether the version was kept, and whether it is the key's latest."""

    kept: bool
    is_latest: bool


_LATEST: Final = Put(True, True)
_HISTORY: Final = Put(True, False)
_TOO_LATE: Final = Put(False, False)


class VersionedStore(Generic[K, V]):
    """Every version of each key within the history retention. Puts may arrive out of order (KIP-889).

    Stream time is the greatest timestamp put so far. A put older than stream time minus the retention is
    discarded.
    """

    __slots__ = ("data", "key_serde", "retention_ms", "value_serde")

    def __init__(self, data: TimedBytes, key: Serde[K], value: Serde[V], retention_ms: int) -> None:
        self.data = data
        self.key_serde = key
        self.value_serde = value
        self.retention_ms = retention_ms

    def put(self, key: K, value: V | None, timestamp_ms: int) -> Put:
        """Put a version; None is a tombstone: the key has no value from this timestamp on."""
        if timestamp_ms < self.data.latest_ms - self.retention_ms:
            return _TOO_LATE
        stored_key = self.key_serde.serialize(key)
        stored = b"\x00" if value is None else b"\x01" + self.value_serde.serialize(value)
        self.data.put(stored_key + _pack_time(timestamp_ms), stored)
        self.trim(stored_key)
        newest = next(self._versions(stored_key), None)
        return _LATEST if newest is None or newest[0] == timestamp_ms else _HISTORY

    def delete(self, key: K, timestamp_ms: int) -> VersionedRecord[V] | None:
        """Put a tombstone; return the version that was valid at the timestamp."""
        before = self.get_with_timestamp(key, timestamp_ms)
        self.put(key, None, timestamp_ms)
        return before

    def get(self, key: K, as_of_ms: int | None = None) -> V | None:
        """Return the value at a time, or the latest one."""
        found = self.get_with_timestamp(key, as_of_ms)
        return None if found is None else found.value

    def get_with_timestamp(self, key: K, as_of_ms: int | None = None) -> VersionedRecord[V] | None:
        """Return the version valid at a time (None: the latest).

        The result is None if there is no such version, or if the history of that time has expired.
        """
        valid_to_ms: int | None = None
        horizon_ms = self.data.latest_ms - self.retention_ms
        for timestamp_ms, stored in self._versions(self.key_serde.serialize(key)):
            if as_of_ms is None or timestamp_ms <= as_of_ms:
                if valid_to_ms is not None and as_of_ms is not None and as_of_ms < horizon_ms:
                    return None
                value = _version_value(stored)
                if value is None:
                    return None
                return VersionedRecord(self.value_serde.deserialize(value), timestamp_ms, valid_to_ms)
            valid_to_ms = timestamp_ms
        return None

    def fetch(
        self, key: K, from_ms: int | None = None, to_ms: int | None = None
    ) -> Iterator[VersionedRecord[V]]:
        """Iterate over the versions valid at any time in a range, newest first (KIP-968)."""
        valid_to_ms: int | None = None
        for timestamp_ms, stored in self._versions(self.key_serde.serialize(key)):
            ends_before = valid_to_ms is not None and from_ms is not None and valid_to_ms <= from_ms
            if ends_before:
                return
            value = _version_value(stored)
            if value is not None and (to_ms is None or timestamp_ms <= to_ms):
                yield VersionedRecord(self.value_serde.deserialize(value), timestamp_ms, valid_to_ms)
            valid_to_ms = timestamp_ms

    def all(self) -> Iterator[tuple[K, V]]:
        """Iterate over all keys with their latest values."""
        latest: dict[bytes, bytes] = {}
        for stored_key, stored in self.data.scan():
            latest[stored_key[:-8]] = stored
        for key, stored in latest.items():
            value = _version_value(stored)
            if value is not None:
                yield self.key_serde.deserialize(key), self.value_serde.deserialize(value)

    def _versions(self, key: bytes) -> Iterator[tuple[int, bytes]]:
        """Iterate over the timestamps and stored values of a key, newest first."""
        length = len(key) + 8
        for stored_key, stored in self.data.scan(key, after_prefix(key), reverse=True):
            if len(stored_key) == length:
                yield _unpack_time(stored_key, len(key))[0], stored

    def trim(self, key: bytes) -> None:
        """Delete versions that ended before the retention, and a tombstone with nothing before it.

        `put` does this too.
        """
        horizon_ms = self.data.latest_ms - self.retention_ms
        expired = False
        for timestamp_ms, stored in self._versions(key):
            if expired or (timestamp_ms < horizon_ms and not stored[0]):
                self.data.delete(key + _pack_time(timestamp_ms))
            expired = expired or timestamp_ms <= horizon_ms
