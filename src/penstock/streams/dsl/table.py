"""Tables: the latest value of each key, kept up to date by a stream of changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from penstock.streams.construction.aggregates import aggregate_table
from penstock.streams.construction.frames import stage_as_frame
from penstock.streams.construction.groups import TableGroup
from penstock.streams.construction.handles import GlobalTableHandle, TableHandle
from penstock.streams.construction.table_joins import join_foreign_key, join_tables
from penstock.streams.construction.tables import suppress
from penstock.streams.dsl import stream
from penstock.streams.suppressing import Suppressed
from penstock.topology.aggregates.grouped_aggregates import AggregateTable
from penstock.topology.operators.tables import FilterTable, MapTableValues, Regroup, TableOperator
from penstock.topology.serdes import Serde, long, sum_and_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
KO = TypeVar("KO")
VO = TypeVar("VO")
A = TypeVar("A")


class Table(Generic[K, V]):
    """The latest value of each key.

    A record replaces its key's value; a record with the value None deletes the key. `App.table`,
    `Stream.to_table`, aggregations, and operations on other tables create tables. A table is kept in a store
    if the store is named (``store=…``, which also makes it queryable) or if an operation reads it (a join, a
    grouping). Otherwise its changes only pass through.

        >>> from penstock.streams import App, TopologyTest, string
        >>> app = App("profiles", key=string, value=string)
        >>> cities = app.table("cities", store="cities")
        >>> cities.group_by(lambda user, city: (city, user)).count().to_stream().to("users-by-city")
        >>> test = TopologyTest(app)
        >>> test.input("cities").pipe("ann", "Rome")
        >>> test.input("cities").pipe("bob", "Rome")
        >>> test.input("cities").pipe("ann", "Oslo")
        >>> test.output("users-by-city").read_table()
        {'Rome': 1, 'Oslo': 1}
    """

    def __init__(self, handle: TableHandle[K, V]) -> None:
        self.handle = handle
        """The table in the topology, for code that adds operators of its own."""

    def __repr__(self) -> str:
        return str(self.handle)

    @property
    def store_name(self) -> str | None:
        """The name of the store that keeps the table; None while no store does."""
        return self.handle.operator.stored

    def filter(
        self, predicate: Callable[[K, V], object], *, store: str | None = None, name: str | None = None
    ) -> Table[K, V]:
        """Keep the rows for which ``predicate(key, value)`` is true.

        A row that stops matching becomes a tombstone.
        """
        return self._filtered(FilterTable(None, self.handle.operator, predicate), store, name)

    def filter_not(
        self, predicate: Callable[[K, V], object], *, store: str | None = None, name: str | None = None
    ) -> Table[K, V]:
        """Keep the rows for which ``predicate(key, value)`` is false."""
        return self._filtered(FilterTable(None, self.handle.operator, predicate, negate=True), store, name)

    def _filtered(self, operator: FilterTable, store: str | None, name: str | None) -> Table[K, V]:
        # If this table knows its old values, so does the filter, and it sends no tombstones for rows that it
        # never sent.
        operator.sends_old = self.handle.send_old_values(store=False)
        return Table(self.handle.derived("KTABLE-FILTER-", name, operator, store, self.handle.value))

    @overload
    def map_values(
        self,
        function: Callable[[V], V2],
        *,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def map_values(
        self,
        function: Callable[[K, V], V2],
        *,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    def map_values(
        self,
        function: Callable[..., Any],
        *,
        with_key: bool = False,
        value: Serde[Any] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Replace values by ``function(value)``, or by ``function(key, value)`` with ``with_key=True``.

        The function is not called for tombstones. It may be called again for a row to recompute its old
        value, so it must be deterministic.
        """
        compute = function if with_key else (lambda key, old: function(old))
        operator = MapTableValues(None, self.handle.operator, compute)
        return Table(self.handle.derived("KTABLE-MAPVALUES-", name, operator, store, value))

    @overload
    def to_stream(self, selector: None = None, *, name: str | None = None) -> stream.Stream[K, V]: ...
    @overload
    def to_stream(
        self,
        selector: Callable[[K, V], K2],
        *,
        key: Serde[K2] | None = None,
        name: str | None = None,
    ) -> stream.Stream[K2, V]: ...
    def to_stream(
        self,
        selector: Callable[[K, V], Any] | None = None,
        *,
        key: Serde[Any] | None = None,
        name: str | None = None,
    ) -> stream.Stream[Any, V]:
        """Return the table's changes as a stream: each new value, or None for a deleted key.

        ``selector(key, value)`` may choose another key.
        """
        changes: stream.Stream[Any, V] = stream.Stream(self.handle.changes(name))
        return changes if selector is None else changes.select_key(selector, key=key)

    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> GroupedTable[K2, V2]:
        """Group the rows: ``selector(key, value)`` returns the group's key and the value to aggregate.

        A change removes the row's old value from its old group and adds the new value to its new group,
        through a repartition topic that ``name`` names. The selector must therefore be deterministic.
        """
        table = self.handle
        node_name = table.builder.name(name, "KTABLE-SELECT-")
        table.send_old_values()
        node = table.builder.processor(node_name, Regroup(selector), [table.node])
        return GroupedTable(
            TableGroup(
                table.builder,
                node,
                key=cast("Serde[K2] | None", key or table.key),
                value=cast("Serde[V2] | None", value or table.value),
                name=name,
            )
        )

    # with other tables

    @overload
    def join(
        self,
        other: Table[K, VO],
        joiner: Callable[[V, VO], V2],
        *,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def join(
        self,
        other: Table[KO, VO],
        joiner: Callable[[V, VO], V2],
        *,
        on: Callable[[K, V], KO | None],
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    def join(
        self,
        other: Table[Any, VO],
        joiner: Callable[[V, VO], V2],
        *,
        on: Callable[[K, V], Any] | None = None,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]:
        """Join the rows that both tables have with ``joiner(value, other_value)``.

        Rows join by key, or with ``on`` by the foreign key ``on(key, value)``, which is a key of the other
        table (KIP-213; None: no match). The result has the greater timestamp of the two rows; in a
        foreign-key join it has the timestamp of the change that produced it. ``value`` is the result's serde.
        """
        return self._joined(other, joiner, on, False, False, value, store, name)

    @overload
    def left_join(
        self,
        other: Table[K, VO],
        joiner: Callable[[V, VO | None], V2],
        *,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Table[KO, VO],
        joiner: Callable[[V, VO | None], V2],
        *,
        on: Callable[[K, V], KO | None],
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]: ...
    def left_join(
        self,
        other: Table[Any, VO],
        joiner: Callable[[V, VO | None], V2],
        *,
        on: Callable[[K, V], Any] | None = None,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]:
        """Join all rows of this table; a row without a match gives ``joiner(value, None)``."""
        return self._joined(other, joiner, on, True, False, value, store, name)

    def outer_join(
        self,
        other: Table[K, VO],
        joiner: Callable[[V | None, VO | None], V2],
        *,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V2]:
        """Join the rows that either table has, with None for the value of a table that has no row."""
        return self._joined(other, joiner, None, True, True, value, store, name)

    def _joined(
        self,
        other: Table[Any, Any],
        joiner: Callable[[Any, Any], Any],
        on: Callable[[Any, Any], Any] | None,
        left_outer: bool,
        right_outer: bool,
        value: Serde[Any] | None,
        store: str | None,
        name: str | None,
    ) -> Table[K, Any]:
        if on is not None:
            return Table(
                join_foreign_key(
                    self.handle,
                    other.handle,
                    on,
                    joiner,
                    outer=left_outer,
                    value=value,
                    store=store,
                    name=name,
                )
            )
        return Table(
            join_tables(
                self.handle,
                other.handle,
                joiner,
                left_outer=left_outer,
                right_outer=right_outer,
                value=value,
                store=store,
                name=name,
            )
        )

    # fewer updates

    def suppress(self, until: Suppressed, *, name: str | None = None) -> Table[K, V]:
        """Hold back updates: `until_window_closes`, or `until_time_limit` (KIP-328).

        Time here is stream time, which only records advance, so the last rows wait until more records arrive.
        The buffer's store is named ``<name>-store``.
        """
        return Table(suppress(self.handle, until, name))

    # as a DataFrame

    def df(
        self,
        *,
        bootstrap_servers: str,
        spark: SparkSession | None = None,
        schema: str | DataType | None = None,
        starting_offsets: str = "earliest",
        shuffle_partitions: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Return the changes as a streaming DataFrame of ``key``, ``value`` and ``timestamp``.

        The DataFrame's query computes all results itself, directly from topics: it has its own checkpoint,
        does not join the application's consumer group, and writes to none of its topics. The serdes determine
        the column types: text and number serdes give text and number columns, and windowed keys give a struct
        of key, start and end. JSON gives text or, with ``schema`` (in Spark's notation: ``"user STRING, sum
        DOUBLE"``), a struct. All other serdes give binary columns.

        Args:
            spark: the session; None: a local session. The DataFrame gets its own session beside it, with the
                settings that its state needs.
            starting_offsets: where the query begins to read, as in the source's ``startingOffsets``.
            shuffle_partitions: how many Spark tasks work on state at the same time; None: one per core.
            options: options of the ``penstock`` source.

        Raises NeedsRunningApp if records pass through a topic that only the running application writes, that
        is, if the table is behind a stateful stage that changes keys. Raises TopologyError, SerdeError,
        MissingTopics, CoPartitioningError, ConfigError.
        """
        return stage_as_frame(
            self.handle,
            bootstrap_servers=bootstrap_servers,
            spark=spark,
            schema=schema,
            starting_offsets=starting_offsets,
            shuffle_partitions=shuffle_partitions,
            options=options,
        )


class GroupedTable(Generic[K, V]):
    """The rows of a table by group, ready for aggregation.

    An aggregate follows its rows: when a row changes, moves to another group or is deleted, its former
    contribution is subtracted. There is therefore no min or max, because neither can be subtracted.
    """

    def __init__(self, handle: TableGroup[K, V]) -> None:
        self.handle = handle
        """The group in the topology, for code that adds operators of its own."""

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
            aggregate_table(self.handle, operator, prefix, store=store, value=value, logged=logged, name=name)
        )

    def count(
        self, *, store: str | None = None, logged: bool = True, name: str | None = None
    ) -> Table[K, int]:
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
    ) -> Table[K, V]:
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
            value or self.handle.value,
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
    ) -> Table[K, A]:
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
    ) -> Table[K, Any]:
        """Sum the values, or ``of(value)``; ``value`` is the sum's serde (`long`, `double`…)."""
        take = of or _itself
        return self.aggregate(
            lambda: 0,
            lambda key, new, total: total + take(new),
            lambda key, old, total: total - take(old),
            value=value or (self.handle.value if of is None else None),
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
    ) -> Table[K, float]:
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


class GlobalTable(Generic[K, V]):
    """A topic that every worker holds in full, so that a stream can look up any key in any partition.

    `App.global_table` creates it. A record replaces its key's value, a null value deletes the key, and a
    record with a null key is skipped. At startup the topic is read to its end before the first record is
    processed.
    """

    def __init__(self, handle: GlobalTableHandle) -> None:
        self.handle = handle
        """The table in the topology, for code that adds operators of its own."""

    def __repr__(self) -> str:
        return str(self.handle)

    @property
    def store_name(self) -> str:
        """The name of its store, which processors may read too: ``process(…, stores=[table.store_name])``."""
        return self.handle.store


def _itself(value: Any) -> Any:
    return value
