"""Joins of a stream with a stream, a table or a global table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.streams.construction.handles import GlobalTableHandle, StreamHandle, TableHandle, same_builder
from penstock.streams.durations import Duration, duration_ms
from penstock.streams.windows import NO_GRACE, join_windows
from penstock.topology.errors import TopologyError
from penstock.topology.joins.stream_joins import JoinStreams, KeepForJoin, UnmatchedSpec
from penstock.topology.joins.table_joins import JoinStreamGlobalTable, JoinStreamTable
from penstock.topology.operators.stateless import PassThrough
from penstock.topology.serdes import Serde
from penstock.topology.stores.buffers import RecordBufferSpec
from penstock.topology.stores.window_stores import WindowSpec
from penstock.topology.windows import JoinWindows


def join_stream(
    stream: StreamHandle[Any, Any],
    other: StreamHandle[Any, Any] | TableHandle[Any, Any] | GlobalTableHandle,
    joiner: Callable[..., Any],
    *,
    left: bool,
    right: bool = False,
    within: Duration | None,
    before: Duration | None,
    after: Duration | None,
    grace: Duration | None,
    on: Callable[[Any, Any], Any] | None,
    with_key: bool,
    value: Serde[Any] | None,
    store: str | None,
    name: str | None,
) -> StreamHandle[Any, Any]:
    """Join a stream with whatever the other side is. Raises TopologyError for settings that don't fit it."""
    takes = _with_key(joiner, with_key)
    if isinstance(other, StreamHandle):
        if within is None or on is not None:
            raise TopologyError("a join of streams needs within=…, and takes no on=…")
        span = join_windows(within, before, after, grace or NO_GRACE)
        return join_streams(
            stream,
            other,
            takes,
            span,
            left_outer=left,
            right_outer=right,
            value=value,
            store=store,
            name=name,
        )
    if within is not None or before is not None or after is not None or store is not None:
        raise TopologyError("within, before, after and store are for joins of two streams")
    if isinstance(other, GlobalTableHandle):
        if on is None or grace is not None:
            raise TopologyError("a join with a global table needs on=…, and takes no grace=…")
        return join_global_table(stream, other, on, takes, left=left, value=value, name=name)
    if on is not None:
        raise TopologyError("a stream joins a table by its key: on=… is for global tables")
    grace_ms = None if grace is None else duration_ms(grace, "grace")
    return join_stream_table(stream, other, takes, left=left, grace_ms=grace_ms, value=value, name=name)


def _with_key(joiner: Callable[..., Any], wants_key: bool) -> Callable[[Any, Any, Any], Any]:
    """Adapt the joiner to ``(key, left, right) -> value``."""
    return joiner if wants_key else lambda key, left, right: joiner(left, right)


def join_streams(
    left: StreamHandle[Any, Any],
    right: StreamHandle[Any, Any],
    joiner: Callable[[Any, Any, Any], Any],
    windows: JoinWindows,
    *,
    left_outer: bool,
    right_outer: bool,
    value: Serde[Any] | None,
    store: str | None = None,
    name: str | None = None,
    at_once: bool = False,
) -> StreamHandle[Any, Any]:
    """Join two streams into a stream of pairs.

    An outer side also sends its records without a match: immediately if ``at_once``, else once no record can
    match them any more.
    """
    builder = same_builder(left.builder, right.builder)
    where = f"join of {left} and {right}"
    left = _partitioned(left, f"{name}-left" if name else None, where, keeps_null_keys=left_outer)
    right = _partitioned(right, f"{name}-right" if name else None, where, keeps_null_keys=right_outer)
    this_suffix = "-outer-this-join" if right_outer else "-this-join"
    other_suffix = "-outer-other-join" if left_outer else "-other-join"
    keep_names = [
        builder.name(name, "KSTREAM-WINDOWED-", suffix) for suffix in ("-this-windowed", "-other-windowed")
    ]
    this_number = builder.number("KSTREAM-OUTERTHIS-" if right_outer else "KSTREAM-JOINTHIS-")
    other_number = builder.number("KSTREAM-OUTEROTHER-" if left_outer else "KSTREAM-JOINOTHER-")
    merge_name = builder.name(name, "KSTREAM-MERGE-", "-merge")
    key_serde = builder.key_serde(left.key, where)
    values = [builder.value_serde(stream.value, where) for stream in (left, right)]
    store_names = [
        f"{this_number if store is None else store + this_suffix}-store",
        f"{other_number if store is None else store + other_suffix}-store",
    ]
    for store_name, serde in zip(store_names, values, strict=True):
        builder.topology.add_store(
            WindowSpec(
                name=store_name,
                key=key_serde,
                value=serde,
                retention_ms=windows.retention_ms,
                window_size_ms=windows.size_ms,
                timestamped=False,
                duplicates=True,
            )
        )
    unmatched = None
    if left_outer and not at_once:
        suffix = "-outer-shared-join" if right_outer else "-left-shared-join"
        number = this_number.rsplit("-", 1)[1]
        unmatched = f"KSTREAM-OUTERSHARED-{number}-store" if store is None else f"{store}{suffix}-store"
        builder.topology.add_store(
            UnmatchedSpec(name=unmatched, key=key_serde, value=values[0], right_value=values[1])
        )
    sides = []
    for side, stream, outer, generated, suffix in (
        (JoinStreams.LEFT, left, left_outer, this_number, this_suffix),
        (JoinStreams.RIGHT, right, right_outer, other_number, other_suffix),
    ):
        keep = KeepForJoin(store_names[0] if side == JoinStreams.LEFT else store_names[1])
        kept = builder.processor(
            keep_names[0] if side == JoinStreams.LEFT else keep_names[1], keep, [stream.node], [keep.store]
        )
        join = JoinStreams(
            side,
            merge_name,
            store_names[1] if side == JoinStreams.LEFT else store_names[0],
            windows,
            joiner,
            unmatched=unmatched,
            outer=outer,
        )
        stores = [join.other_store] if unmatched is None else [join.other_store, unmatched]
        sides.append(builder.processor(generated if name is None else name + suffix, join, [kept], stores))
    merge = builder.processor(merge_name, PassThrough(), sides)
    builder.topology.copartition(left.topics | right.topics, where)
    return StreamHandle(builder, merge, key_serde, value, left.topics | right.topics)


