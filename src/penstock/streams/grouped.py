"""Grouped streams and grouped tables, from which aggregates are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.streams import cogrouped, stream, table, windowed
from penstock.streams.builder import Builder
from penstock.topology.aggregates import AggregateStream, AggregateTable, ReduceStream
from penstock.topology.graph import Node
from penstock.topology.serdes import Serde, long, sum_and_count
from penstock.topology.stores import KeyValueSpec
from penstock.topology.tables import TableOperator, change_serde
from penstock.topology.vectorised import Count, Extreme, Mean, Sum, VectorisedFold
from penstock.topology.vectorised import aggregator as as_aggregator

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class GroupedStream(Generic[K, V]):
    """Records by key, ready for aggregation. Records whose key or value is None are dropped.

    With ``cached=True`` an aggregate sends only the last of all updates of a key in a batch, as Kafka Streams
    does when its cache is on.

    Each aggregate is a table with a store. ``store`` names the store, its changelog
    ``<app>-<store>-changelog`` and, if keys changed, the topic ``<app>-<store>-repartition``. A change of the
    aggregate has the greatest timestamp of the records that went into it.
    """

    def __init__(self, source: stream.Stream[K, V], rekeyed: bool, name: str | None) -> None:
        self._stream = source
        self._rekeyed = rekeyed
        self._name = name
        self._behind: stream.Stream[K, V] | None = None

    def __repr__(self) -> str:
        return f"<GroupedStream {self._stream._node.name}>"

    @property
    def _builder(self) -> Builder:
        return self._stream._builder

    def windowed_by(
        self, windows: windowed.AnyWindows, *, emit: windowed.Emit = "on_update", cached: bool = False
    ) -> windowed.WindowedStream[K, V]:
        """Aggregate by key and window: `tumbling`, `hopping`, `sliding` or `sessions`.

        ``emit="on_close"`` sends each window's result once, when the window closes (KIP-825), instead of its
        updates. With ``cached``, tumbling and hopping windows send only the last of all updates of a window
        in a batch.
        """
        return windowed.WindowedStream(self, windows, emit, cached)

    def cogroup(self, aggregator: Callable[[K, V, A], A]) -> cogrouped.CogroupedStream[K, A]:
        """Aggregate together with other streams (KIP-150).

        Write ``.cogroup(other, its_aggregator)….aggregate(…)``.
        """
        return cogrouped.CogroupedStream(((self, as_aggregator(aggregator)),))

    def _partitioned(self, store: str, named: bool) -> stream.Stream[K, V]:
        """The stream with equal keys in one partition; it reads a repartition topic if keys changed."""
        if not self._rekeyed:
            return self._stream
        if self._behind is not None and self._name is not None:
            self._stream._builder.number_repartition()
            return self._behind  # all aggregates of the group share a topic that has an explicit name
        base = self._name or store
        self._behind = self._stream._repartitioned(
            base, f"grouping for {store}", named=named or self._name is not None
        )
        return self._behind

    def _aggregated(
        self,
        operator: Callable[[str], TableOperator],
        prefix: str,
        store: str | None,
        value: Serde[Any] | None,
        logged: bool,
        name: str | None,
    ) -> table.Table[K, Any]:
        builder = self._stream._builder
        store_name = builder.store_name(store, prefix)
        node_name = builder.name(name, prefix)
        source = self._partitioned(store_name, named=store is not None)
        spec = KeyValueSpec(
            name=store_name,
            key=builder.key_serde(source._key, f"store {store_name}"),
            value=builder.value_serde(value, f"store {store_name}"),
            logged=logged,
        )
        made = operator(store_name)
        node = builder.processor(node_name, made, [source._node])
        return table.Table(builder, node, made, spec, key=spec.key, value=spec.value, topics=source._topics)

    def count(
        self,
        *,
        store: str | None = None,
        logged: bool = True,
        cached: bool = False,
        name: str | None = None,
    ) -> table.Table[K, int]:
        """Count the records of each key, as a 64-bit integer."""
        return self._aggregated(
            lambda stored: AggregateStream(stored, lambda: 0, Count(), cached=cached),
            "KSTREAM-AGGREGATE-",
            store,
            long,
            logged,
            name,
        )

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | None = None,
        value: Serde[V] | None = None,
        logged: bool = True,
        cached: bool = False,
        name: str | None = None,
    ) -> table.Table[K, V]:
        """Combine each key's values with ``reducer(aggregate, value)``, starting from the first value."""
        serde = value or self._stream._value
        return self._aggregated(
            lambda stored: ReduceStream(stored, reducer, cached=cached),
            "KSTREAM-REDUCE-",
            store,
            serde,
            logged,
            name,
        )

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        logged: bool = True,
        cached: bool = False,
        name: str | None = None,
    ) -> table.Table[K, A]:
        """Fold each record into its key's aggregate with ``aggregator(key, value, aggregate)``.

        ``initializer()`` returns the aggregate of a new key. ``value`` is the aggregate's serde. The
        aggregator may change the aggregate in place and return it. A `vectorised` aggregator receives all
        values of a key in a batch in one call, and implies ``cached``.
        """
        fold = as_aggregator(aggregator)
        together = cached or isinstance(fold, VectorisedFold)
        return self._aggregated(
            lambda stored: AggregateStream(stored, initializer, fold, cached=together),
            "KSTREAM-AGGREGATE-",
            store,
            value,
            logged,
            name,
        )

    def sum(
        self,
        of: Callable[[V], Any] | None = None,
        *,
        value: Serde[Any] | None = None,
        store: str | None = None,
        logged: bool = True,
        cached: bool = False,
        name: str | None = None,
    ) -> table.Table[K, Any]:
        """Sum the values, or ``of(value)``; ``value`` is the sum's serde (`long`, `double`…)."""
        return self.aggregate(
            lambda: 0,
            Sum(of),
            value=value or (self._stream._value if of is None else None),
            store=store,
            logged=logged,
            cached=cached,
            name=name,
        )

    def min(
        self,
        of: Callable[[V], Any] | None = None,
        *,
        value: Serde[Any] | None = None,
        store: str | None = None,
        logged: bool = True,
        cached: bool = False,
        name: str | None = None,
    ) -> table.Table[K, Any]:
        """Keep the least value, or ``of(value)``; ``value`` is the result's serde."""
        return self._extreme(min, of, value, store, logged, cached, name)

    def max(
        self,
        of: Callable[[V], Any] | None = None,
        *,
        value: Serde[Any] | None = None,
        store: str | None = None,
        logged: bool = True,
        cached: bool = False,
        name: str | None = None,
    ) -> table.Table[K, Any]:
        """Keep the greatest value, or ``of(value)``; ``value`` is the result's serde."""
        return self._extreme(max, of, value, store, logged, cached, name)

    def _extreme(
        self,
        choose: Callable[[Any, Any], Any],
        of: Callable[[V], Any] | None,
        value: Serde[Any] | None,
        store: str | None,
        logged: bool,
        cached: bool,
        name: str | None,
    ) -> table.Table[K, Any]:
        return self.aggregate(
            lambda: None,
            Extreme(choose, of),
            value=value or (self._stream._value if of is None else None),
            store=store,
            logged=logged,
            cached=cached,
            name=name,
        )

    def avg(
        self,
        of: Callable[[V], float] | None = None,
        *,
        value: Serde[float] | None = None,
        store: str | None = None,
        logged: bool = True,
        cached: bool = False,
        name: str | None = None,
    ) -> table.Table[K, float]:
        """Average the values, or ``of(value)``; ``value`` is the serde of the mean, if it is written.

        The store keeps the sum and the count (`double`, `long`), from which the mean is computed.
        """
        pairs = self.aggregate(
            lambda: (0.0, 0),
            Mean(of),
            value=sum_and_count,
            store=store,
            logged=logged,
            cached=cached,
            name=name,
        )
        return pairs.map_values(lambda pair: pair[0] / pair[1], value=value)


