"""Operators of tables. A table's records are changes: `penstock.topology.records.Change` as the value.

A table node may keep its table in a store, or compute it from its parent's when asked (`TableOperator.view`).
The old values of changes cost a lookup or a second call of the function, so a node sends them only where
something below needs them (`TableOperator.sends_old`), as in Kafka Streams.
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
from penstock.topology.stores import KeyValueStore, VersionedRecord, VersionedStore

View: TypeAlias = Callable[[Any], "tuple[Any, int] | None"]
"""Reads a table: ``key -> (value, timestamp_ms)``, or None where the table has no such key."""


class TableOperator(Operator):
    """The operator of a table node.

    Attributes:
        stored: the store that keeps the table, None where nothing keeps it.
        parent: the table it is computed from, None where it begins here.
        sends_old: whether its changes carry old values.
    """

    def __init__(self, stored: str | None, parent: TableOperator | None = None) -> None:
        self.stored = stored
        self.parent = parent
        self.sends_old = False

    def view_stores(self) -> tuple[str, ...]:
        """The stores that `view` reads: a node that calls it must be connected to them."""
        if self.stored is not None:
            return (self.stored,)
        assert self.parent is not None, "a table that begins here and is read is stored"
        return self.parent.view_stores()

    def view(self, context: Context) -> View:
        """How other nodes of the task read the table."""
        if self.stored is not None:
            return store_view(context.store(self.stored))
        assert self.parent is not None
        return self.computed_view(context, self.parent.view(context))

    def computed_view(self, context: Context, parent: View) -> View:
        """The view of a table that is not stored, computed from its parent's."""
        raise NotImplementedError(f"{type(self).__name__} is always stored")


def store_view(store: KeyValueStore[Any, Any] | VersionedStore[Any, Any]) -> View:
    """The latest value and timestamp of each key in a store."""
    if isinstance(store, KeyValueStore):
        return store.get_with_timestamp

    def latest(key: Any) -> tuple[Any, int] | None:
        found: VersionedRecord[Any] | None = store.get_with_timestamp(key)
        return None if found is None else (found.value, found.timestamp_ms)

    return latest


class TableSource(TableOperator):
    """Takes the records of a topic, or of a stream, as updates: the value is the key's new one, None deletes
    the key.

    Records with a null key are dropped. An update out of order counts all the same, as the latest; in a
    versioned store it goes to its place in history and on as a change that is not the latest, unless it is
    beyond the history: then it is dropped. ``skips_absent``: a table that is stored sends no deletion of what
    it doesn't have.
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
    """The table that several aggregates of one store make together: ``parts`` (KIP-150)."""

    def __init__(self, stored: str | None) -> None:
        super().__init__(stored)
        self.parts: list[TableOperator] = []

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        return forward


class _Computed(TableOperator):
    """A table whose values are a function of another's."""

    @abstractmethod
    def compute(self, key: Any, value: Any) -> Any:
        """The value for one of the parent; None: the table doesn't have the key."""

    skips_absent = False
    """Whether a change from no value to no value is left out."""

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
        """Whether it is computed from a versioned table: then a change may be one of history."""
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
    """The rows whose predicate ``(key, value)`` is true. A row that ceases to be so becomes a tombstone."""

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
    """``(key, value) -> value`` of each row. A tombstone stays one and is not given to the function."""

    def __init__(
        self, stored: str | None, parent: TableOperator, function: Callable[[Any, Any], Any]
    ) -> None:
        super().__init__(stored, parent)
        self.function = function

    def compute(self, key: Any, value: Any) -> Any:
        return self.function(key, value)


class TableToStream(Operator):
    """The changes of a table as a stream of its new values; a deletion is a record with a null value."""

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        def process(key: Any, change: Change, timestamp_ms: int, headers: Headers) -> None:
            forward(key, change[0], timestamp_ms, headers)

        return process


class Regroup(Operator):
    """The changes of a table by the key of another grouping: ``selector(key, value) -> (group, value)``.

    A row that stays in its group is one change with old and new value; one that moves is taken out of the old
    group first. A group or value of None takes part in no group. Changes that are not the latest are left out
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
    """Changes in the repartition topic of a grouped table, in Kafka Streams' bytes (KIP-904).

    The one value there is, or the length of the new one (a varint), the new and the old; then a byte that
    tells which.
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
            raise SerdeError(f"a change of {len(data)} bytes says that its new value has {length}")
        return inner.deserialize(data[start:split]), inner.deserialize(data[split:-1]), True

    return Serde(serialize, deserialize, name=f"change({inner.name})", made_by=(change_serde, (inner,)))


def _varint(number: int) -> bytes:
    """A signed varint of Kafka's, of a number that is not negative."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    """The number, and where it ends."""
    number = shift = 0
    for position, byte in enumerate(data):
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1, position + 1
        shift += 7
    raise SerdeError(f"a change of {len(data)} bytes begins with a length that doesn't end")
