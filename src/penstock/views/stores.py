"""The stores of `Views` as Python objects, with one class per kind of store."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, get_origin

from penstock.topology.errors import StreamsError
from penstock.topology.serdes import Serde, Window
from penstock.topology.stores.state_stores import KeyValueSpec, VersionedSpec
from penstock.topology.stores.window_stores import SessionSpec, WindowSpec
from penstock.views.catalog import ViewedStore
from penstock.views.errors import InvalidQuery, UnsupportedQuery
from penstock.views.position import Position
from penstock.views.queries import DEFAULT_TIMEOUT_S, Answer, Query
from penstock.views.reads import (
    Fetch,
    Found,
    GetValue,
    GetVersion,
    GetVersions,
    GetWindow,
    Read,
    Row,
    Scan,
    scan_of,
)
from penstock.views.replica import Replica

K = TypeVar("K")
V = TypeVar("V")

PAGE: Final = 1_000
_EVERYTHING: Final = 1 << 62


class Followed(Protocol):
    """The part of `Views` that a view of one store needs."""

    def ask(self, query: Query, timeout_s: float) -> Answer[Found]:
        """Return the answer, waiting for it if necessary."""

    def answer(self, query: Query) -> Answer[Found] | None:
        """Return the answer if it is available without waiting."""

    def held(self, store: ViewedStore) -> Mapping[int, Replica]:
        """Return the replicas of a store that are held here, by partition."""

    def wait_until_ready(self, timeout_s: float | None = None) -> None:
        """Wait until all logs have been read to their ends."""


class Entry(NamedTuple, Generic[K, V]):
    """An entry of a store.

    ``timestamp_ms`` is set if the store keeps one, and ``window`` in windowed stores. ``valid_to_ms`` is set
    in versioned stores; it is None for the latest version.
    """

    key: K
    value: V
    timestamp_ms: int | None = None
    window: Window | None = None
    valid_to_ms: int | None = None


class Entries(list[Entry[K, V]]):
    """A list of entries, with the ``position`` of the logs at which they were read."""

    def __init__(self, rows: list[Row], position: Position) -> None:
        super().__init__(map(_entry, rows))
        self.position = position


class View(ABC, Generic[K, V]):
    """A store that can be queried. `Views.store` creates it; ``running.store(name)`` has its own views.

    Every query takes ``at_least``, a `Position` that the answer must cover, and ``timeout_s``, how long to
    wait for that position and for a store that is still being read. Raises StoreRestoring,
    PositionNotReached, NotPresent, InvalidQuery.
    """

    def __init__(self, views: Followed, store: ViewedStore) -> None:
        self._views = views
        self.store = store

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def position(self) -> Position:
        """The position up to which the store's log was followed."""
        held = self._views.held(self.store)
        return Position({kept.tp: kept.position for kept in held.values()})

    def approximate_count(self) -> int:
        """Return the number of entries held here now, including expired ones that are not yet deleted."""
        return sum(len(kept) for kept in self._views.held(self.store).values())

    def wait_until_ready(self, timeout_s: float | None = None) -> None:
        """Wait until the logs of all stores have been read to their ends. Raises StoreRestoring."""
        self._views.wait_until_ready(timeout_s)

    def _ask(self, read: Read, at_least: Position | None, timeout_s: float) -> Answer[Found]:
        return self._views.ask(Query(self.store, read, at_least=at_least or Position()), timeout_s)

    def _one(self, read: Read, at_least: Position | None, timeout_s: float) -> Answer[Entry[K, V] | None]:
        return _first(self._ask(read, at_least, timeout_s))

    def _some(self, read: Read, at_least: Position | None, timeout_s: float) -> Entries[K, V]:
        return Entries(*_parts(self._ask(read, at_least, timeout_s)))

    def _walk(self, read: Scan, at_least: Position | None, timeout_s: float) -> Iterator[Entry[K, V]]:
        """Iterate page by page; each page is consistent in itself."""
        while True:
            found = self._ask(read, at_least, timeout_s).value
            yield from map(_entry, found.rows)
            if found.resume is None:
                return
            read = replace(read, after=found.resume)

    def _key(self, key: Any) -> bytes:
        return serialized(self.store.spec.key, key, self.name)


