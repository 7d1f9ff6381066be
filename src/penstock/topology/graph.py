"""The graph of a topology: sources, processors and sinks, their shared stores, and its sub-topologies.

    source ──▶ processor ──▶ … ──▶ sink

Each edge costs one call per record (`penstock.topology.records.Forward`). An `Operator` is the computation of
a processor. A **sub-topology** is a connected part: nodes that are linked by edges or that share a store.
Sub-topologies are linked only by topics: re-keyed records pass through a repartition topic whose sink is in
one sub-topology and whose source is in another. A sub-topology and a partition form a **task**
(`penstock.topology.tasks.task.Task`), as in Kafka Streams.

Nodes, stores and topics have the names that Kafka Streams would give them, and
`penstock.topology.plans.description.describe` prints the same text. Inside a topology, internal topics have
bare names (``counts-repartition``); `Topology.topic` prefixes them with the application's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from penstock.topology.errors import CoPartitioningError, ErrorPolicy, TopologyError
from penstock.topology.records import Forward, Record
from penstock.topology.serdes import Serde
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec

if TYPE_CHECKING:
    from penstock.topology.collected import Collected
    from penstock.topology.context import Context

TimestampExtractor: TypeAlias = Callable[[Record[Any, Any], int], int]
"""``(record as read, stream time so far) -> timestamp_ms``.

A negative timestamp drops the record, as in Kafka Streams.
"""

TopicChooser: TypeAlias = Callable[[Any, Any, Record[Any, Any]], str]
"""``(key, value, record) -> topic``, for sinks that choose a topic per record."""

Partitioner: TypeAlias = Callable[[str, Any, Any, int], int | None]
"""``(topic, key, value, partitions) -> partition``; None leaves the choice to Kafka's partitioner."""

OffsetReset: TypeAlias = Literal["earliest", "latest"]


class Operator(ABC):
    """The computation of a processor node.

    One object serves all tasks; the state of each task lives in the closure that `compile` returns.
    """

    has_timers = False
    """Whether it acts when the time of day passes without a record; waiting for stream time doesn't count."""

    @abstractmethod
    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        """Return the function that processes the node's records in one task.

        ``forward`` sends a record to all children. Exceptions of user code are caught where that code is
        called and passed to ``context.failed(node, error)``; if that returns, the node is finished with the
        record. Nothing else is caught: an exception from ``forward`` stops the task.
        """

    reads_alone = False
    """Whether its result depends only on the record as read, so that other tasks may share the result.

    Such an operator forwards at most one record per input record, with the same headers.
    """

    @property
    def takes_batches(self) -> bool:
        """Whether it can compute a batch's records together with `collected`, where the task allows it."""
        return False

    def collected(self, node: str, context: Context, forward: Forward) -> Collected:
        """Return the collector that computes the node's records together; it replaces `compile`."""
        raise NotImplementedError(f"{type(self).__name__} takes records one by one")


class Node:
    """A node of the graph. Records are sent to ``children`` in the order in which they were added."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parents: list[Node] = []
        self.children: list[Node] = []
        self.stores: list[str] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Source(Node):
    """A node that reads topics (bare names) with one pair of serdes; without a serde, bytes stay bytes."""

    def __init__(
        self,
        name: str,
        topics: Sequence[str],
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        extractor: TimestampExtractor | None = None,
        reset: OffsetReset | None = None,
    ) -> None:
        super().__init__(name)
        self.topics = tuple(topics)
        self.key = key
        self.value = value
        self.extractor = extractor
        self.reset = reset


class Processor(Node):
    """A node that runs an operator."""

    def __init__(self, name: str, operator: Operator) -> None:
        super().__init__(name)
        self.operator = operator


class Sink(Node):
    """A node that writes to a topic (bare name), or to the topic that ``topic`` chooses for each record."""

    def __init__(
        self,
        name: str,
        topic: str | TopicChooser,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        partitioner: Partitioner | None = None,
    ) -> None:
        super().__init__(name)
        self.topic = topic
        self.key = key
        self.value = value
        self.partitioner = partitioner


@dataclass(frozen=True, slots=True)
class Repartition:
    """A repartition topic. ``partitions`` None: the greatest number among the upstream topics."""

    name: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the application owns, with everything needed to create it."""

    name: str
    partitions: int
    config: Mapping[str, str]
    kind: Literal["repartition", "changelog"]


