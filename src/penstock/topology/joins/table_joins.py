"""Joins of tables with tables, and of streams with tables.

The result of joining two tables is a table: two nodes, one for each side's changes, look up the other side's
table, and a third node merges their results and may store them. A stream's record looks up the table; changes
of that table produce no results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from penstock.topology.context import Context
from penstock.topology.graph import Operator
from penstock.topology.operators.tables import TableOperator, View, store_view
from penstock.topology.records import NO_TIMESTAMP, Change, Forward, Headers
from penstock.topology.stores.buffers import RecordBuffer
from penstock.topology.stores.state_stores import VersionedStore

TableJoiner: TypeAlias = Callable[[Any, Any], Any]
"""``(this value, other value) -> value``."""

StreamJoiner: TypeAlias = Callable[[Any, Any, Any], Any]
"""``(key, stream's value, table's value) -> value``."""

ViewAsOf: TypeAlias = Callable[[Any, int], Any]
"""``(key, timestamp_ms) -> value``, or None."""


class JoinTables(TableOperator):
    """One side of a join of tables: it joins changes of ``parent`` with the rows of ``other``.

    There is a result only if every required side has the key. The result has the greater of the two
    timestamps. Changes of a versioned table that are not the latest are dropped (KIP-914).
    """

    def __init__(
        self,
        parent: TableOperator,
        other: TableOperator,
        joiner: TableJoiner,
        *,
        required: bool,
        other_required: bool,
    ) -> None:
        super().__init__(None, parent)
        self.other = other
        self.joiner = joiner
        self.required = required
        self.other_required = other_required

    def view_stores(self) -> tuple[str, ...]:
        assert self.parent is not None
        return tuple(dict.fromkeys((*self.parent.view_stores(), *self.other.view_stores())))

    def view(self, context: Context) -> View:
        assert self.parent is not None
        this, other = self.parent.view(context), self.other.view(context)
        joiner, required, other_required = self.joiner, self.required, self.other_required

        def view(key: Any) -> tuple[Any, int] | None:
            mine, theirs = this(key), other(key)
            if (mine is None and (required or theirs is None)) or (theirs is None and other_required):
                return None
            value = joiner(None if mine is None else mine[0], None if theirs is None else theirs[0])
            if value is None:
                return None
            return value, max(found[1] for found in (mine, theirs) if found is not None)

        return view

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        view, joiner = self.other.view(context), self.joiner
        required, other_required, send_old = self.required, self.other_required, self.sends_old
        drop, failed = context.drop, context.failed

        def process(key: Any, change: Change, timestamp_ms: int, headers: Headers) -> None:
            new_value, old_value, is_latest = change
            if key is None or not is_latest:
                drop(node)
                return
            try:
                found = view(key)
                if found is None:
                    if other_required or (new_value is None and old_value is None):
                        return
                    other = None
                else:
                    other, other_ms = found
                    timestamp_ms = max(timestamp_ms, other_ms)
                alone = not required and other is not None
                new = joiner(new_value, other) if new_value is not None or alone else None
                old = None
                if send_old and (old_value is not None or alone):
                    old = joiner(old_value, other)
            except Exception as error:
                failed(node, error)
                return
            forward(key, (new, old, True), timestamp_ms, headers)

        return process


class MergeTables(TableOperator):
    """The node that merges the two sides of a join into the joined table, stored if it has a store."""

    def __init__(self, stored: str | None, this: JoinTables) -> None:
        super().__init__(stored, this)

    def view(self, context: Context) -> View:
        if self.stored is not None:
            return store_view(context.store(self.stored))
        assert self.parent is not None
        return self.parent.view(context)

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        if self.stored is None:
            return forward
        store, failed = context.store(self.stored), context.failed
        versioned = isinstance(store, VersionedStore)

        def process(key: Any, change: Change, timestamp_ms: int, headers: Headers) -> None:
            try:
                put = store.put(key, change[0], timestamp_ms)
            except Exception as error:
                failed(node, error)
                return
            if not versioned:
                forward(key, change, timestamp_ms, headers)
            elif put.kept:
                forward(key, (change[0], change[1], put.is_latest), timestamp_ms, headers)

        return process


def versioned_view(table: TableOperator, context: Context) -> ViewAsOf | None:
    """Return the view of a versioned table as of a time; None if its rows have no history (KIP-914)."""
    if table.stored is not None:
        store = context.store(table.stored)
        return store.get if isinstance(store, VersionedStore) else None
    if table.parent is None or isinstance(table, JoinTables | MergeTables):
        return None
    parent = versioned_view(table.parent, context)
    if parent is None:
        return None
    at_ms = NO_TIMESTAMP
    above = parent

    def now(key: Any) -> tuple[Any, int] | None:
        value = above(key, at_ms)
        return None if value is None else (value, at_ms)

    computed = table.computed_view(context, now)

    def view(key: Any, timestamp_ms: int) -> Any:
        nonlocal at_ms
        at_ms = timestamp_ms
        found = computed(key)
        return None if found is None else found[0]

    return view


class JoinStreamTable(Operator):
    """Joins a stream's records with the table's row of the same key.

    The result has the record's timestamp. Records with a null key or value are dropped, except that a left
    join sends a result, without a row, for a record with a null key.
    """

    def __init__(
        self,
        table: TableOperator,
        joiner: StreamJoiner,
        *,
        left: bool,
        buffer: str | None = None,
        grace_ms: int = 0,
    ) -> None:
        self.table = table
        self.joiner = joiner
        self.left = left
        self.buffer = buffer
        self.grace_ms = grace_ms

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        row = versioned_view(self.table, context) or self._latest(context)
        join = _lookup(node, context, forward, None, row, self.joiner, self.left)
        if self.buffer is None:
            return join
        return self._buffered(node, context, join, context.store(self.buffer))

    def _latest(self, context: Context) -> ViewAsOf:
        """Return a view of the latest row, whatever the time."""
        view = self.table.view(context)

        def row(key: Any, timestamp_ms: int) -> Any:
            found = view(key)
            return None if found is None else found[0]

        return row

    def _buffered(self, node: str, context: Context, join: Forward, buffer: RecordBuffer) -> Forward:
        """Buffer each record until stream time has passed it by the grace, then join it (KIP-923)."""
        clock, grace_ms, failed = context.clock(node), self.grace_ms, context.failed

        def release() -> None:
            for key, value, timestamp_ms, headers in buffer.take(clock.ms - grace_ms):
                join(key, value, timestamp_ms, headers)

        def advance() -> None:
            if context.ticked_ms > clock.ms:
                clock.ms = context.ticked_ms
                release()

        context.on_tick(advance)

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None or value is None or timestamp_ms < clock.ms - grace_ms:
                join(key, value, timestamp_ms, headers)
                return
            clock.ms = max(clock.ms, timestamp_ms)
            try:
                buffer.put(key, value, timestamp_ms, headers)
            except Exception as error:
                failed(node, error)
                return
            release()

        return process


class JoinStreamGlobalTable(Operator):
    """Joins a stream's records with the row of a global table whose key ``selector(key, value)`` returns.

    Records with a null value are dropped. If the selector returns null, the record is dropped, or a left join
    sends a result without a row.
    """

    def __init__(
        self, store: str, selector: Callable[[Any, Any], Any], joiner: StreamJoiner, *, left: bool
    ) -> None:
        self.store = store
        self.selector = selector
        self.joiner = joiner
        self.left = left

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        get = context.store(self.store).get
        return _lookup(
            node, context, forward, self.selector, lambda key, timestamp_ms: get(key), self.joiner, self.left
        )


def _lookup(
    node: str,
    context: Context,
    forward: Forward,
    selector: Callable[[Any, Any], Any] | None,
    row: ViewAsOf,
    joiner: StreamJoiner,
    left: bool,
) -> Forward:
    drop, failed = context.drop, context.failed

    def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if value is None:
            drop(node)
            return
        try:
            wanted = key if selector is None else selector(key, value)
            if wanted is None and not left:
                drop(node)
                return
            found = None if wanted is None else row(wanted, timestamp_ms)
            if found is None and not left:
                return
            joined = joiner(key, value, found)
        except Exception as error:
            failed(node, error)
            return
        forward(key, joined, timestamp_ms, headers)

    return process