class KeyValueView(View[K, V]):
    """A view of the latest value of each key."""

    def get(
        self, key: K, *, at_least: Position | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> V | None:
        """Return the value, or None."""
        found = self.lookup(key, at_least=at_least, timeout_s=timeout_s).value
        return None if found is None else found.value

    def lookup(
        self, key: K, *, at_least: Position | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Answer[Entry[K, V] | None]:
        """Return the value with its timestamp and the position of the answer."""
        return self._one(GetValue(self._key(key)), at_least, timeout_s)

    def lookup_now(self, key: K) -> Answer[Entry[K, V] | None] | None:
        """Return the result of `lookup` if available without waiting, else None; safe in an event loop."""
        answer = self._views.answer(Query(self.store, GetValue(self._key(key))))
        return None if answer is None else _first(answer)

    def range(
        self,
        first: K | None = None,
        last: K | None = None,
        *,
        reverse: bool = False,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Iterator[Entry[K, V]]:
        """Iterate over the keys from ``first`` to ``last``, both inclusive, in one order over all partitions.

        The order is that of the keys' bytes. Entries are read during the iteration, in pages of 1,000.
        """
        low = None if first is None else self._key(first)
        high = None if last is None else self._key(last)
        read = scan_of(self.store.spec, first=low, last=high, reverse=reverse, limit=PAGE)
        return self._walk(read, at_least, timeout_s)

    def prefix(
        self,
        prefix: bytes,
        *,
        reverse: bool = False,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Iterator[Entry[K, V]]:
        """Iterate over the keys whose bytes begin with ``prefix``, as `range` does."""
        read = scan_of(self.store.spec, prefix=prefix, reverse=reverse, limit=PAGE)
        return self._walk(read, at_least, timeout_s)

    def all(
        self,
        *,
        reverse: bool = False,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Iterator[Entry[K, V]]:
        """Iterate over all entries, as `range` does."""
        return self.range(reverse=reverse, at_least=at_least, timeout_s=timeout_s)


class VersionedView(View[K, V]):
    """A view of all values of each key within the history (KIP-889)."""

    def get(
        self,
        key: K,
        as_of_ms: int | None = None,
        *,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> V | None:
        """Return the value at a time, or the latest; None if there is none, or if its history has expired."""
        found = self.lookup(key, as_of_ms, at_least=at_least, timeout_s=timeout_s).value
        return None if found is None else found.value

    def lookup(
        self,
        key: K,
        as_of_ms: int | None = None,
        *,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Answer[Entry[K, V] | None]:
        """Return the version with its times and the position of the answer."""
        return self._one(GetVersion(self._key(key), as_of_ms), at_least, timeout_s)

    def fetch(
        self,
        key: K,
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Entries[K, V]:
        """Return the versions valid at any time from ``from_ms`` to ``to_ms``, newest first (KIP-968)."""
        return self._some(GetVersions(self._key(key), from_ms, to_ms, _EVERYTHING), at_least, timeout_s)


class _WindowedView(View[K, V]):
    def fetch(
        self,
        key: K,
        from_ms: int = 0,
        to_ms: int | None = None,
        *,
        reverse: bool = False,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Entries[K, V]:
        """Return a key's windows that start from ``from_ms`` to ``to_ms``, both inclusive.

        For sessions: those that end at or after ``from_ms`` and start at or before ``to_ms``.
        """
        return self._some(Fetch(self._key(key), from_ms, to_ms, reverse, _EVERYTHING), at_least, timeout_s)

    def all(
        self,
        from_ms: int = 0,
        to_ms: int | None = None,
        *,
        reverse: bool = False,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Iterator[Entry[K, V]]:
        """Iterate over all windows that start, or sessions that end, from one time to the other.

        The order is that of the keys' bytes. Entries are read during the iteration, one page at a time.
        """
        read = scan_of(self.store.spec, reverse=reverse, limit=PAGE, from_ms=from_ms, to_ms=to_ms)
        return self._walk(read, at_least, timeout_s)


class WindowView(_WindowedView[K, V]):
    """A view of values by key and window start, within the retention."""

    def get(
        self,
        key: K,
        start_ms: int,
        *,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> V | None:
        """Return the value of one window, or None."""
        found = self.lookup(key, start_ms, at_least=at_least, timeout_s=timeout_s).value
        return None if found is None else found.value

    def lookup(
        self,
        key: K,
        start_ms: int,
        *,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Answer[Entry[K, V] | None]:
        """Return the value of one window with its timestamp and the position of the answer."""
        if self.store.spec.duplicates:  # type: ignore[attr-defined]  # a WindowSpec: see _KINDS
            raise UnsupportedQuery(f"windows of store {self.name} have several values of a key: use fetch")
        return self._one(GetWindow(self._key(key), start_ms), at_least, timeout_s)


class SessionView(_WindowedView[K, V]):
    """A view of values by key and session, within the retention."""


_KINDS: Final[Mapping[type, type[View[Any, Any]]]] = {
    KeyValueSpec: KeyValueView,
    VersionedSpec: VersionedView,
    WindowSpec: WindowView,
    SessionSpec: SessionView,
}


def view_of(views: Followed, store: ViewedStore, kind: type[View[Any, Any]]) -> View[Any, Any]:
    """Return the view of a store. Raises UnsupportedQuery if its class is not ``kind`` or below it.

    ``kind`` may name types of keys and values, such as ``KeyValueView[str, int]``; these are not checked.
    """
    view = _KINDS[type(store.spec)](views, store)
    expected = get_origin(kind) or kind
    if not isinstance(view, expected):
        raise UnsupportedQuery(f"store {store.name} is a {type(view).__name__}, not a {expected.__name__}")
    return view


def serialized(serde: Serde[Any], key: object, store: str) -> bytes:
    """Serialize a key. Raises InvalidQuery if the store's serde does not accept it."""
    try:
        found = serde.serialize(key)
    except Exception as error:
        raise InvalidQuery(
            f"{key!r} is no key of store {store}: {error if isinstance(error, StreamsError) else repr(error)}"
        ) from error
    return found


def _entry(row: Row) -> Entry[Any, Any]:
    return Entry(*row[:5])


def _first(answer: Answer[Found]) -> Answer[Entry[Any, Any] | None]:
    rows = answer.value.rows
    return Answer(_entry(rows[0]) if rows else None, answer.position)


def _parts(answer: Answer[Found]) -> tuple[list[Row], Position]:
    return answer.value.rows, answer.position


__all__ = [
    "Entries",
    "Entry",
    "KeyValueView",
    "SessionView",
    "VersionedView",
    "View",
    "WindowView",
    "view_of",
]
