"""Construction of joins: nodes, stores and topics, under the names that Kafka Streams gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.streams.builder import Builder
from penstock.topology.buffers import RecordBufferSpec
from penstock.topology.errors import TopologyError
from penstock.topology.foreign_key import (
    AnswerSubscription,
    AnswerUpdate,
    JoinResponses,
    KeepSubscription,
    SendSubscription,
    response_partitioner,
    response_serde,
    subscription_partitioner,
    subscription_serde,
)
from penstock.topology.graph import Repartition, Sink, Source
from penstock.topology.serdes import Serde, raw
from penstock.topology.stateless import PassThrough
from penstock.topology.stores import KeyValueSpec, StoreSpec, VersionedSpec
from penstock.topology.stream_joins import JoinStreams, KeepForJoin, UnmatchedSpec
from penstock.topology.table_joins import (
    JoinStreamGlobalTable,
    JoinStreamTable,
    JoinTables,
    MergeTables,
)
from penstock.topology.tables import TableSource
from penstock.topology.window_stores import WindowSpec
from penstock.topology.windows import JoinWindows

if TYPE_CHECKING:
    from penstock.streams.stream import Stream
    from penstock.streams.table import GlobalTable, Table


def with_key(joiner: Callable[..., Any], wants_key: bool) -> Callable[[Any, Any, Any], Any]:
    """Adapt the joiner to ``(key, left, right) -> value``."""
    return joiner if wants_key else lambda key, left, right: joiner(left, right)


def _same_builder(one: Builder, other: Builder) -> Builder:
    if one is not other:
        raise TopologyError("a join is between streams and tables of one application")
    return one


def join_streams(
    left: Stream[Any, Any],
    right: Stream[Any, Any],
    joiner: Callable[[Any, Any, Any], Any],
    windows: JoinWindows,
    *,
    left_outer: bool,
    right_outer: bool,
    value: Serde[Any] | None,
    store: str | None = None,
    name: str | None = None,
    at_once: bool = False,
) -> Stream[Any, Any]:
    """Join two streams into a stream of pairs.

    An outer side also sends its records without a match: immediately if ``at_once``, else once no record can
    match them any more.
    """
    builder = _same_builder(left._builder, right._builder)
    where = f"join of {left!r} and {right!r}"
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
    key_serde = builder.key_serde(left._key, where)
    values = [builder.value_serde(stream._value, where) for stream in (left, right)]
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
            keep_names[0] if side == JoinStreams.LEFT else keep_names[1], keep, [stream._node], [keep.store]
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
    builder.topology.copartition(left._topics | right._topics, where)
    return type(left)(builder, merge, key=key_serde, value=value, topics=left._topics | right._topics)


def _partitioned(
    stream: Stream[Any, Any], name: str | None, where: str, *, keeps_null_keys: bool
) -> Stream[Any, Any]:
    """The stream with equal keys in one partition; it reads a repartition topic if keys changed."""
    if not stream._rekeyed:
        return stream
    base = name or stream._node.name
    if not keeps_null_keys:
        return stream._repartitioned(base, where, named=name is not None)
    builder, topic = stream._builder, f"{base}-repartition"
    given = None if name is None else topic
    sink_name = builder.name(given, "KSTREAM-SINK-", "-sink")
    builder.number("KSTREAM-FILTER-")  # consume the number of the filter that other repartitions have
    source_name = builder.name(given, "KSTREAM-SOURCE-", "-source")
    key, value = builder.key_serde(stream._key, where), builder.value_serde(stream._value, where)
    source = builder.repartition_as(stream._node, topic, sink_name, source_name, key, value)
    return type(stream)(builder, source, key=key, value=value, topics=frozenset([topic]))


def join_stream_table(
    stream: Stream[Any, Any],
    table: Table[Any, Any],
    joiner: Callable[[Any, Any, Any], Any],
    *,
    left: bool,
    grace_ms: int | None,
    value: Serde[Any] | None,
    name: str | None,
) -> Stream[Any, Any]:
    """Join the stream's records with the table's rows."""
    builder = _same_builder(stream._builder, table._builder)
    where = f"join of {stream!r} and {table!r}"
    stream = _partitioned(stream, name, where, keeps_null_keys=left)
    stores = table._readable()
    node_name = builder.name(name, "KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-")
    buffer = None
    if grace_ms is not None:
        if not _is_versioned(table):
            raise TopologyError(
                f"{where} has a grace, so {table!r} must be versioned: app.table(…, history='1 hour')"
            )
        buffer = f"{node_name}-Buffer"
        builder.topology.add_store(
            RecordBufferSpec(
                name=buffer,
                key=builder.key_serde(stream._key, where),
                value=builder.value_serde(stream._value, where),
            )
        )
    operator = JoinStreamTable(table._operator, joiner, left=left, buffer=buffer, grace_ms=grace_ms or 0)
    node = builder.processor(
        node_name, operator, [stream._node], stores if buffer is None else (*stores, buffer)
    )
    topics = stream._topics | table._topics
    builder.topology.copartition(topics, where)
    return type(stream)(builder, node, key=stream._key, value=value, topics=topics)


def _is_versioned(table: Table[Any, Any] | None) -> bool:
    """Whether rows can be read as of a time: from a versioned store, or through filters and maps over one."""
    while table is not None:
        if table._spec is not None:
            return isinstance(table._spec, VersionedSpec)
        table = table._parent
    return False


def join_global_table(
    stream: Stream[Any, Any],
    table: GlobalTable[Any, Any],
    selector: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any, Any], Any],
    *,
    left: bool,
    value: Serde[Any] | None,
    name: str | None,
) -> Stream[Any, Any]:
    """Join the stream's records with the rows whose keys ``selector(key, value)`` returns."""
    builder = _same_builder(stream._builder, table._builder)
    operator = JoinStreamGlobalTable(table.store_name, selector, joiner, left=left)
    node = builder.processor(
        builder.name(name, "KSTREAM-LEFTJOIN-"), operator, [stream._node], [table.store_name]
    )
    return type(stream)(
        builder, node, key=stream._key, value=value, topics=stream._topics, rekeyed=stream._rekeyed
    )