@dataclass(frozen=True, slots=True)
class GlobalTable:
    """A topic that every worker holds in full, in a store that all tasks read."""

    topic: str
    source: str
    processor: str
    store: KeyValueSpec


@dataclass(frozen=True, slots=True)
class Frame:
    """A DataFrame that is read like a topic. It stays in the process that starts the application.

    ``partitions`` None: the greatest number of partitions among the topics.
    """

    partitions: int | None
    data: Any = None
    """The DataFrame and the description of its columns, which only the runner interprets."""

    def __reduce__(self) -> tuple[type[Frame], tuple[int | None]]:
        return Frame, (self.partitions,)


@dataclass(frozen=True)
class SubTopology:
    """A connected part of a topology; its tasks are numbered ``<id>_<partition>``."""

    id: int
    nodes: tuple[Node, ...]
    stores: tuple[StoreSpec, ...]

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Source))

    @cached_property
    def sinks(self) -> tuple[Sink, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Sink))

    @cached_property
    def source_topics(self) -> tuple[str, ...]:
        """The bare names of the topics that it reads."""
        return tuple(topic for source in self.sources for topic in source.topics)

    @cached_property
    def has_timers(self) -> bool:
        """Whether its tasks act when time passes, so that every batch must call `Task.tick`."""
        return any(isinstance(node, Processor) and node.operator.has_timers for node in self.nodes)

    @cached_property
    def stateless(self) -> bool:
        """Whether it has neither stores nor timers: records may be processed anywhere, in any order."""
        return not self.stores and not self.has_timers


