"""Streams: sequences of records, each of which is an independent fact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.streams import grouped, joins, table
from penstock.streams.durations import Duration, duration_ms
from penstock.streams.frames import stage_as_frame
from penstock.streams.record_by_record import RecordByRecord
from penstock.streams.windows import NO_GRACE, join_windows
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Partitioner, Sink, TopicChooser
from penstock.topology.process import Process, Processor
from penstock.topology.serdes import Serde
from penstock.topology.stores import BytesSpec, KeyValueSpec, StoreSpec
from penstock.topology.tables import TableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")


class Stream(RecordByRecord[K, V]):
    """A stream of records with keys K and values V; either may be None in a record.

    `App.stream`, operations on a stream, and `Table.to_stream` create streams. An operation returns a new
    stream and leaves its input unchanged, so a stream may be used several times. ``name`` names an
    operation's node, and whatever is derived from it; without a name the node gets the number that Kafka
    Streams would give it.

        >>> from penstock.streams import App, TopologyTest, string, long
        >>> app = App("wordcount", key=string, value=string)
        >>> words = app.stream("lines").flat_map_values(lambda line: line.lower().split())
        >>> counts = words.group_by(lambda key, word: word).count(store="counts")
        >>> counts.to_stream().to("word-counts")
        >>> test = TopologyTest(app)
        >>> test.input("lines").pipe(None, "to be or not to be")
        >>> test.output("word-counts").read_table()
        {'to': 2, 'be': 2, 'or': 1, 'not': 1}
    """

    # grouping

    def group_by_key(
        self, *, key: Serde[K] | None = None, value: Serde[V] | None = None, name: str | None = None
    ) -> grouped.GroupedStream[K, V]:
        """Group by the key as it is.

        The records are repartitioned, through a topic that ``name`` names, only if keys may have changed.
        """
        return grouped.GroupedStream(self._with(key, value), self._rekeyed, name)

    def group_by(
        self,
        selector: Callable[[K, V], K2],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> grouped.GroupedStream[K2, V]:
        """Group by ``selector(key, value)``, through a repartition topic that ``name`` names."""
        selected = self.select_key(selector, key=key, name=name)
        return grouped.GroupedStream(selected._with(key, value), True, name)

    def _with(self, key: Serde[Any] | None, value: Serde[Any] | None) -> Stream[K, V]:
        """Return the same stream with other serdes."""
        return Stream(
            self._builder,
            self._node,
            key=key or self._key,
            value=value or self._value,
            topics=self._topics,
            rekeyed=self._rekeyed,
        )

    # with other streams and with tables

    @overload
    def join(
        self,
        other: Stream[K, VO],
        joiner: Callable[..., V2],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: bool = False,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self,
        other: table.Table[K, VO],
        joiner: Callable[..., V2],
        *,
        grace: Duration | None = None,
        with_key: bool = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self,
        other: table.GlobalTable[Any, VO],
        joiner: Callable[..., V2],
        *,
        on: Callable[[K, V], Any],
        with_key: bool = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def join(
        self,
        other: Stream[Any, Any] | table.Table[Any, Any] | table.GlobalTable[Any, Any],
        joiner: Callable[..., Any],
        **how: Any,
    ) -> Stream[K, Any]:
        """Join with a stream, a table or a global table.

        ``joiner(value, other_value)`` computes the result, or ``joiner(key, value, other_value)`` with
        ``with_key=True``. ``value`` is the result's serde.

        **Stream**: pairs of records with equal keys whose timestamps are at most ``within`` apart; ``before``
        and ``after`` override how much earlier and later the other record may be. A pair has the greater of
        the two timestamps. ``grace`` is how much later than that a record may still arrive.

        **Table**: each record joins the row of its key, if there is one, and the result has the record's
        timestamp. Changes of the table produce no results. With a versioned table, the record joins the row
        that was valid at its timestamp; ``grace`` then delays records by that much stream time, so that the
        table can catch up (KIP-923).

        **Global table**: each record joins the row whose key is ``on(key, value)``.

        Equal keys must be in partitions of the same number. Therefore a stream whose keys changed is
        repartitioned first, and topics that differ in their number of partitions raise CoPartitioningError;
        neither applies to global tables. Records with a null key or value are dropped.
        """
        return self._joined(other, joiner, False, False, **how)

    @overload
    def left_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[..., V2],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: bool = False,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: table.Table[K, VO],
        joiner: Callable[..., V2],
        *,
        grace: Duration | None = None,
        with_key: bool = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: table.GlobalTable[Any, VO],
        joiner: Callable[..., V2],
        *,
        on: Callable[[K, V], Any],
        with_key: bool = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def left_join(
        self,
        other: Stream[Any, Any] | table.Table[Any, Any] | table.GlobalTable[Any, Any],
        joiner: Callable[..., Any],
        **how: Any,
    ) -> Stream[K, Any]:
        """Join as `join` does, but also send unmatched records, with None as the other value.

        With a table such a result is sent immediately, and with a stream when the record's window closes. A
        record with a null key never has a match.
        """
        return self._joined(other, joiner, True, False, **how)

    def outer_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[..., V2],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: bool = False,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]:
        """Join two streams as `left_join` does, but keep the unmatched records of both."""
        if not isinstance(other, Stream):
            raise TopologyError(f"an outer join is between two streams, or two tables; found {other!r}")
        return self._joined(
            other,
            joiner,
            True,
            True,
            within=within,
            before=before,
            after=after,
            grace=grace,
            with_key=with_key,
            value=value,
            store=store,
            name=name,
        )

    def _joined(
        self,
        other: Stream[Any, Any] | table.Table[Any, Any] | table.GlobalTable[Any, Any],
        joiner: Callable[..., Any],
        left: bool,
        right: bool,
        *,
        within: Duration | None = None,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        on: Callable[[K, V], Any] | None = None,
        with_key: bool = False,
        value: Serde[Any] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        takes = joins.with_key(joiner, with_key)
        if isinstance(other, Stream):
            if within is None or on is not None:
                raise TopologyError("a join of streams needs within=…, and takes no on=…")
            span = join_windows(within, before, after, grace or NO_GRACE)
            return joins.join_streams(
                self,
                other,
                takes,
                span,
                left_outer=left,
                right_outer=right,
                value=value,
                store=store,
                name=name,
            )
        if within is not None or before is not None or after is not None or store is not None:
            raise TopologyError("within, before, after and store are for joins of two streams")
        if isinstance(other, table.GlobalTable):
            if on is None or grace is not None:
                raise TopologyError("a join with a global table needs on=…, and takes no grace=…")
            return joins.join_global_table(self, other, on, takes, left=left, value=value, name=name)
        if on is not None:
            raise TopologyError("a stream joins a table by its key: on=… is for global tables")
        grace_ms = None if grace is None else duration_ms(grace, "grace")
        return joins.join_stream_table(
            self, other, takes, left=left, grace_ms=grace_ms, value=value, name=name
        )

    # user code with state

    def process(
        self,
        processor: Callable[[], Processor[K, V, K2, V2]],
        *,
        stores: Sequence[StoreSpec | str] = (),
        timers: bool = False,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Process each record with a `Processor`, which ``processor()`` creates for each task.

        ``stores`` lists the stores that the processor uses: definitions (`key_value_store`, …) or, to share
        them, the names of stores of this application. ``timers=True`` lets the processor set timers. ``key``
        and ``value`` are the serdes of the records that it forwards. Grouping or joining afterwards
        repartitions.
        """
        return self._process(
            "KSTREAM-PROCESSOR-", processor, stores, timers, key, value, name, fixed_key=False
        )

    def process_values(
        self,
        processor: Callable[[], Processor[K, V, K, V2]],
        *,
        stores: Sequence[StoreSpec | str] = (),
        timers: bool = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]:
        """Process each record as `process` does, with a processor that must keep the record's key.

        Forwarding another key is an error. Grouping or joining afterwards therefore needs no repartitioning.
        """
        return self._process(
            "KSTREAM-PROCESSVALUES-", processor, stores, timers, self._key, value, name, fixed_key=True
        )

    def _process(
        self,
        prefix: str,
        processor: Callable[[], Processor[Any, Any, Any, Any]],
        stores: Sequence[StoreSpec | str],
        timers: bool,
        key: Serde[Any] | None,
        value: Serde[Any] | None,
        name: str | None,
        *,
        fixed_key: bool,
    ) -> Stream[Any, Any]:
        builder = self._builder
        names = [store if isinstance(store, str) else builder.add_store(store) for store in stores]
        node_name = builder.name(name, prefix)
        key_serde, timer_store = self._key, None
        if timers:
            key_serde = builder.key_serde(self._key, f"timers of {node_name}")
            timer_store = builder.add_store(BytesSpec(name=f"{node_name}-timers"))
        operator = Process(processor, names, key_serde, timer_store, fixed_key)
        all_stores = [*names, timer_store] if timer_store else names
        for store in names:
            if store not in builder.topology.stores and not builder.topology.is_global_store(store):
                raise TopologyError(f"{node_name} uses store {store}, which is not defined yet")
        node = builder.processor(node_name, operator, [self._node], all_stores)
        return Stream(
            builder,
            node,
            key=key,
            value=value,
            topics=self._topics,
            rekeyed=self._rekeyed or not fixed_key,
        )

    # topics and tables

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
        key_serde = self._builder.key_serde(key or self._key, where)
        value_serde = self._builder.value_serde(value or self._value, where)
        sink = Sink(self._builder.name(name, "KSTREAM-SINK-"), topic, key_serde, value_serde, partitioner)
        self._builder.topology.add_sink(sink, [self._node])

    def repartition(
        self,
        *,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> Stream[K, V]:
        """Send the records by key through a topic of the application, ``<app>-<name>-repartition``.

        Records with a null key are dropped. ``partitions`` None: the greatest number of partitions among the
        upstream topics.
        """
        if partitions is not None and partitions < 1:
            raise TopologyError(f"a repartition topic has at least one partition, not {partitions}")
        base = self._builder.number("KSTREAM-REPARTITION-") if name is None else name
        return self._repartitioned(
            base,
            "repartition",
            key=key,
            value=value,
            partitions=partitions,
            partitioner=partitioner,
            named=name is not None,
        )

    through = repartition

    def _repartitioned(
        self,
        base: str,
        where: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        named: bool = False,
    ) -> Stream[K, V]:
        """Return the same records behind the repartition topic ``<base>-repartition``."""
        key_serde = self._builder.key_serde(key or self._key, where)
        value_serde = self._builder.value_serde(value or self._value, where)
        source = self._builder.repartition(
            self._node,
            base,
            key_serde,
            value_serde,
            partitions=partitions,
            partitioner=partitioner,
            named=named,
        )
        return Stream(
            self._builder, source, key=key_serde, value=value_serde, topics=frozenset(source.topics)
        )

    def to_table(
        self,
        *,
        store: str | None = None,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> table.Table[K, V]:
        """Read the records as updates of a table: a value replaces the key's last one, None deletes it.

        Records with a null key are dropped. The records are repartitioned if the key may have changed.
        """
        node_name = self._builder.name(name, "KSTREAM-TOTABLE-")
        store_name = self._builder.store_name(store, "KSTREAM-TOTABLE-")
        stream = self._with(key, value)
        if self._rekeyed:
            stream = stream._repartitioned(node_name, f"to_table() as {node_name}")
        spec = KeyValueSpec(
            name=store_name,
            key=self._builder.key_serde(stream._key, f"store {store_name}"),
            value=self._builder.value_serde(stream._value, f"store {store_name}"),
            logged=logged,
        )
        operator = TableSource(None)
        node = self._builder.processor(node_name, operator, [stream._node])
        made: table.Table[K, V] = table.Table(
            self._builder, node, operator, spec, key=spec.key, value=spec.value, topics=stream._topics
        )
        if store is not None:
            made._store()
        return made

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
            self._builder,
            self._node,
            self._key,
            self._value,
            is_table=False,
            bootstrap_servers=bootstrap_servers,
            spark=spark,
            schema=schema,
            starting_offsets=starting_offsets,
            shuffle_partitions=shuffle_partitions,
            options=options,
        )
