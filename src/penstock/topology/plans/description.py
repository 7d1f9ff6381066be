"""Plans of topologies: as text in the format of Kafka Streams' ``Topology.describe()``, and as a picture."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.topology.graph import Node, Sink, Source, Topology


def describe(topology: Topology) -> str:
    """Return the text that Kafka Streams prints for the same topology, which drawing tools accept unchanged.

    A node's children are listed in the order in which records are sent to them.
    """
    blocks: dict[int, str] = {}
    for part in topology.sub_topologies:
        sizes = _sizes(part.nodes)
        lines = [f"  Sub-topology: {part.id}"]
        for node in sorted(part.nodes, key=lambda node: (-sizes[node.name], node.name)):
            lines += _node(node)
        blocks[part.id] = "".join(f"{line}\n" for line in lines) + "\n"
    free = (number for number in range(len(blocks) + len(topology.globals)) if number not in blocks)
    for (source, table), number in zip(sorted(topology.global_sources.items()), free, strict=False):
        blocks[number] = (
            f"  Sub-topology: {number} for global store (will not generate tasks)\n"
            f"    Source: {source} (topics: [{table.topic}])\n"
            f"      --> {table.processor}\n"
            f"    Processor: {table.processor} (stores: [{table.store.name}])\n"
            "      --> none\n"
            f"      <-- {source}\n"
        )
    return "Topologies:\n " + "".join(blocks[number] for number in sorted(blocks))


def _sizes(nodes: Iterable[Node]) -> dict[str, int]:
    """Return the number of nodes below each node, itself included: the sort key of Kafka Streams.

    A node that is reached by several paths counts once per path.
    """
    sizes: dict[str, int] = {}

    def size(node: Node) -> int:
        if node.name not in sizes:
            sizes[node.name] = 1 + sum(size(child) for child in node.children)
        return sizes[node.name]

    for node in nodes:
        size(node)
    return sizes


def _node(node: Node) -> list[str]:
    match node:
        case Source():
            lines = [f"    Source: {node.name} (topics: [{', '.join(node.topics)}])"]
        case Sink():
            target = f"topic: {node.topic}" if isinstance(node.topic, str) else "extractor class: function"
            lines = [f"    Sink: {node.name} ({target})"]
        case _:
            lines = [f"    Processor: {node.name} (stores: [{', '.join(sorted(node.stores))}])"]
    if not isinstance(node, Sink):
        lines.append(f"      --> {_names(node.children)}")
    if not isinstance(node, Source):
        lines.append(f"      <-- {_names(node.parents)}")
    return lines


def _names(nodes: Iterable[Node]) -> str:
    return ", ".join(node.name for node in nodes) or "none"


def mermaid(topology: Topology) -> str:
    """Return the plan as a Mermaid flowchart: a box per sub-topology, and shapes for topics and stores."""
    ids: dict[str, str] = {}

    def box(kind: str, name: str) -> str:
        return ids.setdefault(f"{kind} {name}", f"{kind[0]}{len(ids)}")

    lines = ["flowchart TD"]
    topics: dict[str, None] = {}
    edges: list[str] = []
    for part in topology.sub_topologies:
        lines.append(f'  subgraph part{part.id}["sub-topology {part.id}"]')
        for node in part.nodes:
            lines.append(f'    {box("node", node.name)}["{_shown(node.name)}"]')
            edges += [f"  {box('node', node.name)} --> {box('node', child.name)}" for child in node.children]
            edges += [f"  {box('node', node.name)} -.- {box('store', store)}" for store in node.stores]
            if isinstance(node, Source):
                topics.update(dict.fromkeys(map(topology.topic, node.topics)))
                edges += [
                    f"  {box('topic', topology.topic(topic))} ==> {box('node', node.name)}"
                    for topic in node.topics
                ]
            elif isinstance(node, Sink):
                target = topology.topic(node.topic) if isinstance(node.topic, str) else "chosen by a function"
                topics[target] = None
                edges.append(f"  {box('node', node.name)} ==> {box('topic', target)}")
        lines += [f'    {box("store", spec.name)}[("{_shown(spec.name)}")]' for spec in part.stores]
        lines.append("  end")
    for table in topology.globals.values():
        topics[table.topic] = None
        lines.append(f'  {box("store", table.store.name)}[("{_shown(table.store.name)}, on every worker")]')
        edges.append(f"  {box('topic', table.topic)} ==> {box('store', table.store.name)}")
    lines += [f'  {box("topic", topic)}[/"{_shown(topic)}"/]' for topic in topics]
    return "\n".join(lines + edges) + "\n"


def _shown(name: str) -> str:
    return name.replace('"', "#quot;")
