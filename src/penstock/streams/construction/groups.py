"""Groups: the records of a stream, or the rows of a table, by the key under which they are aggregated."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from penstock.streams.builder import Builder
from penstock.streams.construction.handles import StreamHandle
from penstock.topology.graph import Node, Source
from penstock.topology.operators.tables import change_serde
from penstock.topology.serdes import Serde

K = TypeVar("K")
V = TypeVar("V")


class StreamGroup(Generic[K, V]):
    """The records of a stream by key; ``name`` names the repartition topic that it may need."""

    def __init__(self, stream: StreamHandle[K, V], rekeyed: bool, name: str | None) -> None:
        self.stream = stream
        self._rekeyed = rekeyed
        self._name = name
        self._behind: StreamHandle[K, V] | None = None

    @property
    def builder(self) -> Builder:
        return self.stream.builder

    @property
    def value(self) -> Serde[V] | None:
        return self.stream.value

    def partitioned(self, store: str, named: bool) -> StreamHandle[K, V]:
        """The stream with equal keys in one partition; it reads a repartition topic if keys changed."""
        if not self._rekeyed:
            return self.stream
        if self._behind is not None and self._name is not None:
            self.builder.number_repartition()
            return self._behind  # all aggregates of the group share a topic that has an explicit name
        base = self._name or store
        self._behind = self.stream.repartitioned(
            base, f"grouping for {store}", named=named or self._name is not None
        )
        return self._behind


class TableGroup(Generic[K, V]):
    """The rows of a table by group: ``node`` forwards the changes of each group's rows."""

    def __init__(
        self,
        builder: Builder,
        node: Node,
        *,
        key: Serde[K] | None,
        value: Serde[V] | None,
        name: str | None,
    ) -> None:
        self.builder = builder
        self.key = key
        self.value = value
        self._node = node
        self._name = name
        self._behind: Source | None = None

    def partitioned(
        self, store: str, sink_name: str, source_name: str, key: Serde[Any], where: str
    ) -> Source:
        """Return the source behind the repartition topic, which aggregates share if it was named."""
        if self._behind is None or self._name is None:
            self._behind = self.builder.repartition_as(
                self._node,
                f"{self._name or store}-repartition",
                sink_name,
                source_name,
                key,
                change_serde(self.builder.value_serde(self.value, where)),
            )
        return self._behind
