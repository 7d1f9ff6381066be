"""Streams: records as they come, each a fact of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, TypeVar, overload

from penstock.streams import grouped, joins, table
from penstock.streams.builder import Builder
from penstock.streams.durations import Duration, duration_ms
from penstock.streams.windows import NO_GRACE, join_windows
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Node, Operator, Partitioner, Sink, TopicChooser
from penstock.topology.process import Process, Processor
from penstock.topology.serdes import Serde
from penstock.topology.stateless import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    MapRecord,
    MapValues,
    MapValuesWithKey,
    PassThrough,
    Peek,
    SelectKey,
)
from penstock.topology.stores import BytesSpec, KeyValueSpec, StoreSpec
from penstock.topology.tables import TableSource

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")


class Stream(Generic[K, V]):
    """A stream of records with keys K and values V; either may be None in a record.

    Made by `App.stream`, by operations on a stream, or from a table. Operations make new streams and change
    none: one stream may be used several times. ``name`` names an operation's node (and what is derived from
    it); without a name it is numbered as Kafka Streams numbers it.

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

    def __init__(
        self,
        builder: Builder,
        node: Node,
        *,
        key: Serde[K] | None,
        value: Serde[V] | None,
        topics: frozenset[str],
        rekeyed: bool = False,
    ) -> None:
        self._builder = builder
        self._node = node
        self._key = key
        self._value = value
        self._topics = topics
        """The topics (bare names) whose partitions its records are in."""
        self._rekeyed = rekeyed
        """Whether keys may have changed since, so that equal keys may be in different partitions."""

    def __repr__(self) -> str:
        return f"<Stream {self._node.name}>"

    def _then(
        self,
        prefix: str,
        name: str | None,
        operator: Operator,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        rekeyed: bool = False,
    ) -> Stream[Any, Any]:
        node = self._builder.processor(self._builder.name(name, prefix), operator, [self._node])
        return Stream(
            self._builder,
            node,
            key=key,
            value=value,
            topics=self._topics,
            rekeyed=self._rekeyed or rekeyed,
        )

    # record by record

    def filter(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]:
        """The records for which ``predicate(key, value)`` is true."""
        return self._then("KSTREAM-FILTER-", name, Filter(predicate), key=self._key, value=self._value)

    def filter_not(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]:
        """The records for which ``predicate(key, value)`` is false."""
        operator = Filter(predicate, negate=True)
        return self._then("KSTREAM-FILTER-", name, operator, key=self._key, value=self._value)

    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """``function(key, value)`` gives the new key and value. Grouping or joining afterwards
        repartitions.
        """
        return self._then("KSTREAM-MAP-", name, MapRecord(function), key=key, value=value, rekeyed=True)

    @overload
    def map_values(
        self,
        function: Callable[[V], V2],
        *,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self,
        function: Callable[[K, V], V2],
        *,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def map_values(
        self,
        function: Callable[..., Any],
        *,
        with_key: bool = False,
        value: Serde[Any] | None = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """``function(value)``, or ``function(key, value)`` with ``with_key=True``, gives the new value."""
        operator: Operator = MapValuesWithKey(function) if with_key else MapValues(function)
        return self._then("KSTREAM-MAPVALUES-", name, operator, key=self._key, value=value)

    def select_key(
        self, selector: Callable[[K, V], K2], *, key: Serde[K2] | None = None, name: str | None = None
    ) -> Stream[K2, V]:
        """``selector(key, value)`` gives the new key. Grouping or joining afterwards repartitions."""
        operator = SelectKey(selector)
        return self._then("KSTREAM-KEY-SELECT-", name, operator, key=key, value=self._value, rekeyed=True)

    def flat_map(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """``function(key, value)`` gives any number of keys and values. Grouping afterwards repartitions."""
        return self._then("KSTREAM-FLATMAP-", name, FlatMap(function), key=key, value=value, rekeyed=True)

    @overload
    def flat_map_values(
        self,
        function: Callable[[V], Iterable[V2]],
        *,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map_values(
        self,
        function: Callable[[K, V], Iterable[V2]],
        *,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def flat_map_values(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        with_key: bool = False,
        value: Serde[Any] | None = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """``function(value)``, or ``function(key, value)`` with ``with_key=True``, gives any number of
        values.
        """
        operator = FlatMapValues(function, with_key)
        return self._then("KSTREAM-FLATMAPVALUES-", name, operator, key=self._key, value=value)

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> Stream[K, V]:
        """Call ``action(key, value)`` for each record, and pass it on as it is. A batch that is retried calls
        it again.
        """
        return self._then("KSTREAM-PEEK-", name, Peek(action), key=self._key, value=self._value)

    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Call ``action(key, value)`` for each record, and end there. A batch that is retried calls it
        again.
        """
        self._then("KSTREAM-FOREACH-", name, Peek(action, last=True))

    # several streams

    def merge(self, *others: Stream[K, V], name: str | None = None) -> Stream[K, V]:
        """The records of this stream and of others, as they come."""
        streams = (self, *others)
        node = self._builder.processor(
            self._builder.name(name, "KSTREAM-MERGE-"), PassThrough(), [stream._node for stream in streams]
        )
        return Stream(
            self._builder,
            node,
            key=_shared([stream._key for stream in streams]),
            value=_shared([stream._value for stream in streams]),
            topics=frozenset().union(*(stream._topics for stream in streams)),
            rekeyed=any(stream._rekeyed for stream in streams),
        )

    def split(
        self,
        branches: dict[str, Callable[[K, V], object]],
        *,
        default: str | None = None,
        name: str | None = None,
    ) -> dict[str, Stream[K, V]]:
        """Each record to the first branch whose predicate ``(key, value)`` is true.

        What fits none goes to the branch ``default``, if one is named, or nowhere. Gives the streams by their
        names.

            >>> from penstock.streams import App, json, string
            >>> app = App("orders", key=string, value=json)
            >>> orders = app.stream("orders").split({"large": lambda k, v: v["sum"] > 99}, default="small")
            >>> orders["large"].to("large-orders")
        """
        if not branches or (default is not None and default in branches):
            raise TopologyError(
                f"split takes at least one branch, and a default that is none of them: {[*branches]}"
            )
        splitter = self._builder.name(name, "KSTREAM-BRANCH-")
        prefix = f"{splitter}-" if name is None else splitter
        predicates = [(f"{prefix}{branch}", predicate) for branch, predicate in branches.items()]
        rest = [] if default is None else [f"{prefix}{default}"]
        for _ in (*branches, *rest):
            self._builder.number("KSTREAM-BRANCHCHILD-")
        node = self._builder.processor(splitter, Branch(predicates, rest), [self._node])
        streams: dict[str, Stream[K, V]] = {}
        for branch in (*branches, *([] if default is None else [default])):
            child = self._builder.processor(f"{prefix}{branch}", PassThrough(), [node])
            streams[branch] = Stream(
                self._builder,
                child,
                key=self._key,
                value=self._value,
                topics=self._topics,
                rekeyed=self._rekeyed,
            )
        return streams

    # grouping

    def group_by_key(
        self, *, key: Serde[K] | None = None, value: Serde[V] | None = None, name: str | None = None
    ) -> grouped.GroupedStream[K, V]:
        """Group by the key as it is. Repartitions only where the key may have changed; ``name`` names that
        topic.
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
        """The same stream under other serdes."""
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
        """Join with a stream, a table or a global table; ``joiner(value, other_value)``, or with
        ``with_key=True`` ``joiner(key, value, other_value)``. ``value`` is the result's serde.

        **Stream**: pairs of records with one key at most ``within`` apart; ``before`` and ``after`` say
        otherwise how much earlier and later the other's may be. A pair has the greater timestamp. ``grace``
        is how much later than that a record may come.

        **Table**: each record with the row of its key, if there is one, at the record's timestamp. Changes
        of the table send nothing. Where the table is versioned, it is the row that was valid then; ``grace``
        makes records wait for that much of stream time, for the table to catch up (KIP-923).

        **Global table**: each record with the row whose key is ``on(key, value)``.

        Equal keys must share a partition number, so a stream whose keys changed is repartitioned first, and
        topics that differ in their number of partitions are refused (CoPartitioningError); global tables
        need neither. Records with a null key or value are dropped.
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
        """Like `join`, but a record that meets nothing has a result too, with None for the other value: at
        once with a table, and with a stream when its window closes. One with a null key meets nothing.
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
        """Like `left_join` with a stream, for the records of both."""
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
        """Give each record to a `Processor`, made anew by ``processor()`` for each task.

        ``stores`` are those that it uses: definitions (`key_value_store`, …) or names of stores of this
        application, to share them. ``timers=True`` lets it set timers. ``key`` and ``value`` are the serdes
        of what it forwards. Grouping or joining afterwards repartitions.
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
        """The same for processors that keep the key as it is: an error otherwise. So nothing is
        repartitioned.
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
                raise TopologyError(f"{node_name} uses store {store}, which nobody has defined before")
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
        """Write to a topic, or to the one that ``topic(key, value, record)`` names for each record.

        Partitions are Kafka's (murmur2 of the key's bytes; of the inner key where it is windowed), or those
        of ``partitioner(topic, key, value, partitions)``.
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
        """Send the records through a topic of the application, ``<app>-<name>-repartition``, by their keys.

        Records with a null key are dropped. ``partitions`` None: as many as the greatest of the topics above
        it.
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
        """The same records behind the repartition topic ``<base>-repartition``."""
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
        """Take the records as updates of a table: the value replaces the key's last one, None deletes it.

        Records with a null key are dropped. Repartitions where the key may have changed.
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


def _shared(serdes: list[Serde[Any] | None]) -> Serde[Any] | None:
    """The serde that all have, or none."""
    return serdes[0] if all(serde is serdes[0] for serde in serdes) else None
