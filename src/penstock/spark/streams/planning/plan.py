"""The plan of a query: stateless parts of a topology run on the map side of the shuffle, others behind it.

    topics ─▶ map side: stateless parts ─▶ shuffle by partition ─▶ tasks with state ─▶ sink
       └────────────────────────────────────▲                          └─▶ repartition topics, changelogs

Records that only the map side re-keys go directly into the shuffle, so their repartition topic is never
created. Records that a task behind the shuffle re-keys go through their topic and return with the next batch.
A second shuffle, by the topic's partition, brings the records of all tasks together
(`penstock.spark.streams.blocks.merging`).

All tasks of one partition, of whatever part, are one **group** of the shuffle with one state. The stores of a
partition therefore stay in place when parts get new numbers.
"""

from __future__ import annotations

import base64
import pickle
import sys
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from pyspark import cloudpickle

from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.ownership import Driver
from penstock.spark.source.options import SourceOptions
from penstock.spark.streams.planning.grouping import group_of
from penstock.topology.graph import Processor, SubTopology, Topology
from penstock.topology.operators.process import Process
from penstock.topology.stores.state_stores import StoreSpec


class TopologyChanged(RuntimeError):
    """The cluster has changed since the application was started."""


@dataclass(frozen=True)
class StreamsPlan:
    """The plan that every process of the query has.

    ``partition_counts`` covers all topics that are read, and those written to as far as they are known.
    ``shuffle_partitions`` is the checkpoint's number. ``tick_ms`` is the interval at which timers see time
    pass while no records arrive. ``driver`` is the one that has claimed the application, if delivery is
    exactly once.
    """

    topology: Topology
    partition_counts: Mapping[str, int]
    shuffle_partitions: int
    source: SourceOptions
    sink: SinkOptions
    tick_ms: int = 1000
    start_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    driver: Driver | None = None

    @cached_property
    def parts(self) -> tuple[SubTopology, ...]:
        return self.topology.sub_topologies

    @cached_property
    def part_of(self) -> Mapping[str, SubTopology]:
        """The part that reads each topic."""
        return {self.topology.topic(topic): part for part in self.parts for topic in part.source_topics}

    @cached_property
    def mapped(self) -> frozenset[int]:
        """The ids of the parts on the map side: those without state whose topics already exist."""
        return map_side_parts(self.topology)

    @cached_property
    def shuffled_topics(self) -> frozenset[str]:
        """The repartition topics that the shuffle replaces."""
        return shuffled_topics(self.topology)

    @cached_property
    def read_back(self) -> frozenset[str]:
        """The topics that the application reads and also writes, except those that the shuffle replaces.

        The topics that a function chooses for each record are not known, and not among them.
        """
        sinks = [sink for part in self.parts for sink in part.sinks]
        written = {self.topology.topic(sink.topic) for sink in sinks if isinstance(sink.topic, str)}
        return frozenset(written & self.part_of.keys()) - self.shuffled_topics

    @cached_property
    def tasks_behind(self) -> tuple[SubTopology, ...]:
        """The parts whose tasks run behind the shuffle."""
        return tuple(part for part in self.parts if part.id not in self.mapped)

    @cached_property
    def table_source(self) -> SourceOptions:
        """The options for reading changelogs and global tables, where compacted records are no data loss."""
        return replace(self.source, fail_on_data_loss=False)

    @property
    def has_shuffle(self) -> bool:
        return bool(self.tasks_behind)

    @cached_property
    def clocked(self) -> tuple[SubTopology, ...]:
        """The parts that may act when wall-clock time passes."""
        return tuple(
            part
            for part in self.tasks_behind
            if any(
                isinstance(n, Processor) and isinstance(n.operator, Process) and n.operator.has_timers
                for n in part.nodes
            )
        )

    @cached_property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {spec.name: spec for part in self.tasks_behind for spec in part.stores}

    @cached_property
    def store_of_changelog(self) -> Mapping[str, StoreSpec]:
        return {self.topology.changelog_topic(s.name): s for s in self.stores.values() if s.logged}

    @cached_property
    def timed(self) -> Mapping[str, SubTopology]:
        """The parts whose times are kept beside a changelog, by the name of its topic: each part's first."""
        found = {}
        for part in self.tasks_behind:
            logged = [self.topology.changelog_topic(spec.name) for spec in part.stores if spec.logged]
            if logged:
                found[min(logged)] = part
        return found

    @cached_property
    def task_counts(self) -> Mapping[int, int]:
        """The number of tasks of each part, by its id."""
        return {part.id: self.topology.task_count(part, self.partition_counts) for part in self.parts}

    @cached_property
    def partitions_max(self) -> int:
        """The largest number of tasks that a part has: one for each partition of its topics."""
        return max(self.task_counts.values(), default=1)

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """The number that the rows of each partition are shuffled by."""
        return tuple(group_of(partition, self.shuffle_partitions) for partition in range(self.partitions_max))

    def require_partition(self, topic: str, partition: int) -> None:
        """Raise TopologyChanged if the partition did not exist when the application was started."""
        known = self.partition_counts[topic]
        if partition >= known:
            raise TopologyChanged(
                f"topic {topic} now has a partition {partition}, but had {known} when the application was "
                "started: restart it; keys for which it keeps state are now in other partitions"
            )

    def to_text(self) -> str:
        """Convert the plan to text, for an option of a data source."""
        return text_of(cloudpickle.dumps(self))  # type: ignore[no-untyped-call]


def text_of(pickled: bytes) -> str:
    """Convert a pickled plan to text, with the directories from which its modules are imported."""
    return base64.b85encode(zlib.compress(pickle.dumps((sys.path, pickled)), 1)).decode()


def pickled_in(text: str) -> bytes:
    """Return a plan to unpickle, whose modules this process can then import."""
    paths, data = pickle.loads(zlib.decompress(base64.b85decode(text)))
    sys.path += [path for path in paths if path not in sys.path and Path(path).is_dir()]
    return bytes(data)


@lru_cache(maxsize=4)
def plan_from_text(text: str) -> StreamsPlan:
    """Return the plan; a worker that lives for many batches gets the same object each time.

    The plan contains the code of ``__main__``. Modules are imported, including those from the directories of
    the application's ``sys.path``, which Spark's workers don't search by themselves.
    """
    plan: StreamsPlan = cloudpickle.loads(pickled_in(text))
    return plan


def map_side_parts(topology: Topology) -> frozenset[int]:
    return frozenset(
        part.id
        for part in topology.sub_topologies
        if part.stateless and not any(topic in topology.repartitions for topic in part.source_topics)
    )


def shuffled_topics(topology: Topology) -> frozenset[str]:
    """Return the names, on the cluster, of the repartition topics that only the map side writes to."""
    mapped = map_side_parts(topology)
    found = set()
    for name in topology.repartitions:
        writers = [part.id for part in topology.sub_topologies if any(s.topic == name for s in part.sinks)]
        if writers and mapped.issuperset(writers):
            found.add(topology.topic(name))
    return frozenset(found)


def clock_name(part: SubTopology) -> str:
    """The name under which a part's times are kept; it depends on the part's stores, not on its number."""
    named: Iterable[str] = [spec.name for spec in part.stores] or part.source_topics
    return f"$clocks/{min(named)}"
