"""Operators of tables, whose records are changes: the value is a `penstock.topology.records.Change`.

A table node may keep its table in a store, or compute it from its parent's table on request
(`TableOperator.view`). A change's old value costs a lookup or a second call of the function, so a node sends
it only if a node downstream needs it (`TableOperator.sends_old`), as in Kafka Streams.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from penstock.topology.context import Context
from penstock.topology.errors import SerdeError
from penstock.topology.graph import Operator
from penstock.topology.records import Change, Forward, Headers
from penstock.topology.serdes import Serde
from penstock.topology.stores.state_stores import KeyValueStore, VersionedRecord, VersionedStore

View: TypeAlias = Callable[[Any], "tuple[Any, int] | None"]
"""A function that reads a table: ``key -> (value, timestamp_ms)``, or None if the key is missing."""


class TableOperator(Operator):
    """The operator of a table node.

    Attributes:
        stored: the store that keeps the table; None if no store does.
        parent: the table from which this one is computed; None if the table begins here.
        sends_old: whether its changes carry old values.
    """

    def __init__(self, stored: str | None, parent: TableOperator | None = None) -> None:
        self.stored = stored
        self.parent = parent
        self.sends_old = False

    def view_stores(self) -> tuple[str, ...]:
        """Return the stores that `view` reads; a node that calls it must be connected to them."""
        if self.stored is not None:
            return (self.stored,)
        assert self.parent is not None, "a table that has no parent and is read must be stored"
        return self.parent.view_stores()

    def view(self, context: Context) -> View:
        """Return the view through which other nodes of the task read the table."""
        if self.stored is not None:
            return store_view(context.store(self.stored))
        assert self.parent is not None
        return self.computed_view(context, self.parent.view(context))

    def computed_view(self, context: Context, parent: View) -> View:
        """Return the view of a table that is not stored, computed from its parent's view."""
        raise NotImplementedError(f"{type(self).__name__} is always stored")


def store_view(store: KeyValueStore[Any, Any] | VersionedStore[Any, Any]) -> View:
    """Return a view of the latest value and timestamp of each key in a store."""
    if isinstance(store, KeyValueStore):
        return store.get_with_timestamp

    def latest(key: Any) -> tuple[Any, int] | None:
        found: VersionedRecord[Any] | None = store.get_with_timestamp(key)
        return None if found is None else (found.value, found.timestamp_ms)

    return latest


