"""The application: the streams and tables it reads, and the topology that its operations build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from penstock.extras import needs_extra
from penstock.streams.builder import Builder
from penstock.streams.construction.handles import GlobalTableHandle, StreamHandle
from penstock.streams.construction.tables import source_table
from penstock.streams.dsl.stream import Stream
from penstock.streams.dsl.table import GlobalTable, Table
from penstock.streams.durations import Duration, duration_ms
from penstock.topology import graph
from penstock.topology.errors import ErrorPolicy, TopologyError
from penstock.topology.graph import OffsetReset, Source, TimestampExtractor, Topology
from penstock.topology.plans.description import describe, mermaid
from penstock.topology.serdes import Serde
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec, VersionedSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.launching.profiles import ProfileName
    from penstock.spark.observing.listener import Watcher
    from penstock.spark.streams.running.application import RunningApp
    from penstock.views import View, Views

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W", bound="View[Any, Any]")


class App:
    """A streams application.

    Args:
        name: the application's id. It is the consumer group and the prefix of internal topics' names.
        key: the serde for keys where an operation gives none.
        value: the serde for values where an operation gives none.
        dead_letter: the topic for records that fail in user code or that a serde can't read or write. Their
            headers give the reason (KIP-1034, ``__streams.errors.*``). Without this topic, the application
            stops at such a record.
        errors: the policy for such records, instead of ``dead_letter``.

    >>> from penstock.streams import App, json, string
    >>> app = App("shop", key=string, value=json)
    >>> orders = app.stream("orders")
    >>> orders.filter(lambda user, order: order["amount"] > 100).to("large-orders")
    """

    def __init__(
        self,
        name: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        dead_letter: str | None = None,
        errors: ErrorPolicy | None = None,
    ) -> None:
        if not name or not all(part.isalnum() or part in "._-" for part in name) or not name.isascii():
            raise TopologyError(f"an application's name has letters, digits, '.', '_' and '-' only: {name!r}")
        self.name = name
        self._builder = Builder(Topology(name, errors=errors or ErrorPolicy(dead_letter)), key, value)
        self._running: RunningApp | None = None

    def __repr__(self) -> str:
        return f"<App {self.name}>"

    @overload
    def stream(
        self,
        topic: str | Sequence[str],
        *,
        key: Serde[K],
        value: Serde[V],
        timestamp: TimestampExtractor | None = None,
        reset: OffsetReset | None = None,
        name: str | None = None,
    ) -> Stream[K, V]: ...
    @overload
    def stream(
        self,
        topic: str | Sequence[str],
        *,
        key: Serde[Any] | None = None,
        value: Serde[V],
        timestamp: TimestampExtractor | None = None,
        reset: OffsetReset | None = None,
        name: str | None = None,
    ) -> Stream[Any, V]: ...
    @overload
    def stream(
        self,
        topic: str | Sequence[str],
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        timestamp: TimestampExtractor | None = None,
        reset: OffsetReset | None = None,
        name: str | None = None,
    ) -> Stream[Any, Any]: ...
    def stream(
        self,
        topic: str | Sequence[str],
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        timestamp: TimestampExtractor | None = None,
        reset: OffsetReset | None = None,
        name: str | None = None,
    ) -> Stream[Any, Any]:
        """Read the records of one topic, or of several, as a stream.

        ``timestamp(record, stream_time_ms)`` returns a record's time and replaces the topic's timestamp; a
        negative time drops the record. ``reset`` says where to begin without a committed offset (default:
        earliest). A second call for the same topics returns the same stream.
        """
        topics = (topic,) if isinstance(topic, str) else tuple(topic)
        where = f"stream({', '.join(topics)})"
        if not topics or not all(topics) or len(set(topics)) < len(topics):
            raise TopologyError(f"a stream reads at least one topic, each once: {topic!r}")
        key_serde, value_serde = self._builder.key_serde(key, where), self._builder.value_serde(value, where)
        node_name = self._builder.name(name, "KSTREAM-SOURCE-")
        source = Source(node_name, topics, key_serde, value_serde, timestamp, reset)
        known = self._source(source)
        if known is None:
            known = self._builder.topology.add_source(source)
        return Stream(StreamHandle(self._builder, known, key_serde, value_serde, frozenset(topics)))

    def _source(self, wanted: Source) -> Source | None:
        """The existing source that reads exactly these topics in exactly this way, if there is one."""
        for node in self._builder.topology.nodes.values():
            if isinstance(node, Source) and node.topics == wanted.topics:
                same = (node.key, node.value, node.extractor) == (wanted.key, wanted.value, wanted.extractor)
                if same and node.reset == wanted.reset:
                    return node
        return None

    @overload
    def table(
        self,
        topic: str,
        *,
        key: Serde[K],
        value: Serde[V],
        store: str | None = None,
        history: Duration | None = None,
        timestamp: TimestampExtractor | None = None,
        reset: OffsetReset | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[K, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[V],
        store: str | None = None,
        history: Duration | None = None,
        timestamp: TimestampExtractor | None = None,
        reset: OffsetReset | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Any, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        store: str | None = None,
        history: Duration | None = None,
        timestamp: TimestampExtractor | None = None,
        reset: OffsetReset | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Any, Any]: ...
    def table(
        self,
        topic: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        store: str | None = None,
        history: Duration | None = None,
        timestamp: TimestampExtractor | None = None,
        reset: OffsetReset | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[Any, Any]:
        """Read a topic as a table.

        A record replaces its key's value, a null value deletes the key, and a record with a null key is
        dropped.

        ``store`` names the store that keeps the table; without a name, the table is stored only if an
        operation reads it. With ``history`` the store keeps all versions of each row for that long (KIP-889):
        updates that arrive out of order are inserted at their timestamps, and a stream that joins the table
        finds the row that was valid at its record's time.
        """
        builder, where = self._builder, f"table({topic})"
        store_name = builder.store_name(store, f"{topic}-")
        key_serde, value_serde = builder.key_serde(key, where), builder.value_serde(value, where)
        spec: StoreSpec
        if history is None:
            spec = KeyValueSpec(name=store_name, key=key_serde, value=value_serde, logged=logged)
        else:
            spec = VersionedSpec(
                name=store_name,
                key=key_serde,
                value=value_serde,
                logged=logged,
                history_retention_ms=duration_ms(history, "history"),
            )
        source_name = builder.name(name, "KSTREAM-SOURCE-", "-source")
        source = Source(source_name, [topic], spec.key, spec.value, timestamp, reset)
        node_name = builder.name(name, "KTABLE-SOURCE-")
        return Table(
            source_table(
                builder,
                builder.topology.add_source(source),
                spec,
                node_name,
                topics=frozenset([topic]),
                stored=store is not None or history is not None,
            )
        )

    @overload
    def global_table(
        self, topic: str, *, key: Serde[K], value: Serde[V], store: str | None = None
    ) -> GlobalTable[K, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        store: str | None = None,
    ) -> GlobalTable[Any, Any]: ...
    def global_table(
        self,
        topic: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        store: str | None = None,
    ) -> GlobalTable[Any, Any]:
        """Read a topic as a table that every worker holds in full. ``store`` names its store."""
        builder, where = self._builder, f"global_table({topic})"
        spec = KeyValueSpec(
            name=builder.store_name(store, f"{topic}-"),
            key=builder.key_serde(key, where),
            value=builder.value_serde(value, where),
            logged=False,  # the topic is its own changelog
        )
        source, processor = builder.number("KSTREAM-SOURCE-"), builder.number("KTABLE-SOURCE-")
        builder.topology.add_global(graph.GlobalTable(topic, source, processor, spec))
        return GlobalTable(GlobalTableHandle(builder, spec.name))

    def from_dataframe(
        self,
        frame: DataFrame,
        name: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        key_column: str | None = "key",
        value_column: str | None = "value",
        timestamp_column: str = "timestamp",
        partitions: int | None = None,
    ) -> Stream[Any, Any]:
        """Read the rows of a streaming DataFrame, from any source, as a stream.

        Each row becomes a record of a virtual topic ``name``, in the partition that Kafka's partitioner
        chooses for its key. The application still runs as one query. The rows of a batch are processed in the
        order of their times; rows with equal times keep the order in which they arrive. In a `TopologyTest`,
        pipe such records to the input ``name``.

        Args:
            key: the serde for keys; `value` is the serde for values.
            key_column: the column of keys. None: the records have no keys.
            value_column: the column of values. None: all columns but key and timestamp, as one dict.
            timestamp_column: a timestamp column, which must not contain nulls.
            partitions: the number of partitions; it must equal that of the topics that the stream is joined
                with. None: the greatest number of partitions among the topics that the application reads.

        Raises TopologyError.
        """
        builder, where = self._builder, f"from_dataframe(…, {name!r})"
        key_serde, value_serde = builder.key_serde(key, where), builder.value_serde(value, where)
        if partitions is not None and partitions < 1:
            raise TopologyError(f"{where} has at least one partition, not {partitions}")
        source = Source(builder.number("KSTREAM-SOURCE-"), [name], key_serde, value_serde)
        node = builder.topology.add_source(source)
        columns = (key_column, value_column, timestamp_column)
        builder.topology.frames[name] = graph.Frame(partitions, (frame, *columns, key_serde, value_serde))
        return Stream(StreamHandle(builder, node, key_serde, value_serde, frozenset([name])))

    def topology(self) -> Topology:
        """The topology of all operations so far."""
        return self._builder.topology

    def describe(self) -> str:
        """Return the plan as text, in the format of Kafka Streams' ``Topology.describe()``."""
        return describe(self._builder.topology)

    def mermaid(self) -> str:
        """Return the plan as a Mermaid flowchart, which Markdown viewers can draw."""
        return mermaid(self._builder.topology)

    def start(
        self,
        *,
        bootstrap_servers: str,
        checkpoint: str | Path,
        spark: SparkSession | None = None,
        guarantee: Literal["exactly-once", "at-least-once"] = "exactly-once",
        until: Literal["stopped", "drained"] = "stopped",
        profile: ProfileName = "steady",
        shuffle_partitions: int | None = None,
        commit_interval: Duration | None = None,
        tick: Duration = "1 second",
        options: Mapping[str, str] | None = None,
        metrics_port: int | None = None,
        metrics_host: str = "127.0.0.1",
        metrics_properties: Mapping[str, str] | None = None,
        watchers: Sequence[Watcher] = (),
    ) -> RunningApp:
        """Run the application as one Spark query.

        It first creates the topics that it owns (repartition topics and changelogs) and the topics that it
        writes to.

        Args:
            checkpoint: a directory that Spark's driver and executors share, from which the application
                continues. With a new directory it continues from its group's offsets, and rebuilds its stores
                from their changelogs.
            spark: the session whose executors run the application; None: a local session.
            guarantee: the delivery guarantee for outputs, changelogs and group offsets alike.
            until: ``drained`` ends the run once every record that the topics hold at the start is processed.
            profile: ``low-latency`` and ``throughput`` set what neither the session nor the arguments below
                set.
            shuffle_partitions: how many Spark tasks work on state at the same time; None: one per core. A
                checkpoint keeps the number that it was created with.
            commit_interval: the minimum time between the starts of two batches; None: a batch starts as soon
                as there is something to read.
            tick: how often wall-clock timers are checked while no records arrive.
            options: options of the ``penstock`` source and sink, such as ``kafka.…`` or
                ``maxOffsetsPerTrigger``.
            metrics_port: serve Prometheus metrics on this port until the application stops; 0: on a free
                port, which the result's ``metrics_port`` gives. docs/metrics.md lists the metrics.
            metrics_host: the address to serve metrics at; ``0.0.0.0`` for all addresses.
            metrics_properties: who may read the metrics, and the certificate for HTTPS. docs/security.md
                lists the properties.
            watchers: receive each batch's progress, such as a `penstock.spark.observing.ProgressView`.

        Raises MissingTopics, CoPartitioningError, InternalTopicMismatch, CheckpointMismatch, GroupInUse,
        ConfigError, MetricsPortTaken, InvalidAccess, MissingExtra; ImportError for other versions of Spark
        than 4.3.
        """
        # Only applications that run on Spark import pyspark.
        with needs_extra("spark", "App.start"):
            from penstock.spark.launching.versions import require_spark

            require_spark("streams applications need")
            from penstock.spark.streams.running.application import start

        self._running = start(
            self.topology(),
            bootstrap_servers=bootstrap_servers,
            checkpoint=checkpoint,
            spark=spark,
            guarantee=guarantee,
            until=until,
            profile=profile,
            shuffle_partitions=shuffle_partitions,
            commit_interval_ms=(
                None if commit_interval is None else duration_ms(commit_interval, "commit_interval")
            ),
            tick_ms=duration_ms(tick, "tick"),
            options=options,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            metrics_properties=metrics_properties,
            watchers=watchers,
        )
        return self._running

    @overload
    def store(self, name: str) -> View[Any, Any]: ...

    @overload
    def store(self, name: str, kind: type[W]) -> W: ...

    def store(self, name: str, kind: type[View[Any, Any]] | None = None) -> View[Any, Any]:
        """Return a store of the running application for queries: see `RunningApp.store`.

        Raises TopologyError before `start`, UnknownStore, StoreNotQueryable, UnsupportedQuery.
        """
        if self._running is None:
            raise TopologyError(
                f"{self.name} was not started by this process: expected start() before store(), or views() "
                "to query an application that runs elsewhere"
            )
        return self._running.store(name) if kind is None else self._running.store(name, kind)

    def views(
        self,
        *,
        bootstrap_servers: str,
        stores: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Views:
        """Query the stores of the application from this process, wherever the application runs.

        Use the result as a context manager. ``stores`` None: all stores that can be queried. ``properties``:
        Kafka's client properties. Raises UnknownStore, StoreNotQueryable, ConfigError.
        """
        with needs_extra("arrow", "App.views"):
            from penstock.views import Views  # only queries import pyarrow

        return Views(
            self.topology(), bootstrap_servers=bootstrap_servers, stores=stores, properties=properties
        )
