"""The builder behind App, Stream and Table: the topology in progress, names, and default serdes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from penstock.topology.errors import TopologyError
from penstock.topology.graph import (
    Node,
    Operator,
    Partitioner,
    Processor,
    Repartition,
    Sink,
    Source,
    Topology,
)
from penstock.topology.operators.stateless import Filter
from penstock.topology.serdes import Serde
from penstock.topology.stores.state_stores import StoreSpec

NO_SERDE: Final[Serde[Any]] = Serde(bytes, bytes, name="none")
"""A placeholder in a store's definition for the application's serde."""

_REPARTITION: Final = "-repartition"


# The plans that a host keeps in its checkpoint refer to this function by the name of the module.
def _has_key(key: Any, value: Any) -> bool:
    return key is not None


class Builder:
    """One application's topology during construction.

    Nodes, stores and topics get the names that Kafka Streams would give them: all operators share one
    counter, and each operator takes the next number, whether it has an explicit name or not. Adding or
    removing an operator therefore renames every later one, together with its stores and topics. An operator
    with an explicit name keeps its store whatever changes around it.
    """

    def __init__(self, topology: Topology, key: Serde[Any] | None, value: Serde[Any] | None) -> None:
        self.topology = topology
        self._key = key
        self._value = value
        self._count = 0

    def number(self, prefix: str) -> str:
        """Return the next generated name."""
        number = self._count
        self._count += 1
        return f"{prefix}{number:010d}"

    def name(self, given: str | None, prefix: str, suffix: str = "") -> str:
        """Return ``given`` plus the suffix, or the next generated name. Both cases consume a number."""
        generated = self.number(prefix)
        return generated if given is None else given + suffix

    def store_name(self, given: str | None, prefix: str) -> str:
        return self.number(f"{prefix}STATE-STORE-") if given is None else given

    def key_serde(self, serde: Serde[Any] | None, where: str) -> Serde[Any]:
        """Return ``serde`` or the application's. Raises TopologyError if neither is set."""
        return self._serde(serde or self._key, "key", where)

    def value_serde(self, serde: Serde[Any] | None, where: str) -> Serde[Any]:
        """Return ``serde`` or the application's. Raises TopologyError if neither is set."""
        return self._serde(serde or self._value, "value", where)

    def _serde(self, serde: Serde[Any] | None, what: str, where: str) -> Serde[Any]:
        if serde is None:
            raise TopologyError(
                f"{where} needs a serde for its {what}: "
                f"give {what}=… there, or to the App for all ({what}=string …)"
            )
        return serde

    def add_store(self, spec: StoreSpec) -> str:
        """Add a store and return its name. The application's serdes fill in for serdes that are not set.

        Adding an equal definition again shares the store.
        """
        if spec.key is NO_SERDE or spec.value is NO_SERDE:
            spec = replace(
                spec,
                key=self.key_serde(None if spec.key is NO_SERDE else spec.key, f"store {spec.name}"),
                value=self.value_serde(None if spec.value is NO_SERDE else spec.value, f"store {spec.name}"),
            )
        known = self.topology.stores.get(spec.name)
        if known is None:
            self.topology.add_store(spec)
        elif known != spec:
            raise TopologyError(f"two stores are named {spec.name}: give one of them another name")
        return spec.name

    def processor(
        self, name: str, operator: Operator, parents: Iterable[Node], stores: Iterable[str] = ()
    ) -> Processor:
        return self.topology.add_processor(name, operator, parents, stores)

    def number_repartition(self) -> None:
        """Consume the numbers of a repartition that another operator shares."""
        self._count += 3

    def repartition(
        self,
        parent: Node,
        name: str,
        key: Serde[Any],
        value: Serde[Any],
        *,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        named: bool = False,
    ) -> Source:
        """Route the records of ``parent`` through a repartition topic, and return the source that reads it.

        Records with a null key are dropped.
        """
        topic = name if name.endswith(_REPARTITION) else name + _REPARTITION
        sink_name = self.name(topic if named else None, "KSTREAM-SINK-", "-sink")
        filter_name = self.name(topic if named else None, "KSTREAM-FILTER-", "-filter")
        source_name = self.name(topic if named else None, "KSTREAM-SOURCE-", "-source")
        parent = self.processor(filter_name, Filter(_has_key), [parent])
        return self.repartition_as(
            parent, topic, sink_name, source_name, key, value, partitions=partitions, partitioner=partitioner
        )

    def repartition_as(
        self,
        parent: Node,
        topic: str,
        sink_name: str,
        source_name: str,
        key: Serde[Any],
        value: Serde[Any],
        *,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> Source:
        """Add a repartition topic under the given names, and return the source that reads it."""
        self.topology.add_repartition(Repartition(topic, partitions))
        self.topology.add_sink(Sink(sink_name, topic, key, value, partitioner), [parent])
        return self.topology.add_source(Source(source_name, [topic], key, value))
