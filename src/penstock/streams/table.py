"""Tables: the latest value of each key, kept up to date by a stream of changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from penstock.streams import grouped, joins, stream
from penstock.streams.builder import Builder
from penstock.streams.frames import stage_as_frame
from penstock.streams.suppressing import Suppressed
from penstock.topology.buffers import ChangeBufferSpec
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Node
from penstock.topology.serdes import Serde
from penstock.topology.stores import KeyValueSpec, StoreSpec, VersionedSpec
from penstock.topology.suppress import Suppress
from penstock.topology.tables import (
    AggregatedTogether,
    FilterTable,
    MapTableValues,
    Regroup,
    TableOperator,
    TableSource,
    TableToStream,
)
from penstock.topology.windowed_aggregates import WindowedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")


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

    def __init__(
        self,
        builder: Builder,
        node: Node,
        operator: TableOperator,
        spec: StoreSpec | None,
        *,
        key: Serde[K] | None,
        value: Serde[V] | None,
        topics: frozenset[str],
        parent: Table[Any, Any] | None = None,
    ) -> None:
        self._builder = builder
        self._node = node
        self._operator = operator
        self._spec = spec
        """The store's definition; the store is added once it is needed. None: computed from the parent."""
        self._key = key
        self._value = value
        self._topics = topics
        self._parent = parent
        if operator.stored is not None:
            self._store()

    def __repr__(self) -> str:
        return f"<Table {self._node.name}>"

    @property
    def store_name(self) -> str | None:
        """The name of the store that keeps the table; None while no store does."""
        return self._operator.stored

    def _store(self) -> None:
        """Keep the table in its store from now on."""
        assert self._spec is not None, "a table without a store definition can't be stored"
        if self._spec.name not in self._builder.topology.stores:
            self._builder.topology.add_store(self._spec)
        self._builder.topology.connect(self._node, self._spec.name)
        self._operator.stored = self._spec.name

    def _readable(self) -> tuple[str, ...]:
        """Make `TableOperator.view` work, and return the stores that its reader must be connected to."""
        if self._operator.stored is None:
            if self._spec is not None:
                self._store()
            else:
                assert self._parent is not None
                self._parent._readable()
        return self._operator.view_stores()

    def _send_old_values(self, *, store: bool = True) -> bool:
        """Make changes carry old values, here and as far upstream as necessary; return whether they now do.

        With ``store=False``, do so only if it requires no additional store.
        """
        if not self._operator.sends_old:
            if self._operator.stored is not None:
                self._operator.sends_old = True
                if isinstance(self._operator, AggregatedTogether):
                    for part in self._operator.parts:
                        part.sends_old = True
            elif self._spec is None:
                assert self._parent is not None
                self._operator.sends_old = self._parent._send_old_values(store=store)
            elif store:
                self._store()
                self._operator.sends_old = True
        return self._operator.sends_old

    def _derived(
        self,
        prefix: str,
        name: str | None,
        operator: TableOperator,
        store: str | None,
        value: Serde[Any] | None,
    ) -> Table[K, Any]:
        """Return a table whose rows are computed from this table's rows."""
        spec: StoreSpec | None = None
        node_name = self._builder.name(name, prefix)
        if store is not None:
            spec = KeyValueSpec(
                name=store,
                key=self._builder.key_serde(self._key, f"store {store}"),
                value=self._builder.value_serde(value, f"store {store}"),
            )
            operator.stored = store
        node = self._builder.processor(node_name, operator, [self._node])
        return Table(
            self._builder,
            node,
            operator,
            spec,
            key=self._key,
            value=value,
            topics=self._topics,
            parent=self,
        )

    def filter(
        self, predicate: Callable[[K, V], object], *, store: str | None = None, name: str | None = None
    ) -> Table[K, V]:
        """Keep the rows for which ``predicate(key, value)`` is true.

        A row that stops matching becomes a tombstone.
        """
        return self._filtered(FilterTable(None, self._operator, predicate), store, name)

    def filter_not(
        self, predicate: Callable[[K, V], object], *, store: str | None = None, name: str | None = None
    ) -> Table[K, V]:
        """Keep the rows for which ``predicate(key, value)`` is false."""
        return self._filtered(FilterTable(None, self._operator, predicate, negate=True), store, name)

    def _filtered(self, operator: FilterTable, store: str | None, name: str | None) -> Table[K, V]:
        # If this table knows its old values, so does the filter, and it sends no tombstones for rows that it
        # never sent.
        operator.sends_old = self._send_old_values(store=False)
        return self._derived("KTABLE-FILTER-", name, operator, store, self._value)

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
        operator = MapTableValues(None, self._operator, compute)
        return self._derived("KTABLE-MAPVALUES-", name, operator, store, value)

    def to_stream(
        self,
        selector: Callable[[K, V], K2] | None = None,
        *,
        key: Serde[K2] | None = None,
        name: str | None = None,
    ) -> stream.Stream[Any, V]:
        """Return the table's changes as a stream: each new value, or None for a deleted key.

        ``selector(key, value)`` may choose another key.
        """
        node = self._builder.processor(
            self._builder.name(name, "KTABLE-TOSTREAM-"), TableToStream(), [self._node]
        )
        changes: stream.Stream[Any, V] = stream.Stream(
            self._builder, node, key=self._key, value=self._value, topics=self._topics
        )
        return changes if selector is None else changes.select_key(selector, key=key)

    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> grouped.GroupedTable[K2, V2]:
        """Group the rows: ``selector(key, value)`` returns the group's key and the value to aggregate.

        A change removes the row's old value from its old group and adds the new value to its new group,
        through a repartition topic that ``name`` names. The selector must therefore be deterministic.
        """
        node_name = self._builder.name(name, "KTABLE-SELECT-")
        self._send_old_values()
        node = self._builder.processor(node_name, Regroup(selector), [self._node])
        return grouped.GroupedTable(
            self._builder,
            node,
            key=cast("Serde[K2] | None", key or self._key),
            value=cast("Serde[V2] | None", value or self._value),
            name=name,
        )

    # with other tables

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
        if on is not None:
            return joins.join_foreign_key(
                self, other, on, joiner, outer=False, value=value, store=store, name=name
            )
        return self._joined(other, joiner, False, False, value, store, name)

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
        if on is not None:
            return joins.join_foreign_key(
                self, other, on, joiner, outer=True, value=value, store=store, name=name
            )
        return self._joined(other, joiner, True, False, value, store, name)

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
        return self._joined(other, joiner, True, True, value, store, name)

    def _joined(
        self,
        other: Table[Any, Any],
        joiner: Callable[..., Any],
        left_outer: bool,
        right_outer: bool,
        value: Serde[Any] | None,
        store: str | None,
        name: str | None,
    ) -> Table[K, Any]:
        return joins.join_tables(
            self,
            other,
            joiner,
            left_outer=left_outer,
            right_outer=right_outer,
            value=value,
            store=store,
            name=name,
            made_by=JoinedTable,
        )

    # fewer updates

    def suppress(self, until: Suppressed, *, name: str | None = None) -> Table[K, V]:
        """Hold back updates: `until_window_closes`, or `until_time_limit` (KIP-328).

        Time here is stream time, which only records advance, so the last rows wait until more records arrive.
        The buffer's store is named ``<name>-store``.
        """
        if isinstance(self._spec, VersionedSpec):
            raise TopologyError(f"suppress holds back rows, so {self!r} can't be versioned")
        final = until.wait_ms is None
        wait_ms = _final_after_ms(self) if until.wait_ms is None else until.wait_ms
        node_name = self._builder.name(name, "KTABLE-SUPPRESS-")
        buffer = self._builder.store_name(None if name is None else f"{name}-store", "KTABLE-SUPPRESS-")
        self._send_old_values()
        self._builder.topology.add_store(
            ChangeBufferSpec(
                name=buffer,
                key=self._builder.key_serde(self._key, f"store {buffer}"),
                value=self._builder.value_serde(self._value, f"store {buffer}"),
            )
        )
        operator = Suppress(buffer, self._operator, wait_ms, until.limit, final=final)
        operator.sends_old = True
        node = self._builder.processor(node_name, operator, [self._node], [buffer])
        return Table(
            self._builder,
            node,
            operator,
            None,
            key=self._key,
            value=self._value,
            topics=self._topics,
            parent=self,
        )

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
            self._builder,
            self._node,
            self._key,
            self._value,
            is_table=True,
            bootstrap_servers=bootstrap_servers,
            spark=spark,
            schema=schema,
            starting_offsets=starting_offsets,
            shuffle_partitions=shuffle_partitions,
            options=options,
        )


