"""Aggregates of groups: an operator, its store, and the repartition topic in front of it if keys changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.streams.construction.groups import StreamGroup, TableGroup
from penstock.streams.construction.handles import TableHandle
from penstock.streams.durations import Duration, duration_ms
from penstock.streams.windows import AnyWindows
from penstock.topology.aggregates.grouped_aggregates import AggregateStream
from penstock.topology.aggregates.sliding_windows import AggregateSlidingWindows
from penstock.topology.aggregates.windowed_aggregates import (
    AggregateSessions,
    AggregateTimeWindows,
    WindowedTable,
)
from penstock.topology.errors import TopologyError
from penstock.topology.operators.tables import AggregatedTogether, TableOperator
from penstock.topology.serdes import Serde, Windowed, session_windowed, time_windowed
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec
from penstock.topology.stores.window_stores import SessionSpec, WindowSpec
from penstock.topology.windows import SessionWindows, SlidingWindows

K = TypeVar("K")

Aggregator = Callable[[Any, Any, Any], Any]
"""``(key, value, aggregate) -> aggregate``."""


def aggregate_stream(
    group: StreamGroup[K, Any],
    operator: Callable[[str], TableOperator],
    prefix: str,
    *,
    store: str | None,
    value: Serde[Any] | None,
    logged: bool,
    name: str | None,
) -> TableHandle[K, Any]:
    """Aggregate a stream's records by key; ``operator(store)`` creates the operator."""
    builder = group.builder
    store_name = builder.store_name(store, prefix)
    node_name = builder.name(name, prefix)
    source = group.partitioned(store_name, named=store is not None)
    spec = KeyValueSpec(
        name=store_name,
        key=builder.key_serde(source.key, f"store {store_name}"),
        value=builder.value_serde(value, f"store {store_name}"),
        logged=logged,
    )
    made = operator(store_name)
    node = builder.processor(node_name, made, [source.node])
    return TableHandle(builder, node, made, spec, key=spec.key, value=spec.value, topics=source.topics)


def aggregate_windows(
    group: StreamGroup[K, Any],
    windows: AnyWindows,
    initializer: Callable[[], Any],
    aggregator: Aggregator,
    merger: Aggregator | None,
    prefix: str,
    *,
    on_close: bool,
    cached: bool,
    store: str | None,
    value: Serde[Any] | None,
    retention: Duration | None,
    logged: bool,
    name: str | None,
) -> TableHandle[Windowed[K], Any]:
    """Aggregate a stream's records by key and window; ``merger`` merges two sessions."""
    builder = group.builder
    if isinstance(windows, SessionWindows) and merger is None:
        raise TopologyError("an aggregate of sessions needs a merger, because sessions can merge")
    kept_ms = _kept_ms(windows, retention)
    store_name = builder.store_name(store, prefix)
    node_name = builder.name(name, prefix)
    source = group.partitioned(store_name, named=store is not None)
    where = f"store {store_name}"
    key_serde, value_serde = builder.key_serde(source.key, where), builder.value_serde(value, where)
    spec: StoreSpec
    operator: WindowedTable
    windowed: Serde[Windowed[K]]
    if isinstance(windows, SessionWindows):
        assert merger is not None
        spec = SessionSpec(
            name=store_name, key=key_serde, value=value_serde, logged=logged, retention_ms=kept_ms
        )
        operator = AggregateSessions(store_name, windows, initializer, aggregator, merger, on_close=on_close)
        windowed = session_windowed(key_serde)
    else:
        size_ms = windows.difference_ms if isinstance(windows, SlidingWindows) else windows.size_ms
        spec = WindowSpec(
            name=store_name,
            key=key_serde,
            value=value_serde,
            logged=logged,
            retention_ms=kept_ms,
            window_size_ms=size_ms,
        )
        if isinstance(windows, SlidingWindows):
            operator = AggregateSlidingWindows(
                store_name, windows, initializer, aggregator, on_close=on_close
            )
        else:
            operator = AggregateTimeWindows(
                store_name, windows, initializer, aggregator, on_close=on_close, cached=cached
            )
        windowed = time_windowed(key_serde, size_ms)
    node = builder.processor(node_name, operator, [source.node])
    return TableHandle(builder, node, operator, spec, key=windowed, value=value_serde, topics=source.topics)