class GroupedTable(Generic[K, V]):
    """The rows of a table by group, ready for aggregation.

    An aggregate follows its rows: when a row changes, moves to another group or is deleted, its former
    contribution is subtracted. There is therefore no min or max, because neither can be subtracted.
    """

    def __init__(
        self,
        builder: Builder,
        node: Node,
        *,
        key: Serde[K] | None,
        value: Serde[V] | None,
        name: str | None,
    ) -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value
        self._name = name
        self._behind: Node | None = None

    def _aggregated(
        self,
        operator: Callable[[str], TableOperator],
        prefix: str,
        store: str | None,
        value: Serde[Any] | None,
        logged: bool,
        name: str | None,
    ) -> table.Table[K, Any]:
        builder = self._builder
        store_name = builder.store_name(store, "KTABLE-AGGREGATE-")  # a reduce too, as in Kafka Streams
        sink_name = builder.name(name, "KSTREAM-SINK-", "-sink")
        source_name = builder.name(name, "KSTREAM-SOURCE-", "-source")
        node_name = builder.name(name, prefix)
        where = f"grouping for {store_name}"
        key_serde = builder.key_serde(self._key, where)
        if self._behind is None or self._name is None:
            self._behind = builder.repartition_as(
                self._node,
                f"{self._name or store_name}-repartition",
                sink_name,
                source_name,
                key_serde,
                change_serde(builder.value_serde(self._value, where)),
            )
        spec = KeyValueSpec(
            name=store_name, key=key_serde, value=builder.value_serde(value, where), logged=logged
        )
        made = operator(store_name)
        node = builder.processor(node_name, made, [self._behind])
        topics = frozenset(getattr(self._behind, "topics", ()))
        return table.Table(builder, node, made, spec, key=key_serde, value=spec.value, topics=topics)

    def count(
        self, *, store: str | None = None, logged: bool = True, name: str | None = None
    ) -> table.Table[K, int]:
        """Count the rows of each group, as a 64-bit integer. A group that lost its last row stays, with 0."""
        return self._aggregated(
            lambda stored: AggregateTable(
                stored,
                lambda: 0,
                lambda key, value, total: total + 1,
                lambda key, value, total: total - 1,
            ),
            "KTABLE-AGGREGATE-",
            store,
            long,
            logged,
            name,
        )

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        store: str | None = None,
        value: Serde[V] | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> table.Table[K, V]:
        """Combine the values of each group.

        ``adder(aggregate, value)`` adds a new value, and ``subtractor(aggregate, value)`` takes out an old
        one.
        """
        return self._aggregated(
            lambda stored: AggregateTable(
                stored,
                None,
                lambda key, new, aggregate: adder(aggregate, new),
                lambda key, old, aggregate: subtractor(aggregate, old),
            ),
            "KTABLE-REDUCE-",
            store,
            value or self._value,
            logged,
            name,
        )

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> table.Table[K, A]:
        """Fold each group's values: ``adder(group, value, aggregate)`` adds, ``subtractor`` takes out."""
        return self._aggregated(
            lambda stored: AggregateTable(stored, initializer, adder, subtractor),
            "KTABLE-AGGREGATE-",
            store,
            value,
            logged,
            name,
        )

    def sum(
        self,
        of: Callable[[V], Any] | None = None,
        *,
        value: Serde[Any] | None = None,
        store: str | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> table.Table[K, Any]:
        """Sum the values, or ``of(value)``; ``value`` is the sum's serde (`long`, `double`…)."""
        take = of or _itself
        return self.aggregate(
            lambda: 0,
            lambda key, new, total: total + take(new),
            lambda key, old, total: total - take(old),
            value=value or (self._value if of is None else None),
            store=store,
            logged=logged,
            name=name,
        )

    def avg(
        self,
        of: Callable[[V], float] | None = None,
        *,
        value: Serde[float] | None = None,
        store: str | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> table.Table[K, float]:
        """Average the values, or ``of(value)``. A group that lost its last row is deleted."""
        take: Callable[[Any], float] = of or _itself

        def subtract(key: K, old: V, pair: tuple[float, int]) -> Any:
            return None if pair[1] == 1 else (pair[0] - take(old), pair[1] - 1)

        pairs = self.aggregate(
            lambda: (0.0, 0),
            lambda key, new, pair: (pair[0] + take(new), pair[1] + 1),
            subtract,
            value=sum_and_count,
            store=store,
            logged=logged,
            name=name,
        )
        return pairs.map_values(lambda pair: pair[0] / pair[1], value=value)


def _itself(value: Any) -> Any:
    return value
