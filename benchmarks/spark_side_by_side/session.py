"""The resources of a row: the node, the topics, and a Spark process of one side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from confluent_kafka.admin import AdminClient, NewTopic

from penstock.bench.process import process_cost
from penstock.testing import Cluster
from spark_side_by_side.data import Data, fill
from spark_side_by_side.orders import Orders
from spark_side_by_side.sides import Side
from spark_side_by_side.spark_process import SparkProcess

Records: TypeAlias = Data | Orders

TOPIC_TIMEOUT_S = 60
PARTITIONS = 2


class Topics:
    """The topics of one node, by their content: each is filled once, however many rows read it."""

    def __init__(self, node: Cluster, scale: float) -> None:
        self.node = node
        self.scale = scale
        self._admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        self._filled: dict[Records, str] = {}
        self._made = 0

    def scaled(self, data: Records, least: int = 1000) -> Records:
        if isinstance(data, Data) and data.each_key_once:
            return data
        return replace(data, records=max(least, int(data.records * self.scale)))

    def filled(self, data: Records) -> str:
        """Return the topic with these records."""
        if data not in self._filled:
            name = self.create("input")
            fill(self.node.bootstrap_servers, name, PARTITIONS, data)
            self._filled[data] = name
        return self._filled[data]

    def create(self, prefix: str, partitions: int = PARTITIONS) -> str:
        self._made += 1
        name = f"{prefix}-{self._made}"
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1)
        self._admin.create_topics([topic])[name].result(TOPIC_TIMEOUT_S)
        return name

    def delete(self, names: Sequence[str]) -> None:
        for future in self._admin.delete_topics(list(names)).values():
            future.result(TOPIC_TIMEOUT_S)

    def all(self) -> set[str]:
        return set(self._admin.list_topics(timeout=TOPIC_TIMEOUT_S).topics)

    @contextmanager
    def target(self, partitions: int = PARTITIONS) -> Iterator[str]:
        """Create a topic to write to; the block's end deletes it and the topics that an application added."""
        before = self.all()
        name = self.create("output", partitions)
        try:
            yield name
        finally:
            self.delete([new for new in self.all() - before if not new.startswith("__")])


@dataclass
class Session:
    """The resources of one side; `spark` is None for rows that start their own processes."""

    topics: Topics
    side: Side
    directory: Path
    jars: Sequence[Path]
    spark: SparkProcess | None = None
    archives: dict[str, Path] = field(default_factory=dict)
    """Class-data archives by side, created by the first row that needs one."""

    @property
    def servers(self) -> str:
        return self.topics.node.bootstrap_servers

    @property
    def running(self) -> SparkProcess:
        assert self.spark is not None
        return self.spark

    def node_cpu_s(self) -> float:
        return process_cost(self.topics.node.pid).cpu_seconds

    def new_process(self) -> SparkProcess:
        return SparkProcess(self.side, self.servers, self.jars, self.directory / f"spark-{self.side.name}")
