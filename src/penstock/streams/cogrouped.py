"""Cogrouping: several grouped streams that feed one aggregate (KIP-150)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.streams import table
from penstock.topology.aggregates import AggregateStream
from penstock.topology.errors import TopologyError
from penstock.topology.serdes import Serde
from penstock.topology.stores import KeyValueSpec
from penstock.topology.tables import AggregatedTogether
from penstock.topology.vectorised import aggregator as as_aggregator

if TYPE_CHECKING:
    from penstock.streams.grouped import GroupedStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

Part = tuple["GroupedStream[Any, Any]", Callable[[Any, Any, Any], Any]]


class CogroupedStream(Generic[K, A]):
    """Grouped streams with the same key type, each with its own aggregator.

    Create one with `GroupedStream.cogroup`.

    >>> from penstock.streams import App, TopologyTest, long, string
    >>> app = App("carts", key=string, value=long)
    >>> put, taken = app.stream("put").group_by_key(), app.stream("taken").group_by_key()
    >>> both = put.cogroup(lambda key, n, total: total + n).cogroup(taken, lambda key, n, total: total - n)
    >>> both.aggregate(lambda: 0, store="carts").to_stream().to("in-carts")
    >>> test = TopologyTest(app)
    >>> test.input("put").pipe("ann", 5)
    >>> test.input("taken").pipe("ann", 2)
    >>> test.output("in-carts").read_values()
    [('ann', 5), ('ann', 3)]
    """

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts

    def cogroup(
        self, other: GroupedStream[K, V], aggregator: Callable[[K, V, A], A]
    ) -> CogroupedStream[K, A]:
        """Add another stream, whose records ``aggregator(key, value, aggregate)`` adds to the aggregate."""
        if any(grouped is other for grouped, _ in self._parts):
            raise TopologyError(f"{other!r} is already in this group, with its own aggregator")
        return CogroupedStream((*self._parts, (other, as_aggregator(aggregator))))

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> table.Table[K, A]:
        """Aggregate the records of all the streams into one table, from ``initializer()`` for a new key.

        Records with a null key or value are dropped. Raises CoPartitioningError if the topics differ in their
        number of partitions, because equal keys must meet in one partition.
        """
        first = self._parts[0][0]
        builder = first._builder
        store_name = builder.store_name(store, "COGROUPKSTREAM-AGGREGATE-")
        sources = [
            grouped._partitioned(store_name if number == 0 else f"{store_name}-{number}", store is not None)
            for number, (grouped, _) in enumerate(self._parts)
        ]
        spec = KeyValueSpec(
            name=store_name,
            key=builder.key_serde(sources[0]._key, f"store {store_name}"),
            value=builder.value_serde(value, f"store {store_name}"),
            logged=logged,
        )
        builder.add_store(spec)
        topics = frozenset().union(*(source._topics for source in sources))
        if len(topics) > 1:
            builder.topology.copartition(topics, f"the cogroup {store_name}")
        whole = AggregatedTogether(None)
        nodes = []
        for number, (source, (_, aggregator)) in enumerate(zip(sources, self._parts, strict=True)):
            operator = AggregateStream(store_name, initializer, aggregator)
            whole.parts.append(operator)
            node_name = builder.name(
                None if name is None else f"{name}-cogroup-agg-{number}", "COGROUPKSTREAM-AGGREGATE-"
            )
            nodes.append(builder.processor(node_name, operator, [source._node], [store_name]))
        merge_name = builder.name(None if name is None else f"{name}-cogroup-merge", "COGROUPKSTREAM-MERGE-")
        merged = builder.processor(merge_name, whole, nodes)
        made: table.Table[K, A] = table.Table(
            builder, merged, whole, spec, key=spec.key, value=spec.value, topics=topics
        )
        whole.stored = store_name  # the nodes above write the store; this node never accesses it
        return made
