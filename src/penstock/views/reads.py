"""Reads of one replica: they select pairs of bytes under its lock, and decode them.

A read is created for one store and can run on any of its replicas. The log is applied in steps of whole
transactions, so a read sees either all of a transaction or nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

from penstock.topology.serdes import Window
from penstock.topology.stores.ordered_bytes import after, after_prefix
from penstock.topology.stores.state_stores import ExpiringStore, KeyValueSpec, StoreSpec
from penstock.topology.stores.window_stores import SessionSpec, WindowSpec
from penstock.views.replica import Replica

_TIME: Final = Struct(">q")
_START: Final = Struct(">qi")
_SESSION: Final = Struct(">qq")
_TIME_MAX: Final = 0x7FFFFFFFFFFFFFFF
_LOOKED_AT_MAX: Final = 4_096
"""The number of entries that one step of a scan examines, matching or not: about a millisecond."""

Pair = tuple[bytes, bytes]


class Row(NamedTuple):
    """An entry of a store.

    Attributes:
        timestamp_ms: the value's timestamp, if the store keeps one.
        window: the window, in windowed stores.
        valid_to_ms: in versioned stores, the start of the next version; None for the latest.
        place: the key's bytes in the store, by which rows are ordered.
    """

    key: Any
    value: Any
    timestamp_ms: int | None
    window: Window | None
    valid_to_ms: int | None
    place: bytes


class Found(NamedTuple):
    """The rows of one replica. ``resume``: the place after which more may follow; None: there are no more."""

    rows: list[Row]
    resume: bytes | None = None


class Read(ABC):
    """A read of one store.

    ``key`` is the serialized key, which determines the partition; None: the read covers all partitions.
    """

    key: bytes | None

    @abstractmethod
    def run(self, replica: Replica) -> Found:
        """Run under the replica's lock, except for reads of a single value (`GetValue`, `GetWindow`)."""


@dataclass(frozen=True)
class GetValue(Read):
    """Reads the value of a key of a key-value store."""

    key: bytes

    def run(self, replica: Replica) -> Found:
        stored = replica.map.data.get(self.key)
        if stored is None or not _is_alive(replica, self.key, stored):
            return Found([])
        return Found([row_of(replica.spec, self.key, stored)])


@dataclass(frozen=True)
class GetWindow(Read):
    """Reads the value of a key in the window that starts at this time."""

    key: bytes
    start_ms: int

    def run(self, replica: Replica) -> Found:
        place = self.key + _START.pack(self.start_ms, 0)
        stored = replica.map.data.get(place)
        if stored is None or not _is_alive(replica, place, stored):
            return Found([])
        return Found([row_of(replica.spec, place, stored)])


@dataclass(frozen=True)
class GetVersions(Read):
    """Reads the versions of a key that were valid between two times, newest first."""

    key: bytes
    from_ms: int | None
    to_ms: int | None
    limit: int

    def run(self, replica: Replica) -> Found:
        rows = []
        key = replica.spec.key.deserialize(self.key)
        for version in replica.store.fetch(key, self.from_ms, self.to_ms):
            place = self.key + _TIME.pack(version.timestamp_ms)
            rows.append(Row(key, version.value, version.timestamp_ms, None, version.valid_to_ms, place))
            if len(rows) >= self.limit:
                break
        return Found(rows)


@dataclass(frozen=True)
class GetVersion(Read):
    """Reads the version of a key that was valid at a time; None: the latest."""

    key: bytes
    as_of_ms: int | None

    def run(self, replica: Replica) -> Found:
        key, store = replica.spec.key.deserialize(self.key), replica.store
        found = (
            store.get_with_timestamp(key)
            if self.as_of_ms is None
            else store.get_with_timestamp(key, self.as_of_ms)
        )
        if found is None:
            return Found([])
        place = self.key + _TIME.pack(found.timestamp_ms)
        return Found([Row(key, found.value, found.timestamp_ms, None, found.valid_to_ms, place)])


@dataclass(frozen=True)
class Fetch(Read):
    """Reads a key's windows that start, or sessions that overlap, within two times, both inclusive."""

    key: bytes
    from_ms: int
    to_ms: int | None
    reverse: bool
    limit: int
    after: bytes | None = None

    def run(self, replica: Replica) -> Found:
        first_ms = max(self.from_ms, 0)
        last_ms = _TIME_MAX if self.to_ms is None else max(self.to_ms, -1)
        is_session = isinstance(replica.spec, SessionSpec)
        size = len(self.key) + (16 if is_session else 12)
        low = self.key + _TIME.pack(first_ms)
        # A session that starts in time may end at any later time.
        high = self.key + _TIME.pack(_TIME_MAX if is_session or last_ms == _TIME_MAX else last_ms + 1)
        rows: list[Row] = []
        start, end = _behind(self.after, low, high, self.reverse)
        for place, stored in replica.map.scan(start, end, reverse=self.reverse):
            if len(place) != size or not _is_alive(replica, place, stored):
                continue  # longer keys with this prefix lie in between
            if is_session and _SESSION.unpack_from(place, size - 16)[1] > last_ms:
                continue
            rows.append(row_of(replica.spec, place, stored))
            if len(rows) >= self.limit:
                return Found(rows, place)
        return Found(rows)


