"""Pruning: the part of a topology that produces one node's records."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from penstock.topology.graph import Node, Processor, Sink, Source, Topology
from penstock.topology.operators.stateless import Branch
from penstock.topology.operators.tables import TableToStream
from penstock.topology.serdes import Serde


def records_of(
    topology: Topology,
    node: Node,
    topic: str,
    key: Serde[Any],
    value: Serde[Any],
    *,
    is_table: bool,
) -> Topology:
    """Return a separate topology that writes the records of ``node`` to ``topic``, and nothing else.

    It contains the nodes upstream, and the nodes that change a store that these read. Its stores have no
    changelogs.
    """
    kept = _needed(topology, node)
    made = Topology(topology.application, errors=topology.errors)
    clones: dict[str, Node] = {}
    for name, original in topology.nodes.items():
        if name in kept:
            clone = copy.copy(original)
            clone.stores = list(original.stores)
            clones[name] = made.nodes[name] = clone
    for name, clone in clones.items():
        clone.parents = [clones[parent.name] for parent in topology.nodes[name].parents]
        clone.children = [
            clones[child.name] for child in topology.nodes[name].children if child.name in clones
        ]
    stores = {store for clone in clones.values() for store in clone.stores}
    made.stores = {
        name: replace(spec, logged=False) for name, spec in topology.stores.items() if name in stores
    }
    read = {name for clone in clones.values() if isinstance(clone, Source) for name in clone.topics}
    made.repartitions = {name: it for name, it in topology.repartitions.items() if name in read}
    made.frames = {name: frame for name, frame in topology.frames.items() if name in read}
    made.globals = {name: table for name, table in topology.globals.items() if table.store.name in stores}
    for because, topics in topology.copartitioned:
        if topics <= read:
            made.copartition(topics, because)
    last = clones[node.name]
    if is_table:
        last = made.add_processor(f"{node.name}-to-stream", TableToStream(), [last])
    made.add_sink(Sink(f"{node.name}-records", topic, key, value), [last])
    return made


def _needed(topology: Topology, node: Node) -> set[str]:
    users: dict[str, list[Node]] = {}
    writers: dict[str, list[Node]] = {}
    for other in topology.nodes.values():
        for store in other.stores:
            if store in topology.stores:
                users.setdefault(store, []).append(other)
        if isinstance(other, Sink) and isinstance(other.topic, str):
            writers.setdefault(other.topic, []).append(other)
    kept: set[str] = set()
    rest: list[Node] = [node]
    while rest:
        one = rest.pop()
        if one.name not in kept:
            kept.add(one.name)
            rest += _beside(one, users, writers, topology.repartitions)
    return kept


def _beside(
    node: Node, users: dict[str, list[Node]], writers: dict[str, list[Node]], repartitions: Iterable[str]
) -> list[Node]:
    """Return the other nodes that ``node`` requires."""
    found = [*node.parents, *(user for store in node.stores for user in users.get(store, ()))]
    if isinstance(node, Source):
        found += [sink for topic in node.topics if topic in repartitions for sink in writers.get(topic, ())]
    if isinstance(node, Processor) and isinstance(node.operator, Branch):
        found += node.children  # a branch operator needs all of its child nodes
    return found