def _final_after_ms(table: Table[Any, Any]) -> int:
    """The time after its end when a window is final. Raises TopologyError if the table has no windows."""
    found: Table[Any, Any] | None = table
    while found is not None:
        if isinstance(found._operator, WindowedTable):
            return found._operator.final_after_ms
        found = found._parent
    raise TopologyError(f"until_window_closes() needs a table of windows, but {table!r} has none")


class JoinedTable(Table[K, V]):
    """A join of two tables by key. It passes its requirements (stores, old values) on to both tables."""

    def __init__(
        self,
        builder: Builder,
        node: Node,
        operator: TableOperator,
        spec: StoreSpec | None,
        *,
        key: Serde[K] | None,
        value: Serde[V] | None,
        topics: frozenset[str],
        sides: Sequence[tuple[Table[Any, Any], TableOperator]],
    ) -> None:
        super().__init__(builder, node, operator, spec, key=key, value=value, topics=topics)
        self._sides = tuple(sides)

    def _readable(self) -> tuple[str, ...]:
        if self._operator.stored is None:
            for side, _ in self._sides:
                side._readable()
        return self._operator.view_stores()

    def _send_old_values(self, *, store: bool = True) -> bool:
        self._operator.sends_old = True
        for side, join in self._sides:
            side._send_old_values()
            join.sends_old = True
        return True


class GlobalTable(Generic[K, V]):
    """A topic that every worker holds in full, so that a stream can look up any key in any partition.

    `App.global_table` creates it. A record replaces its key's value, a null value deletes the key, and a
    record with a null key is skipped. At startup the topic is read to its end before the first record is
    processed.
    """

    def __init__(self, builder: Builder, store: str, key: Serde[K], value: Serde[V]) -> None:
        self._builder = builder
        self._key = key
        self._value = value
        self.store_name = store
        """The name of its store, which processors may read too: ``process(…, stores=[table.store_name])``."""

    def __repr__(self) -> str:
        return f"<GlobalTable {self.store_name}>"


def source_table(
    builder: Builder,
    parent: Node,
    spec: StoreSpec,
    node_name: str,
    *,
    topics: frozenset[str],
    stored: bool,
) -> Table[Any, Any]:
    """Create the table of a topic."""
    if spec.name in builder.topology.stores:
        raise TopologyError(f"two stores are named {spec.name}: give one of them another name")
    operator = TableSource(None)
    node = builder.processor(node_name, operator, [parent])
    made: Table[Any, Any] = Table(
        builder, node, operator, spec, key=spec.key, value=spec.value, topics=topics
    )
    if stored:
        made._store()
    return made
