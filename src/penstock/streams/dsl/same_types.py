"""The operations of streams that keep the types of keys and values, and those that end a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from penstock.streams.construction.frames import stage_as_frame
from penstock.streams.construction.handles import StreamHandle
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Operator, Partitioner, Sink, TopicChooser
from penstock.topology.operators.stateless import Branch, Filter, PassThrough, Peek
from penstock.topology.serdes import Serde

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

K = TypeVar("K")
V = TypeVar("V")


class SameTypes(Generic[K, V]):
    """The part of `Stream` whose operations return a stream with the same types, or none."""

    def __init__(self, handle: StreamHandle[K, V]) -> None:
        self.handle = handle
        """The stream in the topology, for code that adds operators of its own."""

    def __repr__(self) -> str:
        return str(self.handle)

    def _kept(self, prefix: str, name: str | None, operator: Operator) -> Self:
        stream = self.handle
        return type(self)(stream.then(prefix, name, operator, key=stream.key, value=stream.value))

    # record by record

    def filter(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Self:
        """Keep the records for which ``predicate(key, value)`` is true."""
        return self._kept("KSTREAM-FILTER-", name, Filter(predicate))

    def filter_not(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Self:
        """Keep the records for which ``predicate(key, value)`` is false."""
        return self._kept("KSTREAM-FILTER-", name, Filter(predicate, negate=True))

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> Self:
        """Call ``action(key, value)`` for each record, and pass the record on unchanged.

        A retried batch calls it again.
        """
        return self._kept("KSTREAM-PEEK-", name, Peek(action))

    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Call ``action(key, value)`` for each record and end the stream. A retried batch calls it again."""
        self.handle.then("KSTREAM-FOREACH-", name, Peek(action, last=True))

    # several streams

    def merge(self, *others: Self, name: str | None = None) -> Self:
        """Merge the records of this stream and of others, in the order of arrival."""
        streams = [self.handle, *(other.handle for other in others)]
        builder = self.handle.builder
        node = builder.processor(
            builder.name(name, "KSTREAM-MERGE-"), PassThrough(), [stream.node for stream in streams]
        )
        return type(self)(
            StreamHandle(
                builder,
                node,
                _shared([stream.key for stream in streams]),
                _shared([stream.value for stream in streams]),
                frozenset().union(*(stream.topics for stream in streams)),
                any(stream.rekeyed for stream in streams),
            )
        )

    def split(
        self,
        branches: dict[str, Callable[[K, V], object]],
        *,
        default: str | None = None,
        name: str | None = None,
    ) -> dict[str, Self]:
        """Send each record to the first branch whose predicate ``(key, value)`` is true.

        A record that matches no branch goes to the branch ``default`` if one is named, and is dropped
        otherwise. Returns the streams by name.

            >>> from penstock.streams import App, json, string
            >>> app = App("orders", key=string, value=json)
            >>> orders = app.stream("orders").split({"large": lambda k, v: v["sum"] > 99}, default="small")
            >>> orders["large"].to("large-orders")
        """
        if not branches or (default is not None and default in branches):
            raise TopologyError(
                f"split takes at least one branch, and a default that is none of them: {[*branches]}"
            )
        builder = self.handle.builder
        splitter = builder.name(name, "KSTREAM-BRANCH-")
        prefix = f"{splitter}-" if name is None else splitter
        predicates = [(f"{prefix}{branch}", predicate) for branch, predicate in branches.items()]
        rest = [] if default is None else [f"{prefix}{default}"]
        for _ in (*branches, *rest):
            builder.number("KSTREAM-BRANCHCHILD-")
        node = builder.processor(splitter, Branch(predicates, rest), [self.handle.node])
        streams: dict[str, Self] = {}
        for branch in (*branches, *([] if default is None else [default])):
            child = builder.processor(f"{prefix}{branch}", PassThrough(), [node])
            streams[branch] = type(self)(replace(self.handle, node=child))
        return streams

    # topics

    def to(
        self,
        topic: str | TopicChooser,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Write the records to a topic, or to the topic that ``topic(key, value, record)`` returns.

        Kafka's partitioner chooses the partition (murmur2 of the key's bytes, or of the inner key of a
        windowed key), unless ``partitioner(topic, key, value, partitions)`` does.
        """
        where = f"to({topic!r})" if isinstance(topic, str) else "to(…)"
        stream = self.handle.with_serdes(key, value)
        key_serde = stream.builder.key_serde(stream.key, where)
        value_serde = stream.builder.value_serde(stream.value, where)
        sink = Sink(stream.builder.name(name, "KSTREAM-SINK-"), topic, key_serde, value_serde, partitioner)
        stream.builder.topology.add_sink(sink, [stream.node])

    def repartition(
        self,
        *,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> Self:
        """Send the records by key through a topic of the application, ``<app>-<name>-repartition``.

        Records with a null key are dropped. ``partitions`` None: the greatest number of partitions among the
        upstream topics.
        """
        if partitions is not None and partitions < 1:
            raise TopologyError(f"a repartition topic has at least one partition, not {partitions}")
        base = self.handle.builder.number("KSTREAM-REPARTITION-") if name is None else name
        return type(self)(
            self.handle.repartitioned(
                base,
                "repartition",
                key=key,
                value=value,
                partitions=partitions,
                partitioner=partitioner,
                named=name is not None,
            )
        )

    through = repartition

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
        """Return the records as a streaming DataFrame of ``key``, ``value`` and ``timestamp``.

        The DataFrame's query computes all results itself, directly from topics: it has its own checkpoint,
        does not join the application's consumer group, and writes to none of its topics. The serdes determine
        the column types: text and number serdes give text and number columns, and windowed keys give a struct
        of key, start and end. JSON gives text or, with ``schema`` (in Spark's notation: ``"user STRING, sum
        DOUBLE"``), a struct. All other serdes give binary columns.

        Args:
            spark: the session; None: a local session. The DataFrame gets its own session beside it, with the
                settings that its state needs.
            starting_offsets: where the query begins to read, as in the source's ``startingOffsets``.
            shuffle_partitions: how many Spark tasks work on state at the same time; None: one per core.
            options: options of the ``penstock`` source.

        Raises NeedsRunningApp if records pass through a topic that only the running application writes, that
        is, if the stream is behind a stateful stage that changes keys. Raises TopologyError, SerdeError,
        MissingTopics, CoPartitioningError, ConfigError.
        """
        return stage_as_frame(
            self.handle,
            bootstrap_servers=bootstrap_servers,
            spark=spark,
            schema=schema,
            starting_offsets=starting_offsets,
            shuffle_partitions=shuffle_partitions,
            options=options,
        )


def _shared(serdes: list[Serde[Any] | None]) -> Serde[Any] | None:
    """The serde that all streams share, or None."""
    return serdes[0] if all(serde is serdes[0] for serde in serdes) else None