def join_tables(
    left: Table[Any, Any],
    right: Table[Any, Any],
    joiner: Callable[[Any, Any], Any],
    *,
    left_outer: bool,
    right_outer: bool,
    value: Serde[Any] | None,
    store: str | None,
    name: str | None,
    made_by: Callable[..., Table[Any, Any]],
) -> Table[Any, Any]:
    """Join the rows that both tables have; an outer side also keeps its rows without a match."""
    builder = _same_builder(left._builder, right._builder)
    where = f"join of {left!r} and {right!r}"
    merge_name = builder.name(name, "KTABLE-MERGE-")
    this_name = builder.name(name, "KTABLE-JOINTHIS-", "-join-this")
    other_name = builder.name(name, "KTABLE-JOINOTHER-", "-join-other")
    left_stores, right_stores = left._readable(), right._readable()
    if left_outer:
        left._send_old_values()
    if right_outer:
        right._send_old_values()
    this = JoinTables(
        left._operator, right._operator, joiner, required=not right_outer, other_required=not left_outer
    )
    other = JoinTables(
        right._operator,
        left._operator,
        lambda mine, theirs: joiner(theirs, mine),
        required=not left_outer,
        other_required=not right_outer,
    )
    sides = [
        builder.processor(this_name, this, [left._node], right_stores),
        builder.processor(other_name, other, [right._node], left_stores),
    ]
    spec: StoreSpec | None = None
    if store is not None:
        spec = KeyValueSpec(
            name=store,
            key=builder.key_serde(left._key, f"store {store}"),
            value=builder.value_serde(value, f"store {store}"),
        )
    merge = MergeTables(store, this)
    topics = left._topics | right._topics
    builder.topology.copartition(topics, where)
    return made_by(
        builder,
        builder.processor(merge_name, merge, sides),
        merge,
        spec,
        key=left._key,
        value=value,
        topics=topics,
        sides=((left, this), (right, other)),
    )