class TableSource(TableOperator):
    """Reads the records of a topic or stream as updates: a value replaces the key's, None deletes it.

    Records with a null key are dropped. An update that is out of order still counts as the latest. In a
    versioned store, such an update is inserted into the history and forwarded as a change that is not the
    latest, or dropped if it is older than the history. ``skips_absent``: a stored table sends no deletion for
    a key that it doesn't have.
    """

    def __init__(self, stored: str | None, *, skips_absent: bool = False) -> None:
        super().__init__(stored)
        self.skips_absent = skips_absent

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        drop, failed, send_old = context.drop, context.failed, self.sends_old
        if self.stored is None:

            def pass_on(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
                if key is None:
                    drop(node)
                    return
                forward(key, (value, None, True), timestamp_ms, headers)

            return pass_on
        store = context.store(self.stored)
        if isinstance(store, VersionedStore):
            return self._versioned(node, context, forward, store)
        get, put, skips = store.get, store.put, self.skips_absent

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                drop(node)
                return
            try:
                old = get(key) if send_old or (skips and value is None) else None
                if skips and value is None and old is None:
                    return
                put(key, value, timestamp_ms)
            except Exception as error:
                failed(node, error)
                return
            forward(key, (value, old if send_old else None, True), timestamp_ms, headers)

        return process

    def _versioned(
        self, node: str, context: Context, forward: Forward, store: VersionedStore[Any, Any]
    ) -> Forward:
        drop, failed, send_old = context.drop, context.failed, self.sends_old

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                drop(node)
                return
            try:
                old = store.get(key) if send_old else None
                put = store.put(key, value, timestamp_ms)
            except Exception as error:
                failed(node, error)
                return
            if not put.kept:
                drop(node)
                return
            forward(key, (value, old, put.is_latest), timestamp_ms, headers)

        return process


class AggregatedTogether(TableOperator):
    """The table that several aggregates of one store produce together: ``parts`` (KIP-150)."""

    def __init__(self, stored: str | None) -> None:
        super().__init__(stored)
        self.parts: list[TableOperator] = []

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        return forward


class _Computed(TableOperator):
    """A table whose values are a function of its parent's values."""

    @abstractmethod
    def compute(self, key: Any, value: Any) -> Any:
        """Return the value for a value of the parent; None: the table doesn't have the key."""

    skips_absent = False
    """Whether a change from no value to no value is skipped."""

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        compute, send_old = self.compute, self.sends_old
        skips = self.skips_absent and send_old and not self._is_versioned(context)
        store = None if self.stored is None else context.store(self.stored)
        failed = context.failed

        def process(key: Any, change: Change, timestamp_ms: int, headers: Headers) -> None:
            new_value, old_value, is_latest = change
            try:
                new = None if new_value is None else compute(key, new_value)
                old = None
                if send_old:
                    if store is not None:
                        old = store.get(key)
                    elif old_value is not None:
                        old = compute(key, old_value)
                if skips and new is None and old is None:
                    return
                if store is not None:
                    store.put(key, new, timestamp_ms)
            except Exception as error:
                failed(node, error)
                return
            forward(key, (new, old, is_latest), timestamp_ms, headers)

        return process

    def _is_versioned(self, context: Context) -> bool:
        """Whether it is computed from a versioned table, so that a change may belong to the history."""
        table = self.parent
        while table is not None and table.stored is None:
            table = table.parent
        return table is not None and isinstance(context.store(table.stored), VersionedStore)

    def computed_view(self, context: Context, parent: View) -> View:
        compute = self.compute

        def view(key: Any) -> tuple[Any, int] | None:
            found = parent(key)
            if found is None:
                return None
            value = compute(key, found[0])
            return None if value is None else (value, found[1])

        return view


class FilterTable(_Computed):
    """The rows whose predicate ``(key, value)`` is true. A row that stops matching becomes a tombstone."""

    skips_absent = True

    def __init__(
        self,
        stored: str | None,
        parent: TableOperator,
        predicate: Callable[[Any, Any], object],
        negate: bool = False,
    ) -> None:
        super().__init__(stored, parent)
        self.predicate = predicate
        self.negate = negate

    def compute(self, key: Any, value: Any) -> Any:
        return value if bool(self.predicate(key, value)) is not self.negate else None


class MapTableValues(_Computed):
    """A table of ``(key, value) -> value`` of each row. Tombstones are not passed to the function."""

    def __init__(
        self, stored: str | None, parent: TableOperator, function: Callable[[Any, Any], Any]
    ) -> None:
        super().__init__(stored, parent)
        self.function = function

    def compute(self, key: Any, value: Any) -> Any:
        return self.function(key, value)


class TableToStream(Operator):
    """Turns a table's changes into a stream of its new values; a deletion is a record with a null value."""

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        def process(key: Any, change: Change, timestamp_ms: int, headers: Headers) -> None:
            forward(key, change[0], timestamp_ms, headers)

        return process


class Regroup(Operator):
    """Sends a table's changes by the key of another grouping: ``selector(key, value) -> (group, value)``.

    A row that stays in its group is one change with old and new value; a row that moves is first removed from
    its old group. A group or value of None belongs to no group. Changes that are not the latest are skipped
    (KIP-914).
    """

    def __init__(self, selector: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self.selector = selector

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        selector, failed = self.selector, context.failed

        def process(key: Any, change: Change, timestamp_ms: int, headers: Headers) -> None:
            new_value, old_value, is_latest = change
            if not is_latest:
                return
            try:
                new_group, new = (None, None) if new_value is None else selector(key, new_value)
                old_group, old = (None, None) if old_value is None else selector(key, old_value)
            except Exception as error:
                failed(node, error)
                return
            joins, leaves = (
                new_group is not None and new is not None,
                old_group is not None and old is not None,
            )
            if joins and leaves and new_group == old_group:
                forward(new_group, (new, old, True), timestamp_ms, headers)
                return
            if leaves:
                forward(old_group, (None, old, True), timestamp_ms, headers)
            if joins:
                forward(new_group, (new, None, True), timestamp_ms, headers)

        return process


_OLD, _NEW, _BOTH = 0, 1, 2


def change_serde(inner: Serde[Any]) -> Serde[Change]:
    """Return the serde of changes in a grouped table's repartition topic, as in Kafka Streams (KIP-904).

    The bytes are the only value, or the length of the new value (a varint), the new value and the old value.
    A last byte says which: 0 old, 1 new, 2 both.
    """

    def serialize(change: Change) -> bytes:
        new, old, _ = change
        if old is None:
            return inner.serialize(new) + b"\x01"
        if new is None:
            return inner.serialize(old) + b"\x00"
        new_bytes = inner.serialize(new)
        return _varint(len(new_bytes)) + new_bytes + inner.serialize(old) + b"\x02"

    def deserialize(data: bytes) -> Change:
        flag = data[-1] if data else None
        if flag == _NEW:
            return inner.deserialize(data[:-1]), None, True
        if flag == _OLD:
            return None, inner.deserialize(data[:-1]), True
        if flag != _BOTH or len(data) < 2:
            raise SerdeError(f"a change of {len(data)} bytes ends with 0, 1 or 2, found {flag}")
        length, start = _read_varint(data)
        split = start + length
        if split >= len(data):
            raise SerdeError(f"a change of {len(data)} bytes gives its new value a length of {length}")
        return inner.deserialize(data[start:split]), inner.deserialize(data[split:-1]), True

    return Serde(serialize, deserialize, name=f"change({inner.name})", made_by=(change_serde, (inner,)))


def _varint(number: int) -> bytes:
    """Encode a number that is not negative as Kafka's signed varint."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    """Return the number, and the position where it ends."""
    number = shift = 0
    for position, byte in enumerate(data):
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1, position + 1
        shift += 7
    raise SerdeError(f"a change of {len(data)} bytes begins with a length that doesn't end")