class Topology:
    """The graph of one application. `penstock.streams.App` builds it; see there for an example."""

    def __init__(self, application: str, *, errors: ErrorPolicy | None = None) -> None:
        self.application = application
        self.errors = errors or ErrorPolicy()
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StoreSpec] = {}
        self.repartitions: dict[str, Repartition] = {}
        self.globals: dict[str, GlobalTable] = {}
        self.frames: dict[str, Frame] = {}
        self.copartitioned: list[tuple[str, frozenset[str]]] = []
        """The sets of topics that need equal numbers of partitions, each with the operation that needs it."""

    # building

    def add_source(self, source: Source) -> Source:
        """Add a source. Raises TopologyError if one of its topics has a source, or if the name exists."""
        for topic in source.topics:
            if topic in self.globals:
                raise TopologyError(f"topic {topic} is a global table, so it can't be read by {source.name}")
            for other in self.nodes.values():
                if isinstance(other, Source) and topic in other.topics:
                    raise TopologyError(
                        f"topic {topic} is already read by {other.name}, so it can't be read by {source.name}"
                    )
        self._add(source, ())
        return source

    def add_processor(
        self, name: str, operator: Operator, parents: Iterable[Node], stores: Iterable[str] = ()
    ) -> Processor:
        """Add a node after ``parents``, with access to ``stores``."""
        processor = Processor(name, operator)
        self._add(processor, parents)
        for store in stores:
            self.connect(processor, store)
        return processor

    def add_sink(self, sink: Sink, parents: Iterable[Node]) -> Sink:
        self._add(sink, parents)
        return sink

    def _add(self, node: Node, parents: Iterable[Node]) -> None:
        if node.name in self.nodes:
            raise TopologyError(f"two nodes are named {node.name}: give one of them another name")
        for parent in parents:
            node.parents.append(parent)
            parent.children.append(node)
        self.nodes[node.name] = node

    def add_store(self, spec: StoreSpec) -> None:
        """Add a store. Raises TopologyError if another store has the name."""
        if self.is_global_store(spec.name) or self.stores.setdefault(spec.name, spec) is not spec:
            raise TopologyError(f"two stores are named {spec.name}: give one of them another name")

    def connect(self, node: Node, store: str) -> None:
        """Give a node access to a store, which merges the sub-topologies of all nodes with that store."""
        if store not in node.stores:
            node.stores.append(store)

    def add_repartition(self, repartition: Repartition) -> None:
        if repartition.name in self.repartitions:
            raise TopologyError(
                f"two repartition topics are named {repartition.name}: give one operator another name"
            )
        self.repartitions[repartition.name] = repartition

    def add_global(self, table: GlobalTable) -> None:
        if table.topic in self.globals:
            raise TopologyError(f"topic {table.topic} is already a global table: use that table")
        for node in self.nodes.values():
            if isinstance(node, Source) and table.topic in node.topics:
                raise TopologyError(f"topic {table.topic} is already read, so it can't be a global table too")
        if table.store.name in self.stores or self.is_global_store(table.store.name):
            raise TopologyError(f"two stores are named {table.store.name}: give one of them another name")
        self.globals[table.topic] = table

    def is_global_store(self, name: str) -> bool:
        """Whether a global table's store has this name."""
        return any(table.store.name == name for table in self.globals.values())

    def copartition(self, topics: Iterable[str], because: str) -> None:
        """Require equal numbers of partitions for these topics (bare names); ``because`` names the reason."""
        self.copartitioned.append((because, frozenset(topics)))

    # what was built

    def topic(self, name: str) -> str:
        """Return a topic's name on the cluster: internal topics are prefixed with the application's name."""
        return f"{self.application}-{name}" if name in self.repartitions else name

    def changelog_topic(self, store: str) -> str:
        return f"{self.application}-{store}-changelog"

    @property
    def global_sources(self) -> dict[str, GlobalTable]:
        """The global tables by the names of their source nodes."""
        return {table.source: table for table in self.globals.values()}

    @property
    def sub_topologies(self) -> tuple[SubTopology, ...]:
        """The connected parts, numbered as in Kafka Streams: in the order of their first sources' names.

        Global tables take numbers too.
        """
        return _split(self)

    def source_topics(self) -> dict[str, SubTopology]:
        """Return the sub-topology that reads each topic, by the topics' names on the cluster.

        Repartition topics are included, topics of global tables are not.
        """
        return {self.topic(topic): part for part in self.sub_topologies for topic in part.source_topics}

    def internal_topics(self, partitions: Mapping[str, int]) -> dict[str, InternalTopic]:
        """Return the repartition and changelog topics, given the number of partitions of each input topic.

        Raises CoPartitioningError, and TopologyError for a topic without a number.
        """
        counts = self.partition_counts(partitions)
        found: list[InternalTopic] = [
            InternalTopic(self.topic(name), counts[self.topic(name)], _REPARTITION_CONFIG, "repartition")
            for name in self.repartitions
        ]
        for part in self.sub_topologies:
            number = self.task_count(part, counts)
            found += [
                InternalTopic(self.changelog_topic(spec.name), number, spec.changelog_config(), "changelog")
                for spec in part.stores
                if spec.logged
            ]
        return {topic.name: topic for topic in found}

    def task_count(self, part: SubTopology, counts: Mapping[str, int]) -> int:
        """Return the number of tasks of a part: the greatest number of partitions of its topics."""
        return max(counts[self.topic(topic)] for topic in part.source_topics)

    def partition_counts(self, partitions: Mapping[str, int]) -> dict[str, int]:
        """Complete ``partitions`` (by topic on the cluster) with the repartition topics and DataFrames.

        A repartition topic without its own number gets the greatest number among the topics that its part
        reads, and then that of the topics it is joined with. Raises CoPartitioningError if explicit numbers
        disagree.
        """
        counts = {topic: count for topic, count in partitions.items() if topic not in self.repartitions}
        for repartition in self.repartitions.values():
            if repartition.partitions is not None:
                counts[repartition.name] = repartition.partitions
        for name, frame in self.frames.items():
            counts.setdefault(name, frame.partitions or max(partitions.values(), default=1))
        parts = self.sub_topologies
        for part in parts:
            for topic in part.source_topics:
                if topic not in counts and topic not in self.repartitions:
                    raise TopologyError(f"topic {topic} is read, but its number of partitions is not known")
        undecided = [name for name in self.repartitions if name not in counts]
        while undecided:
            for name in undecided:
                above = {topic for part in parts if _writes(part, name) for topic in part.source_topics}
                known = [counts[topic] for topic in above if topic in counts]
                if known and len(known) == len(above - {name}):
                    counts[name] = max(known)
            if not any(name in counts for name in undecided):
                # A foreign-key join's two topics feed each other; each gets the number of partitions of its
                # table.
                for _, topics in self.copartitioned:
                    known = [counts[topic] for topic in topics if topic in counts]
                    counts.update((topic, max(known)) for topic in topics if known and topic not in counts)
            rest = [name for name in undecided if name not in counts]
            if len(rest) == len(undecided):
                raise TopologyError(
                    f"the repartition topics {sorted(rest)} feed each other: give one a number of partitions"
                )
            undecided = rest
        for because, topics in self.copartitioned:
            self._agree(because, topics, counts)
        return {self.topic(name): count for name, count in counts.items()}

    def _agree(self, because: str, topics: frozenset[str], counts: dict[str, int]) -> None:
        fixed = {
            name: counts[name]
            for name in sorted(topics)
            if name not in self.repartitions or self.repartitions[name].partitions is not None
        }
        if len(set(fixed.values())) > 1:
            shown = ", ".join(f"{self.topic(name)} has {count}" for name, count in fixed.items())
            raise CoPartitioningError(
                f"{because} needs topics with one number of partitions, as equal keys must meet; {shown}. "
                "Repartition one of them: stream.repartition(partitions=…)"
            )
        count = max(fixed.values()) if fixed else max(counts[name] for name in topics)
        for name in topics:
            counts[name] = count


