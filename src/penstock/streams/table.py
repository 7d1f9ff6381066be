"""Tables: the latest value of each key, kept up by a stream of changes."""

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
    """The latest value of each key. A record replaces its key's value; one with the value None deletes the
    key.

    Made by `App.table`, `Stream.to_table`, by aggregating, or from another table. A table is kept in a store
    where it is named (``store=…``, which also lets it be queried) or where something reads it (a join, a
    grouping); otherwise its changes just pass through.

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
        """The store that it has, or will have once something needs it; None: computed from the parent."""
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
        """The name of the store that keeps the table; None where nothing does (yet)."""
        return self._operator.stored

    def _store(self) -> None:
        """Keep the table in its store from now on."""
        assert self._spec is not None, "only a table with a store of its own is asked"
        if self._spec.name not in self._builder.topology.stores:
            self._builder.topology.add_store(self._spec)
        self._builder.topology.connect(self._node, self._spec.name)
        self._operator.stored = self._spec.name

    def _readable(self) -> tuple[str, ...]:
        """See to it that `TableOperator.view` works; gives the stores that its reader must be connected
        to.
        """
        if self._operator.stored is None:
            if self._spec is not None:
                self._store()
            else:
                assert self._parent is not None
                self._parent._readable()
        return self._operator.view_stores()

    def _send_old_values(self, *, store: bool = True) -> bool:
        """Have the changes carry old values, here and as far up as that takes; gives whether they do now.

        With ``store=False`` only where that needs no table to be stored that isn't so far.
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
        """A table whose rows are computed from this one's."""
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
        """The rows for which ``predicate(key, value)`` is true. A row for which that ends becomes a
        tombstone.
        """
        return self._filtered(FilterTable(None, self._operator, predicate), store, name)

    def filter_not(
        self, predicate: Callable[[K, V], object], *, store: str | None = None, name: str | None = None
    ) -> Table[K, V]:
        """The rows for which ``predicate(key, value)`` is false."""
        return self._filtered(FilterTable(None, self._operator, predicate, negate=True), store, name)

    def _filtered(self, operator: FilterTable, store: str | None, name: str | None) -> Table[K, V]:
        # Where this table knows its old values, so does the filter, and it sends no tombstones of what was
        # not there.
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
        """``function(value)``, or ``function(key, value)`` with ``with_key=True``, of each row; never of a
        tombstone.

        It may be called again for a row to find out its old value, so it should give the same result each
        time.
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
        """Its changes: each new value, None where a key was deleted. ``selector(key, value)`` may give
        another key.
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
        """Group the rows: ``selector(key, value)`` gives the group's key and the value to aggregate.

        A change takes the row's old value out of its old group and puts the new one into its new group,
        through a repartition topic that ``name`` names. So the selector must give the same result for the
        same row each time.
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
        """The rows that both tables have, as ``joiner(value, other_value)``.

        By the key, or by the foreign key ``on(key, value)``, the key of the other table (KIP-213; None: no
        row). The result has the greater timestamp of the two rows, or that of the change that made it where
        it is by a foreign key. ``value`` is the result's serde.
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
        """All rows of this table; where the other has none, ``joiner(value, None)``."""
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
        """The rows that either table has; the value of one that has none is None."""
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

        Time is stream time, which passes with the records; so the last rows wait until records come.
        ``name`` names the store of what waits, ``<name>-store``.
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
        """Its changes as a streaming DataFrame of ``key``, ``value`` and ``timestamp``.

        Its query computes all that it takes, from topics and by itself: it has its own checkpoint, takes no
        part in the application's group, and writes to none of its topics. The serdes decide the types: text
        and numbers are such, windowed keys are a struct of key, start and end, JSON is text or, with
        ``schema`` (as Spark writes one: ``"user STRING, sum DOUBLE"``), a struct, and all else is binary.

        Args:
            spark: the session; None: a local one. The DataFrame has a session of its own beside it, with the
                settings that its state needs.
            starting_offsets: where it begins to read, as the source's ``startingOffsets``.
            shuffle_partitions: how many Spark tasks work on state at the same time; None: one for each core.
            options: of the ``penstock`` source.

        Raises NeedsRunningApp where records come through a topic that only the running application writes:
        behind a stage with state that changes their keys. Raises TopologyError, SerdeError, MissingTopics,
        CoPartitioningError, ConfigError.
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
    """How long after their ends the windows of a table are final. Raises TopologyError if it has none."""
    found: Table[Any, Any] | None = table
    while found is not None:
        if isinstance(found._operator, WindowedTable):
            return found._operator.final_after_ms
        found = found._parent
    raise TopologyError(f"until_window_closes() needs a table of windows, and {table!r} is none")


class JoinedTable(Table[K, V]):
    """A table joined of two by their keys: what it needs, it needs of both."""

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
    """A topic that every worker holds as a whole: a stream may look up any of its keys, whatever the
    partitions are.

    Made by `App.global_table`. A record replaces its key's value, a null value deletes it, a null key is left
    out. At the start it is read up to its end before the first record is processed.
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
    """The table of a topic."""
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
