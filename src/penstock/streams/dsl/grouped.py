"""Grouped and cogrouped streams, from which aggregates are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.streams.construction.aggregates import Aggregator, aggregate_stream, aggregate_together
from penstock.streams.construction.groups import StreamGroup
from penstock.streams.dsl.table import Table
from penstock.streams.dsl.windowed import WindowedStream
from penstock.streams.windows import AnyWindows, Emit
from penstock.topology.aggregates.grouped_aggregates import AggregateStream, ReduceStream
from penstock.topology.errors import TopologyError
from penstock.topology.operators.tables import TableOperator
from penstock.topology.serdes import Serde, long, sum_and_count
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

    def __init__(self, handle: StreamGroup[K, V]) -> None:
        self.handle = handle
        """The group in the topology, for code that adds operators of its own."""

    def __repr__(self) -> str:
        return f"<GroupedStream {self.handle.stream.node.name}>"

    def windowed_by(
        self, windows: AnyWindows, *, emit: Emit = "on_update", cached: bool = False
    ) -> WindowedStream[K, V]:
        """Aggregate by key and window: `tumbling`, `hopping`, `sliding` or `sessions`.

        ``emit="on_close"`` sends each window's result once, when the window closes (KIP-825), instead of its
        updates. With ``cached``, tumbling and hopping windows send only the last of all updates of a window
        in a batch.
        """
        return WindowedStream(self.handle, windows, emit, cached)

    def cogroup(self, aggregator: Callable[[K, V, A], A]) -> CogroupedStream[K, A]:
        """Aggregate together with other streams (KIP-150).

        Write ``.cogroup(other, its_aggregator)….aggregate(…)``.
        """
        return CogroupedStream(((self.handle, as_aggregator(aggregator)),))

    def _aggregated(
        self,
        operator: Callable[[str], TableOperator],
        prefix: str,
        store: str | None,
        value: Serde[Any] | None,
        logged: bool,
        name: str | None,
    ) -> Table[K, Any]:
        return Table(
            aggregate_stream(
                self.handle, operator, prefix, store=store, value=value, logged=logged, name=name
            )
        )

    def count(
        self,
        *,
        store: str | None = None,
        logged: bool = True,
        cached: bool = False,
        name: str | None = None,
    ) -> Table[K, int]:
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
    ) -> Table[K, V]:
        """Combine each key's values with ``reducer(aggregate, value)``, starting from the first value."""
        serde = value or self.handle.value
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
    ) -> Table[K, A]:
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
    ) -> Table[K, Any]:
        """Sum the values, or ``of(value)``; ``value`` is the sum's serde (`long`, `double`…)."""
        return self.aggregate(
            lambda: 0,
            Sum(of),
            value=value or (self.handle.value if of is None else None),
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
    ) -> Table[K, Any]:
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
    ) -> Table[K, Any]:
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
    ) -> Table[K, Any]:
        return self.aggregate(
            lambda: None,
            Extreme(choose, of),
            value=value or (self.handle.value if of is None else None),
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
    ) -> Table[K, float]:
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

    def __init__(self, parts: tuple[tuple[StreamGroup[Any, Any], Aggregator], ...]) -> None:
        self._parts = parts

    def cogroup(
        self, other: GroupedStream[K, V], aggregator: Callable[[K, V, A], A]
    ) -> CogroupedStream[K, A]:
        """Add another stream, whose records ``aggregator(key, value, aggregate)`` adds to the aggregate."""
        if any(group is other.handle for group, _ in self._parts):
            raise TopologyError(f"{other!r} is already in this group, with its own aggregator")
        return CogroupedStream((*self._parts, (other.handle, as_aggregator(aggregator))))

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[K, A]:
        """Aggregate the records of all the streams into one table, from ``initializer()`` for a new key.

        Records with a null key or value are dropped. Raises CoPartitioningError if the topics differ in their
        number of partitions, because equal keys must meet in one partition.
        """
        return Table(
            aggregate_together(self._parts, initializer, value=value, store=store, logged=logged, name=name)
        )
