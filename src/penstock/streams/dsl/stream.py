"""Streams: sequences of records, each of which is an independent fact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar, overload

from penstock.streams.construction.groups import StreamGroup
from penstock.streams.construction.handles import StreamHandle
from penstock.streams.construction.stream_joins import join_stream
from penstock.streams.construction.tables import stream_as_table
from penstock.streams.dsl.grouped import GroupedStream
from penstock.streams.dsl.same_types import SameTypes
from penstock.streams.dsl.table import GlobalTable, Table
from penstock.streams.durations import Duration
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Operator
from penstock.topology.operators.process import Process, Processor
from penstock.topology.operators.stateless import (
    FlatMap,
    FlatMapValues,
    MapRecord,
    MapValues,
    MapValuesWithKey,
    SelectKey,
)
from penstock.topology.serdes import Serde
from penstock.topology.stores.state_stores import BytesSpec, StoreSpec

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
KO = TypeVar("KO")
VO = TypeVar("VO")


class Stream(SameTypes[K, V]):
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

    # record by record

    def apply(
        self,
        operator: Operator,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        rekeyed: bool = False,
        name: str | None = None,
    ) -> Stream[Any, Any]:
        """Process the records with an operator of `penstock.topology`; a serde not given stays.

        ``rekeyed`` says that the operator changes keys, so that later grouping or joining repartitions.
        """
        stream = self.handle.with_serdes(key, value)
        return Stream(
            stream.then(
                "KSTREAM-TRANSFORM-", name, operator, key=stream.key, value=stream.value, rekeyed=rekeyed
            )
        )

    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Replace key and value by those that ``function(key, value)`` returns.

        Grouping or joining afterwards repartitions.
        """
        return Stream(
            self.handle.then("KSTREAM-MAP-", name, MapRecord(function), key=key, value=value, rekeyed=True)
        )

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
        """Replace the value by ``function(value)``, or by ``function(key, value)`` with ``with_key=True``."""
        operator: Operator = MapValuesWithKey(function) if with_key else MapValues(function)
        return Stream(
            self.handle.then("KSTREAM-MAPVALUES-", name, operator, key=self.handle.key, value=value)
        )

    def select_key(
        self, selector: Callable[[K, V], K2], *, key: Serde[K2] | None = None, name: str | None = None
    ) -> Stream[K2, V]:
        """Replace the key by ``selector(key, value)``. Grouping or joining afterwards repartitions."""
        operator = SelectKey(selector)
        return Stream(
            self.handle.then(
                "KSTREAM-KEY-SELECT-", name, operator, key=key, value=self.handle.value, rekeyed=True
            )
        )

    def flat_map(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Replace each record by the keys and values, any number, that ``function(key, value)`` returns.

        Grouping or joining afterwards repartitions.
        """
        return Stream(
            self.handle.then("KSTREAM-FLATMAP-", name, FlatMap(function), key=key, value=value, rekeyed=True)
        )

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
        """Replace each value by any number of values.

        ``function(value)`` returns them, or ``function(key, value)`` with ``with_key=True``.
        """
        operator = FlatMapValues(function, with_key)
        return Stream(
            self.handle.then("KSTREAM-FLATMAPVALUES-", name, operator, key=self.handle.key, value=value)
        )

    # grouping

    def group_by_key(
        self, *, key: Serde[K] | None = None, value: Serde[V] | None = None, name: str | None = None
    ) -> GroupedStream[K, V]:
        """Group by the key as it is.

        The records are repartitioned, through a topic that ``name`` names, only if keys may have changed.
        """
        return GroupedStream(StreamGroup(self.handle.with_serdes(key, value), self.handle.rekeyed, name))

    def group_by(
        self,
        selector: Callable[[K, V], K2],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> GroupedStream[K2, V]:
        """Group by ``selector(key, value)``, through a repartition topic that ``name`` names."""
        selected = self.select_key(selector, key=key, name=name)
        return GroupedStream(StreamGroup(selected.handle.with_serdes(key, value), True, name))

    # with other streams and with tables

    @overload
    def join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[V, VO], V2],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[K, V, VO], V2],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self,
        other: Table[K, VO],
        joiner: Callable[[V, VO], V2],
        *,
        grace: Duration | None = None,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self,
        other: Table[K, VO],
        joiner: Callable[[K, V, VO], V2],
        *,
        grace: Duration | None = None,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self,
        other: GlobalTable[KO, VO],
        joiner: Callable[[V, VO], V2],
        *,
        on: Callable[[K, V], KO | None],
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def join(
        self,
        other: GlobalTable[KO, VO],
        joiner: Callable[[K, V, VO], V2],
        *,
        on: Callable[[K, V], KO | None],
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def join(
        self,
        other: Stream[Any, Any] | Table[Any, Any] | GlobalTable[Any, Any],
        joiner: Callable[..., Any],
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
        return Stream(
            join_stream(
                self.handle,
                other.handle,
                joiner,
                left=False,
                within=within,
                before=before,
                after=after,
                grace=grace,
                on=on,
                with_key=with_key,
                value=value,
                store=store,
                name=name,
            )
        )

    @overload
    def left_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[V, VO | None], V2],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[K, V, VO | None], V2],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Table[K, VO],
        joiner: Callable[[V, VO | None], V2],
        *,
        grace: Duration | None = None,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: Table[K, VO],
        joiner: Callable[[K, V, VO | None], V2],
        *,
        grace: Duration | None = None,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[KO, VO],
        joiner: Callable[[V, VO | None], V2],
        *,
        on: Callable[[K, V], KO | None],
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def left_join(
        self,
        other: GlobalTable[KO, VO],
        joiner: Callable[[K, V, VO | None], V2],
        *,
        on: Callable[[K, V], KO | None],
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def left_join(
        self,
        other: Stream[Any, Any] | Table[Any, Any] | GlobalTable[Any, Any],
        joiner: Callable[..., Any],
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
        """Join as `join` does, but also send unmatched records, with None as the other value.

        With a table such a result is sent immediately, and with a stream when the record's window closes. A
        record with a null key never has a match.
        """
        return Stream(
            join_stream(
                self.handle,
                other.handle,
                joiner,
                left=True,
                within=within,
                before=before,
                after=after,
                grace=grace,
                on=on,
                with_key=with_key,
                value=value,
                store=store,
                name=name,
            )
        )

    @overload
    def outer_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[V | None, VO | None], V2],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: Literal[False] = False,
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    @overload
    def outer_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[[K, V | None, VO | None], V2],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: Literal[True],
        value: Serde[V2] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]: ...
    def outer_join(
        self,
        other: Stream[K, VO],
        joiner: Callable[..., Any],
        *,
        within: Duration,
        before: Duration | None = None,
        after: Duration | None = None,
        grace: Duration | None = None,
        with_key: bool = False,
        value: Serde[Any] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """Join two streams as `left_join` does, but keep the unmatched records of both."""
        if not isinstance(other, Stream):
            raise TopologyError(f"an outer join is between two streams, or two tables; found {other!r}")
        return Stream(
            join_stream(
                self.handle,
                other.handle,
                joiner,
                left=True,
                right=True,
                within=within,
                before=before,
                after=after,
                grace=grace,
                on=None,
                with_key=with_key,
                value=value,
                store=store,
                name=name,
            )
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
            "KSTREAM-PROCESSVALUES-", processor, stores, timers, self.handle.key, value, name, fixed_key=True
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
        builder = self.handle.builder
        names = [store if isinstance(store, str) else builder.add_store(store) for store in stores]
        node_name = builder.name(name, prefix)
        key_serde, timer_store = self.handle.key, None
        if timers:
            key_serde = builder.key_serde(self.handle.key, f"timers of {node_name}")
            timer_store = builder.add_store(BytesSpec(name=f"{node_name}-timers"))
        operator = Process(processor, names, key_serde, timer_store, fixed_key)
        all_stores = [*names, timer_store] if timer_store else names
        for store in names:
            if store not in builder.topology.stores and not builder.topology.is_global_store(store):
                raise TopologyError(f"{node_name} uses store {store}, which is not defined yet")
        node = builder.processor(node_name, operator, [self.handle.node], all_stores)
        rekeyed = self.handle.rekeyed or not fixed_key
        return Stream(StreamHandle(builder, node, key, value, self.handle.topics, rekeyed))

    # as a table

    def to_table(
        self,
        *,
        store: str | None = None,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        logged: bool = True,
        name: str | None = None,
    ) -> Table[K, V]:
        """Read the records as updates of a table: a value replaces the key's last one, None deletes it.

        Records with a null key are dropped. The records are repartitioned if the key may have changed.
        """
        stream = self.handle.with_serdes(key, value)
        return Table(stream_as_table(stream, store=store, logged=logged, name=name))