def _partitioned(
    stream: StreamHandle[Any, Any], name: str | None, where: str, *, keeps_null_keys: bool
) -> StreamHandle[Any, Any]:
    """The stream with equal keys in one partition; it reads a repartition topic if keys changed."""
    if not stream.rekeyed:
        return stream
    base = name or stream.node.name
    if not keeps_null_keys:
        return stream.repartitioned(base, where, named=name is not None)
    builder, topic = stream.builder, f"{base}-repartition"
    given = None if name is None else topic
    sink_name = builder.name(given, "KSTREAM-SINK-", "-sink")
    builder.number("KSTREAM-FILTER-")  # consume the number of the filter that other repartitions have
    source_name = builder.name(given, "KSTREAM-SOURCE-", "-source")
    key, value = builder.key_serde(stream.key, where), builder.value_serde(stream.value, where)
    source = builder.repartition_as(stream.node, topic, sink_name, source_name, key, value)
    return StreamHandle(builder, source, key, value, frozenset([topic]))


def join_stream_table(
    stream: StreamHandle[Any, Any],
    table: TableHandle[Any, Any],
    joiner: Callable[[Any, Any, Any], Any],
    *,
    left: bool,
    grace_ms: int | None,
    value: Serde[Any] | None,
    name: str | None,
) -> StreamHandle[Any, Any]:
    """Join the stream's records with the table's rows."""
    builder = same_builder(stream.builder, table.builder)
    where = f"join of {stream} and {table}"
    stream = _partitioned(stream, name, where, keeps_null_keys=left)
    stores = table.readable()
    node_name = builder.name(name, "KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-")
    buffer = None
    if grace_ms is not None:
        if not table.is_versioned:
            raise TopologyError(
                f"{where} has a grace, so {table} must be versioned: app.table(…, history='1 hour')"
            )
        buffer = f"{node_name}-Buffer"
        builder.topology.add_store(
            RecordBufferSpec(
                name=buffer,
                key=builder.key_serde(stream.key, where),
                value=builder.value_serde(stream.value, where),
            )
        )
    operator = JoinStreamTable(table.operator, joiner, left=left, buffer=buffer, grace_ms=grace_ms or 0)
    node = builder.processor(
        node_name, operator, [stream.node], stores if buffer is None else (*stores, buffer)
    )
    topics = stream.topics | table.topics
    builder.topology.copartition(topics, where)
    return StreamHandle(builder, node, stream.key, value, topics)


def join_global_table(
    stream: StreamHandle[Any, Any],
    table: GlobalTableHandle,
    selector: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any, Any], Any],
    *,
    left: bool,
    value: Serde[Any] | None,
    name: str | None,
) -> StreamHandle[Any, Any]:
    """Join the stream's records with the rows whose keys ``selector(key, value)`` returns."""
    builder = same_builder(stream.builder, table.builder)
    operator = JoinStreamGlobalTable(table.store, selector, joiner, left=left)
    node = builder.processor(builder.name(name, "KSTREAM-LEFTJOIN-"), operator, [stream.node], [table.store])
    return StreamHandle(builder, node, stream.key, value, stream.topics, stream.rekeyed)
