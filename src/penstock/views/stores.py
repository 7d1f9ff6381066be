"""The stores of `Views` in Python's terms, one class for each kind."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from penstock.topology.errors import StreamsError
from penstock.topology.serdes import Serde, Window
from penstock.topology.stores import KeyValueSpec, VersionedSpec
from penstock.topology.window_stores import SessionSpec, WindowSpec
from penstock.views.catalog import ViewedStore
from penstock.views.errors import InvalidQuery, UnsupportedQuery
from penstock.views.position import Position
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
from penstock.views.views import DEFAULT_TIMEOUT_S, Answer, Query, Views

K = TypeVar("K")
V = TypeVar("V")

PAGE: Final = 1_000
_EVERYTHING: Final = 1 << 62


class Entry(NamedTuple, Generic[K, V]):
    """``timestamp_ms``: where the store keeps one; ``window``: of windowed stores; ``valid_to_ms``: of
    versioned ones, None for the latest version.
    """

    key: K
    value: V
    timestamp_ms: int | None = None
    window: Window | None = None
    valid_to_ms: int | None = None


class Entries(list[Entry[K, V]]):
    """Some entries, and the ``position`` of the logs that they are of."""

    def __init__(self, rows: list[Row], position: Position) -> None:
        super().__init__(map(_entry, rows))
        self.position = position


class View(ABC, Generic[K, V]):
    """A store that can be asked. Made by `Views.store`; ``running.store(name)`` has views of its own.

    Every query takes ``at_least``, a `Position` that the answer must cover, and ``timeout_s``, how long to
    wait for that and for a store that is still being read. Raises StoreRestoring, PositionNotReached,
    NotPresent, InvalidQuery.
    """

    def __init__(self, views: Views, store: ViewedStore) -> None:
        self._views = views
        self.store = store

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def position(self) -> Position:
        """How far the store's log was followed."""
        held = self._views.held(self.store)
        return Position({kept.tp: kept.position for kept in held.values()})

    def approximate_count(self) -> int:
        """How many entries are kept here now, those that have expired and not gone yet among them."""
        return sum(len(kept) for kept in self._views.held(self.store).values())

    def wait_until_ready(self, timeout_s: float | None = None) -> None:
        """Until the logs of all stores were read to their ends. Raises StoreRestoring."""
        self._views.wait_until_ready(timeout_s)

    def _ask(self, read: Read, at_least: Position | None, timeout_s: float) -> Answer[Found]:
        return self._views.ask(Query(self.store, read, at_least=at_least or Position()), timeout_s)

    def _one(self, read: Read, at_least: Position | None, timeout_s: float) -> Answer[Entry[K, V] | None]:
        return _first(self._ask(read, at_least, timeout_s))

    def _some(self, read: Read, at_least: Position | None, timeout_s: float) -> Entries[K, V]:
        return Entries(*_parts(self._ask(read, at_least, timeout_s)))

    def _walk(self, read: Scan, at_least: Position | None, timeout_s: float) -> Iterator[Entry[K, V]]:
        """Page after page; each is of one moment."""
        while True:
            found = self._ask(read, at_least, timeout_s).value
            yield from map(_entry, found.rows)
            if found.resume is None:
                return
            read = replace(read, after=found.resume)

    def _key(self, key: Any) -> bytes:
        return serialized(self.store.spec.key, key, self.name)


class KeyValueView(View[K, V]):
    """The latest value of each key."""

    def get(
        self, key: K, *, at_least: Position | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> V | None:
        """The value, or None."""
        found = self.lookup(key, at_least=at_least, timeout_s=timeout_s).value
        return None if found is None else found.value

    def lookup(
        self, key: K, *, at_least: Position | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Answer[Entry[K, V] | None]:
        """The value with its timestamp and the position of the answer."""
        return self._one(GetValue(self._key(key)), at_least, timeout_s)

    def lookup_now(self, key: K) -> Answer[Entry[K, V] | None] | None:
        """As `lookup` where nothing has to be waited for, else None: event loops may ask."""
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
        """Keys from ``first`` to ``last``, both inclusive, by their bytes, of all partitions in one order.

        They are read a page of 1,000 at a time, while they are walked.
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
        """Keys whose bytes begin with ``prefix``, otherwise as `range`."""
        read = scan_of(self.store.spec, prefix=prefix, reverse=reverse, limit=PAGE)
        return self._walk(read, at_least, timeout_s)

    def all(
        self,
        *,
        reverse: bool = False,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Iterator[Entry[K, V]]:
        """Everything, as `range`."""
        return self.range(reverse=reverse, at_least=at_least, timeout_s=timeout_s)


class VersionedView(View[K, V]):
    """All values of each key within the history (KIP-889)."""

    def get(
        self,
        key: K,
        as_of_ms: int | None = None,
        *,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> V | None:
        """The value at a time, or the latest; None where there is none, or its history is gone."""
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
        """The version with its times and the position of the answer."""
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
        """The versions valid at any time from ``from_ms`` to ``to_ms``, the newest first (KIP-968)."""
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
        """A key's windows that start from ``from_ms`` to ``to_ms``, both inclusive; of sessions, those that
        end at or after the one and start at or before the other.
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
        """All windows that start, or sessions that end, from one time to the other, in the order of their
        keys' bytes. They are read a page at a time, while they are walked.
        """
        read = scan_of(self.store.spec, reverse=reverse, limit=PAGE, from_ms=from_ms, to_ms=to_ms)
        return self._walk(read, at_least, timeout_s)


class WindowView(_WindowedView[K, V]):
    """Values by key and start of window, as long as the retention lasts."""

    def get(
        self,
        key: K,
        start_ms: int,
        *,
        at_least: Position | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> V | None:
        """The value of one window, or None."""
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
        """The value of one window with its timestamp and the position of the answer."""
        if self.store.spec.duplicates:  # type: ignore[attr-defined]  # a WindowSpec: see _KINDS
            raise UnsupportedQuery(f"windows of store {self.name} have several values of a key: use fetch")
        return self._one(GetWindow(self._key(key), start_ms), at_least, timeout_s)


class SessionView(_WindowedView[K, V]):
    """Values by key and session, as long as the retention lasts."""


_KINDS: Final[Mapping[type, type[View[Any, Any]]]] = {
    KeyValueSpec: KeyValueView,
    VersionedSpec: VersionedView,
    WindowSpec: WindowView,
    SessionSpec: SessionView,
}


def view_of(views: Views, name: str) -> Any:
    """A store by its name: a `KeyValueView`, `VersionedView`, `WindowView` or `SessionView`.

    Raises UnknownStore, StoreNotQueryable.
    """
    store = views.find(name)
    return _KINDS[type(store.spec)](views, store)


def serialized(serde: Serde[Any], key: object, store: str) -> bytes:
    """Raises InvalidQuery for what the store's serde doesn't take."""
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
