"""Joins of two tables: by their keys, or by a foreign key (KIP-213)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.streams.construction.handles import JoinedTableHandle, TableHandle, same_builder
from penstock.topology.graph import Repartition, Sink, Source
from penstock.topology.joins.foreign_key import (
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
from penstock.topology.joins.table_joins import JoinTables, MergeTables
from penstock.topology.operators.tables import TableSource
from penstock.topology.serdes import Serde, raw
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec


def join_tables(
    left: TableHandle[Any, Any],
    right: TableHandle[Any, Any],
    joiner: Callable[[Any, Any], Any],
    *,
    left_outer: bool,
    right_outer: bool,
    value: Serde[Any] | None,
    store: str | None,
    name: str | None,
) -> TableHandle[Any, Any]:
    """Join the rows that both tables have; an outer side also keeps its rows without a match."""
    builder = same_builder(left.builder, right.builder)
    where = f"join of {left} and {right}"
    merge_name = builder.name(name, "KTABLE-MERGE-")
    this_name = builder.name(name, "KTABLE-JOINTHIS-", "-join-this")
    other_name = builder.name(name, "KTABLE-JOINOTHER-", "-join-other")
    left_stores, right_stores = left.readable(), right.readable()
    if left_outer:
        left.send_old_values()
    if right_outer:
        right.send_old_values()
    this = JoinTables(
        left.operator, right.operator, joiner, required=not right_outer, other_required=not left_outer
    )
    other = JoinTables(
        right.operator,
        left.operator,
        lambda mine, theirs: joiner(theirs, mine),
        required=not left_outer,
        other_required=not right_outer,
    )
    sides = [
        builder.processor(this_name, this, [left.node], right_stores),
        builder.processor(other_name, other, [right.node], left_stores),
    ]
    spec: StoreSpec | None = None
    if store is not None:
        spec = KeyValueSpec(
            name=store,
            key=builder.key_serde(left.key, f"store {store}"),
            value=builder.value_serde(value, f"store {store}"),
        )
    merge = MergeTables(store, this)
    topics = left.topics | right.topics
    builder.topology.copartition(topics, where)
    return JoinedTableHandle(
        builder,
        builder.processor(merge_name, merge, sides),
        merge,
        spec,
        key=left.key,
        value=value,
        topics=topics,
        sides=((left, this), (right, other)),
    )


def join_foreign_key(
    left: TableHandle[Any, Any],
    right: TableHandle[Any, Any],
    foreign_key: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any], Any],
    *,
    outer: bool,
    value: Serde[Any] | None,
    store: str | None = None,
    name: str | None = None,
    tells_misses: bool = True,
) -> TableHandle[Any, Any]:
    """Join each left row with the right row that its foreign key names; ``outer`` keeps rows without a match.

    ``tells_misses``: a new row without a match is sent as deleted.
    """
    builder = same_builder(left.builder, right.builder)
    where = f"foreign-key join of {left} and {right}"
    key_serde, value_serde = builder.key_serde(left.key, where), builder.value_serde(left.value, where)
    foreign_key_serde = builder.key_serde(right.key, where)
    foreign_serde = builder.value_serde(right.value, where)
    left_stores, right_stores = left.readable(), right.readable()
    right.send_old_values()
    left.send_old_values()

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
        [left.node],
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
    builder.topology.copartition(right.topics | {topic}, where)
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
        AnswerSubscription(right.operator),
        [keep],
        right_stores,
    )
    update = builder.processor(
        named("-foreign-join-subscription", processor),
        AnswerUpdate(kept, foreign_key_serde),
        [right.node],
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
    builder.topology.copartition(left.topics | {topic}, where)
    join = builder.processor(
        named("-subscription-response-resolver", f"{prefix}SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"),
        JoinResponses(left.operator, value_serde, joiner, left=outer),
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
    made: TableHandle[Any, Any] = TableHandle(
        builder, node, operator, spec, key=key_serde, value=value, topics=left.topics | {topic}
    )
    if store is not None:
        made.store()
    return made
