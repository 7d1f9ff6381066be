"""Handles: what an operator needs to know of the stream, the table or the global table that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from penstock.streams.builder import Builder
from penstock.topology.aggregates.windowed_aggregates import WindowedTable
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Node, Operator, Partitioner
from penstock.topology.operators.tables import AggregatedTogether, TableOperator, TableToStream
from penstock.topology.serdes import Serde
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec, VersionedSpec

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class StreamHandle(Generic[K, V]):
    """A stream: the node that forwards its records, and their serdes (None: the application's)."""

    builder: Builder
    node: Node
    key: Serde[K] | None
    value: Serde[V] | None
    topics: frozenset[str]
    """The topics (bare names) in whose partitions the records are."""
    rekeyed: bool = False
    """Whether keys may have changed since then, so that equal keys may be in different partitions."""

    def __str__(self) -> str:
        return f"<Stream {self.node.name}>"

    def with_serdes(self, key: Serde[Any] | None, value: Serde[Any] | None) -> StreamHandle[K, V]:
        """Return the same stream with other serdes, where they are given."""
        return replace(self, key=key or self.key, value=value or self.value)

    def then(
        self,
        prefix: str,
        name: str | None,
        operator: Operator,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        rekeyed: bool = False,
    ) -> StreamHandle[Any, Any]:
        """Add an operator and return the stream of its results; ``rekeyed`` says that it changes keys."""
        node = self.builder.processor(self.builder.name(name, prefix), operator, [self.node])
        return StreamHandle(self.builder, node, key, value, self.topics, self.rekeyed or rekeyed)

    def repartitioned(
        self,
        base: str,
        where: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        named: bool = False,
    ) -> StreamHandle[K, V]:
        """Return the same records behind the repartition topic ``<base>-repartition``."""
        key_serde = self.builder.key_serde(key or self.key, where)
        value_serde = self.builder.value_serde(value or self.value, where)
        source = self.builder.repartition(
            self.node,
            base,
            key_serde,
            value_serde,
            partitions=partitions,
            partitioner=partitioner,
            named=named,
        )
        return StreamHandle(self.builder, source, key_serde, value_serde, frozenset(source.topics))


class TableHandle(Generic[K, V]):
    """A table: the node that forwards its changes, their serdes, and how other operators read its rows.

    A table is kept in a store from when an operator needs that.
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
        parent: TableHandle[Any, Any] | None = None,
    ) -> None:
        self.builder = builder
        self.node = node
        self.operator = operator
        self.spec = spec
        """The store's definition; the store is added once it is needed. None: computed from the parent."""
        self.key = key
        self.value = value
        self.topics = topics
        self.parent = parent
        if operator.stored is not None:
            self.store()

    def __str__(self) -> str:
        return f"<Table {self.node.name}>"

    def store(self) -> None:
        """Keep the table in its store from now on."""
        assert self.spec is not None, "a table without a store definition can't be stored"
        if self.spec.name not in self.builder.topology.stores:
            self.builder.topology.add_store(self.spec)
        self.builder.topology.connect(self.node, self.spec.name)
        self.operator.stored = self.spec.name

    def readable(self) -> tuple[str, ...]:
        """Make `TableOperator.view` work, and return the stores that its reader must be connected to."""
        if self.operator.stored is None:
            if self.spec is not None:
                self.store()
            else:
                assert self.parent is not None
                self.parent.readable()
        return self.operator.view_stores()

    def send_old_values(self, *, store: bool = True) -> bool:
        """Make changes carry old values, here and as far upstream as necessary; return whether they now do.

        With ``store=False``, do so only if it requires no additional store.
        """
        if not self.operator.sends_old:
            if self.operator.stored is not None:
                self.operator.sends_old = True
                if isinstance(self.operator, AggregatedTogether):
                    for part in self.operator.parts:
                        part.sends_old = True
            elif self.spec is None:
                assert self.parent is not None
                self.operator.sends_old = self.parent.send_old_values(store=store)
            elif store:
                self.store()
                self.operator.sends_old = True
        return self.operator.sends_old

    @property
    def is_versioned(self) -> bool:
        """Whether rows can be read as of a time: from a versioned store, or by filters and maps over one."""
        if self.spec is not None:
            return isinstance(self.spec, VersionedSpec)
        return self.parent is not None and self.parent.is_versioned

    @property
    def final_after_ms(self) -> int:
        """The time after its end when a window is final. Raises TopologyError if the table has no windows."""
        found: TableHandle[Any, Any] | None = self
        while found is not None:
            if isinstance(found.operator, WindowedTable):
                return found.operator.final_after_ms
            found = found.parent
        raise TopologyError(f"until_window_closes() needs a table of windows, but {self} has none")

    def derived(
        self,
        prefix: str,
        name: str | None,
        operator: TableOperator,
        store: str | None,
        value: Serde[Any] | None,
    ) -> TableHandle[K, Any]:
        """Return a table whose rows are computed from this table's rows."""
        spec: StoreSpec | None = None
        node_name = self.builder.name(name, prefix)
        if store is not None:
            spec = KeyValueSpec(
                name=store,
                key=self.builder.key_serde(self.key, f"store {store}"),
                value=self.builder.value_serde(value, f"store {store}"),
            )
            operator.stored = store
        node = self.builder.processor(node_name, operator, [self.node])
        return TableHandle(
            self.builder, node, operator, spec, key=self.key, value=value, topics=self.topics, parent=self
        )

    def changes(self, name: str | None) -> StreamHandle[K, V]:
        """Return the stream of the table's changes."""
        node = self.builder.processor(
            self.builder.name(name, "KTABLE-TOSTREAM-"), TableToStream(), [self.node]
        )
        return StreamHandle(self.builder, node, self.key, self.value, self.topics)


class JoinedTableHandle(TableHandle[K, V]):
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
        sides: Sequence[tuple[TableHandle[Any, Any], TableOperator]],
    ) -> None:
        super().__init__(builder, node, operator, spec, key=key, value=value, topics=topics)
        self.sides = tuple(sides)

    def readable(self) -> tuple[str, ...]:
        if self.operator.stored is None:
            for side, _ in self.sides:
                side.readable()
        return self.operator.view_stores()

    def send_old_values(self, *, store: bool = True) -> bool:
        self.operator.sends_old = True
        for side, join in self.sides:
            side.send_old_values()
            join.sends_old = True
        return True


@dataclass(frozen=True, slots=True)
class GlobalTableHandle:
    """A global table, which has no node: operators read its store."""

    builder: Builder
    store: str

    def __str__(self) -> str:
        return f"<GlobalTable {self.store}>"


def same_builder(one: Builder, other: Builder) -> Builder:
    """Return the builder that both sides of a join have. Raises TopologyError if they differ."""
    if one is not other:
        raise TopologyError("a join is between streams and tables of one application")
    return one
