"""Windowed grouped streams: aggregates by key and window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.streams.construction.aggregates import aggregate_windows
from penstock.streams.construction.groups import StreamGroup
from penstock.streams.dsl.table import Table
from penstock.streams.durations import Duration
from penstock.streams.windows import AnyWindows, Emit
from penstock.topology.errors import TopologyError
from penstock.topology.serdes import Serde, Windowed, long, sum_and_count
from penstock.topology.vectorised import aggregator as as_aggregator
from penstock.topology.windows import TimeWindows

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class WindowedStream(Generic[K, V]):
    """Records by key and window, ready for aggregation. `GroupedStream.windowed_by` creates it.

    Each aggregate is a table whose keys are `Windowed`: ``key`` and ``window``. A record is dropped if its
    key or value is None, or if its windows have closed: stream time has passed their end plus the grace. A
    window is kept for ``retention``, which is at least as long as it is open.

        >>> from penstock.streams import App, TopologyTest, string, tumbling
        >>> app = App("clicks", key=string, value=string)
        >>> by_minute = app.stream("clicks").group_by_key().windowed_by(tumbling("1 minute"))
        >>> by_minute.count().to_stream(lambda windowed, count: windowed.key).to("clicks-by-minute")
        >>> test = TopologyTest(app)
        >>> for second in (10, 50, 70):
        ...     test.input("clicks").pipe("ann", "x", timestamp=second * 1000)
        >>> test.output("clicks-by-minute").read_values()
        [('ann', 1), ('ann', 2), ('ann', 1)]
    """

    def __init__(self, group: StreamGroup[K, V], windows: AnyWindows, emit: Emit, cached: bool) -> None:
        if emit not in ("on_update", "on_close"):
            raise TopologyError(f"windows are emitted on_update or on_close, not {emit!r}")
        if cached and not isinstance(windows, TimeWindows):
            raise TopologyError(
                f"only tumbling and hopping windows can be cached, not {type(windows).__name__}"
            )
        self._group = group
        self._windows = windows
        self._on_close = emit == "on_close"
        self._cached = cached

    def _aggregated(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any] | None,
        prefix: str,
        store: str | None,
        value: Serde[Any] | None,
        retention: Duration | None,
        logged: bool,
        name: str | None,
    ) -> Table[Windowed[K], Any]:
        return Table(
            aggregate_windows(
                self._group,
                self._windows,
                initializer,
                aggregator,
                merger,
                prefix,
                on_close=self._on_close,
                cached=self._cached,
                store=store,
                value=value,
                retention=retention,
                logged=logged,
                name=name,
            )
        )

    def count(
        self,
        *,
        store: str | None = None,
        retention: Duration | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], int]:
        """Count the records of each window, as a 64-bit integer."""
        return self._aggregated(
            lambda: 0,
            lambda key, value, total: total + 1,
            lambda key, one, other: one + other,
            "KSTREAM-AGGREGATE-",
            store,
            long,
            retention,
            logged,
            name,
        )

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        value: Serde[V] | None = None,
        store: str | None = None,
        retention: Duration | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], V]:
        """Combine each window's values with ``reducer(aggregate, value)``, starting from the first value.

        When two sessions merge, the later session's aggregate is passed as the value.
        """

        def merge(key: Any, one: Any, other: Any) -> Any:
            return other if one is None else reducer(one, other)

        return self._aggregated(
            lambda: None,
            lambda key, new, aggregate: new if aggregate is None else reducer(aggregate, new),
            merge,
            "KSTREAM-REDUCE-",
            store,
            value or self._group.value,
            retention,
            logged,
            name,
        )

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        merger: Callable[[K, A, A], A] | None = None,
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        retention: Duration | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], A]:
        """Fold each record into its window's aggregate with ``aggregator(key, value, aggregate)``.

        ``initializer()`` returns the first aggregate. ``merger(key, aggregate, other)`` merges two sessions;
        only session windows need it. A record of a session also starts from ``initializer()``: the
        surrounding sessions are merged into that aggregate before the record is added.
        """
        fold = as_aggregator(aggregator)
        return self._aggregated(
            initializer, fold, merger, "KSTREAM-AGGREGATE-", store, value, retention, logged, name
        )

    def sum(
        self,
        of: Callable[[V], Any] | None = None,
        *,
        value: Serde[Any] | None = None,
        store: str | None = None,
        retention: Duration | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], Any]:
        """Sum the values, or ``of(value)``; ``value`` is the sum's serde."""
        take = of or _itself
        return self.aggregate(
            lambda: 0,
            lambda key, new, total: total + take(new),
            lambda key, one, other: one + other,
            value=value or (self._group.value if of is None else None),
            store=store,
            retention=retention,
            logged=logged,
            name=name,
        )

    def min(
        self,
        of: Callable[[V], Any] | None = None,
        *,
        value: Serde[Any] | None = None,
        store: str | None = None,
        retention: Duration | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], Any]:
        """Keep the least value, or ``of(value)``; ``value`` is the result's serde."""
        return self._extreme(min, of, value, store, retention, logged, name)

    def max(
        self,
        of: Callable[[V], Any] | None = None,
        *,
        value: Serde[Any] | None = None,
        store: str | None = None,
        retention: Duration | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], Any]:
        """Keep the greatest value, or ``of(value)``; ``value`` is the result's serde."""
        return self._extreme(max, of, value, store, retention, logged, name)

    def _extreme(
        self,
        choose: Callable[[Any, Any], Any],
        of: Callable[[V], Any] | None,
        value: Serde[Any] | None,
        store: str | None,
        retention: Duration | None,
        logged: bool,
        name: str | None,
    ) -> Table[Windowed[K], Any]:
        take = of or _itself

        def better(best: Any, new: Any) -> Any:
            return new if best is None else choose(best, new)

        return self.aggregate(
            lambda: None,
            lambda key, new, best: better(best, take(new)),
            lambda key, one, other: better(one, other),
            value=value or (self._group.value if of is None else None),
            store=store,
            retention=retention,
            logged=logged,
            name=name,
        )

    def avg(
        self,
        of: Callable[[V], float] | None = None,
        *,
        value: Serde[float] | None = None,
        store: str | None = None,
        retention: Duration | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], float]:
        """Average the values, or ``of(value)``; ``value`` is the serde of the mean, if it is written."""
        take: Callable[[Any], float] = of or _itself
        pairs = self.aggregate(
            lambda: (0.0, 0),
            lambda key, new, pair: (pair[0] + take(new), pair[1] + 1),
            lambda key, one, other: (one[0] + other[0], one[1] + other[1]),
            value=sum_and_count,
            store=store,
            retention=retention,
            logged=logged,
            name=name,
        )
        return pairs.map_values(lambda pair: pair[0] / pair[1], value=value)


def _itself(value: Any) -> Any:
    return value
