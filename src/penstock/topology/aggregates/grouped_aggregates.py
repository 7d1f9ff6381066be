"""Aggregates of grouped streams and grouped tables.

Grouped streams: records with a null key or value are dropped. The result has the greatest timestamp of the
records that went into it. Grouped tables (see `penstock.topology.operators.tables.Regroup`): a change removes
the old value from its old group (subtractor) before the new value is added to its new group (adder).

An aggregate's node forwards `Change`s; ``old`` is set only if something downstream needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from penstock.topology.collected import Collected, Folded, Step, step_by
from penstock.topology.context import Context
from penstock.topology.errors import InvalidRecord
from penstock.topology.operators.tables import TableOperator
from penstock.topology.records import Forward, Headers
from penstock.topology.stores.state_stores import KeyValueStore
from penstock.topology.vectorised import Fold

_TIME: Final = Struct(">q")
_pack_time = _TIME.pack
_unpack_time = _TIME.unpack_from


def step_of(aggregator: Callable[[Any, Any, Any], Any], initializer: Callable[[], Any]) -> Step:
    """Return the step that folds several values of a key into its aggregate at once."""
    if not isinstance(aggregator, Fold):
        return step_by(aggregator, initializer)
    fold = aggregator.fold

    def step(key: Any, values: list[Any], aggregate: Any) -> Any:
        return fold(key, values, initializer() if aggregate is None else aggregate)

    return step


class AggregateStream(TableOperator):
    """An aggregate of a stream: ``aggregator(key, value, aggregate) -> aggregate``.

    ``initializer()`` returns the aggregate of a new key; an aggregate of None deletes the key. With
    ``cached``, only the last of a key's updates in a batch is sent.
    """

    def __init__(
        self,
        store: str,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        cached: bool = False,
    ) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.aggregator = aggregator
        self.cached = cached

    @property
    def takes_batches(self) -> bool:
        return self.cached

    def collected(self, node: str, context: Context, forward: Forward) -> Collected:
        step = step_of(self.aggregator, self.initializer)
        store = context.store(self.stored)
        return Folded(node, context, store, step, send_old=self.sends_old, forward=forward)

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        store: KeyValueStore[Any, Any] = context.store(self.stored)
        data, get = store.data, store.data.data.get
        key_to = store.key_serde.serialize
        value_to, value_of = store.value_serde.serialize, store.value_serde.deserialize
        initializer, send_old = self.initializer, self.sends_old
        aggregator = self.aggregator
        if isinstance(aggregator, Fold):
            aggregator = aggregator.__call__  # calling a bound method is faster than calling an object
        failed, drop = context.failed, context.drop
        put = data.put

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(node)
                return
            try:
                key_bytes = key_to(key)
                stored = get(key_bytes)
                if stored is None:
                    old, new = None, aggregator(key, value, initializer())
                else:
                    # The aggregator may change the aggregate in place, so the old one is deserialized
                    # separately.
                    old = value_of(stored[8:]) if send_old else None
                    new = aggregator(key, value, value_of(stored[8:]))
                    before_ms = _unpack_time(stored)[0]
                    if before_ms > timestamp_ms:
                        timestamp_ms = before_ms
                if new is None:
                    data.delete(key_bytes)
                else:
                    put(key_bytes, _pack_time(timestamp_ms) + value_to(new))
            except Exception as error:
                failed(node, error)
                return
            forward(key, (new, old, True), timestamp_ms, headers)

        return process


class ReduceStream(TableOperator):
    """A reduction of a stream: ``reducer(aggregate, value) -> aggregate``.

    A key's first value is its first aggregate; None deletes the key. With ``cached``, only the last of a
    key's updates in a batch is sent.
    """

    def __init__(self, store: str, reducer: Callable[[Any, Any], Any], *, cached: bool = False) -> None:
        super().__init__(store)
        self.reducer = reducer
        self.cached = cached

    @property
    def takes_batches(self) -> bool:
        return self.cached

    def collected(self, node: str, context: Context, forward: Forward) -> Collected:
        reducer = self.reducer

        def reduce(key: Any, value: Any, aggregate: Any) -> Any:
            return value if aggregate is None else reducer(aggregate, value)

        step = step_by(reduce, lambda: None)
        store = context.store(self.stored)
        return Folded(node, context, store, step, send_old=self.sends_old, forward=forward)

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        store: KeyValueStore[Any, Any] = context.store(self.stored)
        data, get = store.data, store.data.data.get
        key_to = store.key_serde.serialize
        value_to, value_of = store.value_serde.serialize, store.value_serde.deserialize
        reducer, send_old = self.reducer, self.sends_old
        failed, drop = context.failed, context.drop
        put = data.put

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(node)
                return
            try:
                key_bytes = key_to(key)
                stored = get(key_bytes)
                if stored is None:
                    old, new = None, value
                else:
                    old = value_of(stored[8:]) if send_old else None
                    new = reducer(value_of(stored[8:]), value)
                    before_ms = _unpack_time(stored)[0]
                    if before_ms > timestamp_ms:
                        timestamp_ms = before_ms
                if new is None:
                    data.delete(key_bytes)
                else:
                    put(key_bytes, _pack_time(timestamp_ms) + value_to(new))
            except Exception as error:
                failed(node, error)
                return
            forward(key, (new, old, True), timestamp_ms, headers)

        return process


class AggregateTable(TableOperator):
    """The aggregate of a grouped table.

    Each change applies ``remover(key, old value, aggregate)``, then ``adder(key, new value, aggregate)``. The
    operator receives `Change`s under the group's key: ``(None, old)`` for the group that a row left, ``(new,
    None)`` for the group that it joined, and both values if it stayed in its group. If ``initializer`` is
    None, the first value becomes the aggregate (reduce).
    """

    def __init__(
        self,
        store: str,
        initializer: Callable[[], Any] | None,
        adder: Callable[[Any, Any, Any], Any],
        remover: Callable[[Any, Any, Any], Any],
    ) -> None:
        super().__init__(store)
        self.initializer = initializer
        self.adder = adder
        self.remover = remover

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        store: KeyValueStore[Any, Any] = context.store(self.stored)
        initializer, adder, remover, send_old = self.initializer, self.adder, self.remover, self.sends_old
        failed = context.failed

        def process(key: Any, change: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None:
                failed(node, InvalidRecord("a change of a grouped table has no key"))
                return
            new_value, old_value, _ = change
            try:
                present = store.get_with_timestamp(key)
                before, aggregate = None, None
                if present is not None:
                    before = present[0] if not send_old else store.get(key)
                    aggregate = present[0]
                    timestamp_ms = max(timestamp_ms, present[1])
                if old_value is not None and aggregate is not None:
                    aggregate = remover(key, old_value, aggregate)
                if new_value is not None:
                    if aggregate is None:
                        aggregate = new_value if initializer is None else adder(key, new_value, initializer())
                    else:
                        aggregate = adder(key, new_value, aggregate)
                store.put(key, aggregate, timestamp_ms)
            except Exception as error:
                failed(node, error)
                return
            forward(key, (aggregate, before if send_old else None, True), timestamp_ms, headers)

        return process
