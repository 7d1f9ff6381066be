"""The catalog of an application's stores: which can be viewed, their logs, and their input topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.topology.graph import Node, Processor, Sink, Source, Topology
from penstock.topology.operators.tables import TableSource
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec, VersionedSpec
from penstock.topology.stores.window_stores import SessionSpec, WindowSpec
from penstock.views.errors import StoreNotQueryable, UnknownStore

_SHOWN: Final = (KeyValueSpec, VersionedSpec, WindowSpec, SessionSpec)


@dataclass(frozen=True)
class ViewedStore:
    """A store and its log.

    Attributes:
        topic: the log: the changelog topic, or the topic that a table is read from.
        is_changelog: whether the application writes that log, in the transactions of its results.
        keys_are_placed: whether Kafka's partitioner determines a key's partition from its bytes. If an
            external topic feeds the store, this is likely but not certain: librdkafka's producers have
            another partitioner by default.
        upstream: for each topic that the application reads and that the store depends on, the repartition
            topics on the way, in the order in which records pass them.
    """

    spec: StoreSpec
    topic: str
    is_changelog: bool
    keys_are_placed: bool
    upstream: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        return self.spec.name


class Catalog:
    """The stores of one application."""

    def __init__(self, topology: Topology) -> None:
        self.application = topology.application
        self._stores: dict[str, ViewedStore] = {}
        self._hidden: dict[str, str] = {}
        for table in topology.globals.values():
            self._stores[table.store.name] = ViewedStore(table.store, table.topic, False, False, {})
        for spec in topology.stores.values():
            found = _viewed(topology, spec)
            if isinstance(found, str):
                self._hidden[spec.name] = found
            else:
                self._stores[spec.name] = found

    @property
    def stores(self) -> Mapping[str, ViewedStore]:
        """The stores that can be viewed, by name."""
        return self._stores

    def find(self, name: str) -> ViewedStore:
        """Return a store. Raises UnknownStore, StoreNotQueryable."""
        if name in self._hidden:
            raise StoreNotQueryable(
                f"store {name} of {self.application} can't be queried: {self._hidden[name]}"
            )
        found = self._stores.get(name)
        if found is None:
            known = ", ".join(sorted(self._stores)) or "none"
            raise UnknownStore(
                f"{self.application} has no store {name!r}; stores that can be queried: {known}"
            )
        return found

    def some(self, names: Iterable[str] | None) -> tuple[ViewedStore, ...]:
        """Return the stores of these names, or all. Raises UnknownStore, StoreNotQueryable."""
        if names is None:
            return tuple(self._stores.values())
        return tuple(self.find(name) for name in dict.fromkeys(names))


def _viewed(topology: Topology, spec: StoreSpec) -> ViewedStore | str:
    """Return the viewable store, or the reason why it can't be viewed."""
    if not isinstance(spec, _SHOWN):
        return "it is internal to an operator, and has no keys and values"
    users = [node for node in topology.nodes.values() if spec.name in node.stores]
    if not users:
        return "no operator uses it"
    [part] = [part for part in topology.sub_topologies if spec in part.stores]
    if spec.logged:
        is_placed = all(topic in topology.repartitions for topic in part.source_topics)
        changelog = topology.changelog_topic(spec.name)
        return ViewedStore(spec, changelog, True, is_placed, _upstream(topology, spec.name))
    source = _table_source(users, spec.name)
    if source is None:
        return "it has no changelog (logged=False)"
    if source.topics[0] in topology.frames:
        return "it has no changelog (logged=False), and is read from a DataFrame"
    if source.extractor is not None:
        return "it has no changelog (logged=False), and an extractor replaces the timestamps of its topic"
    return ViewedStore(spec, topology.topic(source.topics[0]), False, False, {})


def _table_source(users: Iterable[Node], store: str) -> Source | None:
    """Return the source of the one topic that the store is a copy of."""
    for node in users:
        if isinstance(node, Processor) and isinstance(node.operator, TableSource):
            parents = node.parents
            if node.operator.stored == store and len(parents) == 1 and isinstance(parents[0], Source):
                return parents[0] if len(parents[0].topics) == 1 else None
    return None


def _upstream(topology: Topology, store: str) -> dict[str, tuple[str, ...]]:
    sources = {
        topic: node for node in topology.nodes.values() if isinstance(node, Source) for topic in node.topics
    }
    feeds: dict[str, set[str]] = {}
    """The repartition topics that the records of a topic reach within one task."""
    reaching: set[str] = set()
    for topic, source in sources.items():
        nodes = _reached(source)
        feeds[topic] = {
            node.topic
            for node in nodes
            if isinstance(node, Sink) and isinstance(node.topic, str) and node.topic in topology.repartitions
        }
        if any(store in node.stores for node in nodes):
            reaching.add(topic)
    found: dict[str, tuple[str, ...]] = {}
    for topic in sources:
        if topic in topology.repartitions or topic in topology.frames:
            continue
        order = _in_order(topic, feeds)
        useful = [name for name in order[1:] if _leads(name, feeds, reaching)]
        if topic in reaching or useful:
            found[topic] = tuple(topology.topic(name) for name in useful)
    return found


def _reached(source: Node) -> list[Node]:
    seen: dict[str, Node] = {}
    waiting = [source]
    while waiting:
        node = waiting.pop()
        if node.name not in seen:
            seen[node.name] = node
            waiting += node.children
    return list(seen.values())


def _in_order(topic: str, feeds: Mapping[str, set[str]]) -> list[str]:
    """Return all topics that a topic leads to, each after those that lead to it (a depth-first order)."""
    done: dict[str, None] = {}
    entered: set[str] = set()

    def visit(name: str) -> None:
        if name in entered:
            return
        entered.add(name)
        for fed in sorted(feeds.get(name, ())):
            visit(fed)
        done[name] = None

    visit(topic)
    return list(reversed(done))


def _leads(topic: str, feeds: Mapping[str, set[str]], reaching: set[str]) -> bool:
    return any(name in reaching for name in _in_order(topic, feeds))