def _kept_ms(windows: AnyWindows, retention: Duration | None) -> int:
    if retention is None:
        return windows.retention_ms
    kept_ms = duration_ms(retention, "retention")
    if kept_ms < windows.retention_ms:
        raise TopologyError(
            f"windows are open for {windows.retention_ms} ms, so retention is at least that, not {kept_ms} ms"
        )
    return kept_ms


def aggregate_together(
    parts: Sequence[tuple[StreamGroup[Any, Any], Aggregator]],
    initializer: Callable[[], Any],
    *,
    value: Serde[Any] | None,
    store: str | None,
    logged: bool,
    name: str | None,
) -> TableHandle[Any, Any]:
    """Aggregate several streams into one table, each with its own aggregator (KIP-150)."""
    builder = parts[0][0].builder
    store_name = builder.store_name(store, "COGROUPKSTREAM-AGGREGATE-")
    sources = [
        group.partitioned(store_name if number == 0 else f"{store_name}-{number}", store is not None)
        for number, (group, _) in enumerate(parts)
    ]
    spec = KeyValueSpec(
        name=store_name,
        key=builder.key_serde(sources[0].key, f"store {store_name}"),
        value=builder.value_serde(value, f"store {store_name}"),
        logged=logged,
    )
    builder.add_store(spec)
    topics = frozenset().union(*(source.topics for source in sources))
    if len(topics) > 1:
        builder.topology.copartition(topics, f"the cogroup {store_name}")
    whole = AggregatedTogether(None)
    nodes = []
    for number, (source, (_, aggregator)) in enumerate(zip(sources, parts, strict=True)):
        operator = AggregateStream(store_name, initializer, aggregator)
        whole.parts.append(operator)
        node_name = builder.name(
            None if name is None else f"{name}-cogroup-agg-{number}", "COGROUPKSTREAM-AGGREGATE-"
        )
        nodes.append(builder.processor(node_name, operator, [source.node], [store_name]))
    merge_name = builder.name(None if name is None else f"{name}-cogroup-merge", "COGROUPKSTREAM-MERGE-")
    merged = builder.processor(merge_name, whole, nodes)
    made: TableHandle[Any, Any] = TableHandle(
        builder, merged, whole, spec, key=spec.key, value=spec.value, topics=topics
    )
    whole.stored = store_name  # the nodes above write the store; this node never accesses it
    return made


def aggregate_table(
    group: TableGroup[K, Any],
    operator: Callable[[str], TableOperator],
    prefix: str,
    *,
    store: str | None,
    value: Serde[Any] | None,
    logged: bool,
    name: str | None,
) -> TableHandle[K, Any]:
    """Aggregate a table's rows by group; ``operator(store)`` creates the operator."""
    builder = group.builder
    store_name = builder.store_name(store, "KTABLE-AGGREGATE-")  # a reduce too, as in Kafka Streams
    sink_name = builder.name(name, "KSTREAM-SINK-", "-sink")
    source_name = builder.name(name, "KSTREAM-SOURCE-", "-source")
    node_name = builder.name(name, prefix)
    where = f"grouping for {store_name}"
    key_serde = builder.key_serde(group.key, where)
    source = group.partitioned(store_name, sink_name, source_name, key_serde, where)
    spec = KeyValueSpec(
        name=store_name, key=key_serde, value=builder.value_serde(value, where), logged=logged
    )
    made = operator(store_name)
    node = builder.processor(node_name, made, [source])
    return TableHandle(
        builder, node, made, spec, key=key_serde, value=spec.value, topics=frozenset(source.topics)
    )