def join_foreign_key(
    left: Table[Any, Any],
    right: Table[Any, Any],
    foreign_key: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any], Any],
    *,
    outer: bool,
    value: Serde[Any] | None,
    store: str | None = None,
    name: str | None = None,
    tells_misses: bool = True,
) -> Table[Any, Any]:
    """Join each left row with the right row that its foreign key names; ``outer`` keeps rows without a match.

    ``tells_misses``: a new row without a match is sent as deleted.
    """
    builder = _same_builder(left._builder, right._builder)
    where = f"foreign-key join of {left!r} and {right!r}"
    key_serde, value_serde = builder.key_serde(left._key, where), builder.value_serde(left._value, where)
    foreign_key_serde = builder.key_serde(right._key, where)
    foreign_serde = builder.value_serde(right._value, where)
    left_stores, right_stores = left._readable(), right._readable()
    right._send_old_values()
    left._send_old_values()

    def named(suffix: str, prefix: str) -> str:
        return builder.name(name, prefix, suffix)

    prefix = "KTABLE-FK-JOIN-"
    topic = named("-subscription-registration", f"{prefix}SUBSCRIPTION-REGISTRATION-") + "-topic"
    send_name = named("-subscription-registration-processor", f"{prefix}SUBSCRIPTION-REGISTRATION-")
    send = builder.processor(
        send_name,
        SendSubscription(
            foreign_key, foreign_key_serde, value_serde, left=outer, tells_misses=tells_misses or outer
        ),
        [left._node],
    )
    sink_name = named("-subscription-registration-sink", "KTABLE-SINK-")
    source_name = named("-subscription-registration-source", "KTABLE-SOURCE-")
    wrapped = subscription_serde(key_serde)
    subscriptions = builder.repartition_as(
        send,
        topic,
        sink_name,
        source_name,
        foreign_key_serde,
        wrapped,
        partitioner=subscription_partitioner(key_serde),
    )
    builder.topology.copartition(right._topics | {topic}, where)
    kept = named("-subscription-store", f"{prefix}SUBSCRIPTION-STATE-STORE-")
    builder.topology.add_store(KeyValueSpec(name=kept, key=raw, value=wrapped))
    processor = f"{prefix}SUBSCRIPTION-PROCESSOR-"
    keep = builder.processor(
        named("-subscription-receive", processor),
        KeepSubscription(kept, foreign_key_serde, key_serde),
        [subscriptions],
        [kept],
    )
    answer = builder.processor(
        named("-subscription-join-foreign", processor),
        AnswerSubscription(right._operator),
        [keep],
        right_stores,
    )
    update = builder.processor(
        named("-foreign-join-subscription", processor),
        AnswerUpdate(kept, foreign_key_serde),
        [right._node],
        [kept],
    )
    topic = named("-subscription-response", f"{prefix}SUBSCRIPTION-RESPONSE-") + "-topic"
    sink_name = named("-subscription-response-sink", "KTABLE-SINK-")
    source_name = named("-subscription-response-source", "KTABLE-SOURCE-")
    answers = response_serde(foreign_serde)
    builder.topology.add_repartition(Repartition(topic))
    sink = Sink(sink_name, topic, key_serde, answers, response_partitioner)
    builder.topology.add_sink(sink, [answer, update])
    responses = builder.topology.add_source(Source(source_name, [topic], key_serde, answers))
    builder.topology.copartition(left._topics | {topic}, where)
    join = builder.processor(
        named("-subscription-response-resolver", f"{prefix}SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"),
        JoinResponses(left._operator, value_serde, joiner, left=outer),
        [responses],
        left_stores,
    )
    result_name = named("-result", f"{prefix}OUTPUT-")
    store_name = builder.store_name(store, prefix + "OUTPUT-")
    spec = KeyValueSpec(
        name=store_name, key=key_serde, value=builder.value_serde(value, f"store {store_name}")
    )
    operator = TableSource(None, skips_absent=not outer)
    node = builder.processor(result_name, operator, [join])
    made = type(left)(
        builder,
        node,
        operator,
        spec,
        key=key_serde,
        value=value,
        topics=left._topics | {topic},
    )
    if store is not None:
        made._store()
    return made