@dataclass(frozen=True)
class Scan(Read):
    """Reads entries in the order of their bytes, one page at a time.

    ``low`` and ``high`` (exclusive) bound the places; ``from_ms`` and ``to_ms`` bound the starts of windows
    and the ends of sessions, both inclusive. ``after``: the place where the previous page ended.
    """

    key = None

    low: bytes | None
    high: bytes | None
    reverse: bool
    limit: int
    after: bytes | None = None
    from_ms: int = 0
    to_ms: int | None = None

    def run(self, replica: Replica) -> Found:
        low, high = _behind(self.after, self.low, self.high, self.reverse)
        rows: list[Row] = []
        place = None
        looked_at = 0
        for place, stored in replica.map.scan(low, high, reverse=self.reverse, limit=_LOOKED_AT_MAX):
            looked_at += 1
            if _is_alive(replica, place, stored) and self._is_in_time(replica.spec, place):
                rows.append(row_of(replica.spec, place, stored))
                if len(rows) >= self.limit:
                    return Found(rows, place)
        return Found(rows, place if looked_at == _LOOKED_AT_MAX else None)

    def _is_in_time(self, spec: StoreSpec, place: bytes) -> bool:
        if not self.from_ms and self.to_ms is None:
            return True
        time_ms: int = _time_of(spec, place)
        return self.from_ms <= time_ms and (self.to_ms is None or time_ms <= self.to_ms)


def scan_of(
    spec: StoreSpec,
    *,
    first: bytes | None = None,
    last: bytes | None = None,
    prefix: bytes | None = None,
    reverse: bool = False,
    limit: int,
    after_place: bytes | None = None,
    from_ms: int = 0,
    to_ms: int | None = None,
) -> Scan:
    """Scan the keys from ``first`` to ``last``, both inclusive, or the keys that begin with ``prefix``."""
    if prefix is not None:
        return Scan(prefix, after_prefix(prefix), reverse, limit, after_place, from_ms, to_ms)
    high = None if last is None else after(last)
    return Scan(first, high, reverse, limit, after_place, from_ms, to_ms)


def row_of(spec: StoreSpec, place: bytes, stored: bytes) -> Row:
    """Decode a pair of a store's bytes. Raises the errors of the serdes."""
    key, value = spec.key.deserialize, spec.value.deserialize
    if isinstance(spec, KeyValueSpec):
        return Row(key(place), value(stored[8:]), _TIME.unpack_from(stored)[0], None, None, place)
    if isinstance(spec, WindowSpec):
        start_ms = _START.unpack_from(place, len(place) - 12)[0]
        window = Window(start_ms, start_ms + spec.window_size_ms)
        if spec.timestamped:
            return Row(key(place[:-12]), value(stored[8:]), _TIME.unpack_from(stored)[0], window, None, place)
        return Row(key(place[:-12]), value(stored), None, window, None, place)
    assert isinstance(spec, SessionSpec), f"a {type(spec).__name__} is not read by pairs"
    end_ms, start_ms = _SESSION.unpack_from(place, len(place) - 16)
    return Row(key(place[:-16]), value(stored), None, Window(start_ms, end_ms), None, place)


def _is_alive(replica: Replica, place: bytes, stored: bytes) -> bool:
    """Whether the entry has not expired by now; the application deletes expired entries some time later."""
    spec, store = replica.spec, replica.store
    if isinstance(spec, WindowSpec | SessionSpec):
        return bool(_time_of(spec, place) >= store.first_kept_ms)
    if isinstance(store, ExpiringStore):
        return bool(_TIME.unpack_from(stored)[0] + store.ttl_ms > store.stream_time())
    return True


def _time_of(spec: StoreSpec, place: bytes) -> int:
    """Return the start of a window or the end of a session; 0 for other entries, which have no time."""
    if isinstance(spec, WindowSpec):
        start_ms: int = _TIME.unpack_from(place, len(place) - 12)[0]
        return start_ms
    if isinstance(spec, SessionSpec):
        end_ms: int = _TIME.unpack_from(place, len(place) - 16)[0]
        return end_ms
    return 0


def _behind(
    place: bytes | None, low: bytes | None, high: bytes | None, reverse: bool
) -> tuple[bytes | None, bytes | None]:
    """Return the rest of a range after a place in it."""
    if place is None:
        return low, high
    if reverse:
        return low, place if high is None else min(place, high)
    return after(place) if low is None else max(after(place), low), high


def merged_rows(found: Iterator[Found] | list[Found], *, reverse: bool, limit: int) -> Found:
    """Merge the pages of several replicas: no row is past the place where a page stopped."""
    pages = list(found)
    rows = sorted((row for page in pages for row in page.rows), key=lambda row: row.place, reverse=reverse)
    stops = [page.resume for page in pages if page.resume is not None]
    if stops:
        stop = max(stops) if reverse else min(stops)
        rows = [row for row in rows if (row.place >= stop if reverse else row.place <= stop)]
        if len(rows) <= limit:
            return Found(rows, stop)
    if len(rows) > limit:
        return Found(rows[:limit], rows[limit - 1].place)
    return Found(rows)