_REPARTITION_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
    "message.timestamp.type": "CreateTime",
}


def _writes(part: SubTopology, topic: str) -> bool:
    return any(sink.topic == topic for sink in part.sinks)


@dataclass
class _Groups:
    """A union-find structure over the names of nodes and stores."""

    parent: dict[str, str] = field(default_factory=dict)

    def root(self, name: str) -> str:
        while (above := self.parent.setdefault(name, name)) != name:
            name = above
        return name

    def unite(self, one: str, other: str) -> None:
        self.parent[self.root(one)] = self.root(other)


def _split(topology: Topology) -> tuple[SubTopology, ...]:
    groups = _Groups()
    for node in topology.nodes.values():
        for parent in node.parents:
            groups.unite(node.name, parent.name)
        for store in node.stores:
            if store in topology.stores:  # the stores of global tables connect nothing
                groups.unite(node.name, f"store {store}")
    members: dict[str, list[Node]] = {}
    sources = [name for name, node in topology.nodes.items() if isinstance(node, Source)]
    for name in sorted([*sources, *topology.global_sources]):
        members.setdefault(groups.root(name), [])
    for node in topology.nodes.values():
        members[groups.root(node.name)].append(node)
    parts = []
    for number, nodes in enumerate(members.values()):
        if nodes:  # global tables have numbers, but no tasks
            names = dict.fromkeys(
                store for node in nodes for store in node.stores if store in topology.stores
            )
            parts.append(SubTopology(number, tuple(nodes), tuple(topology.stores[name] for name in names)))
    return tuple(parts)
