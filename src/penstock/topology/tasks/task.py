"""Tasks: one sub-topology on one partition, the unit of computation and of state, as in Kafka Streams.

    task = Task(topology, part, partition, partition_counts=…, stores={"counts": OrderedBytes(restored)})
    task.process_all(rows)               # of this task, in order
    task.take_outputs()                  # for the sinks, repartition topics and the dead-letter topic
    task.take_deltas()                   # for the state log and the changelogs

The constructor compiles the nodes to closures that call each other. After an exception the task must not be
used again, because its stores may contain half of a record's effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.protocol.murmur2 import partition_for_key
from penstock.topology.context import Context, enter
from penstock.topology.errors import InvalidRecord, TopologyError
from penstock.topology.graph import Node, Processor, Sink, Source, SubTopology, Topology
from penstock.topology.records import Forward, Headers, Input, Output, Record
from penstock.topology.serdes import Serde, WindowedSerde
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.tasks.common_reading import Read, entrance, source_reader
from penstock.topology.tasks.stages import Stages, plan_stages

CLOCKS: Final = "$clocks"
"""The name of the task's own map of stream times, for the task and by node. It has no changelog."""

TASK_CLOCK: Final = ""


class Task:
    """One sub-topology on one partition.

    Args:
        stores: the restored bytes of each store by name, and under `CLOCKS` the task's times; stores that are
            missing start empty.
        global_stores: opened stores of the topology's global tables, by store name.
        partition_counts: partitions by topic (names on the cluster), as `Topology.partition_counts` returns
            them, and also for topics that are written to with a partitioner.
        wall_clock_ms: the initial time of day, which `tick` advances later.
    """

    def __init__(
        self,
        topology: Topology,
        part: SubTopology,
        partition: int,
        *,
        stores: Mapping[str, OrderedBytes] | None = None,
        global_stores: Mapping[str, Any] | None = None,
        partition_counts: Mapping[str, int] | None = None,
        wall_clock_ms: int = 0,
    ) -> None:
        self._topology = topology
        self.part = part
        self.partition = partition
        self.maps: dict[str, OrderedBytes] = {spec.name: spec.new_map() for spec in part.stores}
        self.maps[CLOCKS] = OrderedBytes()
        self.maps.update((name, data) for name, data in (stores or {}).items() if name in self.maps)
        opened = {spec.name: spec.open(self.maps[spec.name]) for spec in part.stores}
        self.stores: Mapping[str, Any] = {**(global_stores or {}), **opened}
        self.context = Context(
            partition, topology.errors, self.stores, partition_counts or {}, self.maps[CLOCKS]
        )
        self.context.wall_clock_ms = wall_clock_ms
        self._clock = self.context.clock(TASK_CLOCK)
        self.context.stream_time_ms = self._clock.ms
        self._compiled: dict[str, Forward] = {}
        plan = plan_stages(part)
        self._stages = None if plan is None else Stages(self.context, plan)
        self._together: frozenset[str] = frozenset() if plan is None else plan.together
        self._sources = {
            topology.topic(topic): self._source(source) for source in part.sources for topic in source.topics
        }

    # running

    def process(self, row: Input) -> None:
        """Process one record. Raises RecordFailed if it fails and the policy is to stop."""
        self.process_all((row,))

    def process_all(self, rows: Iterable[Input]) -> None:
        """Process records in the given order, which must be (timestamp, topic, partition, offset, index)."""
        enter(self.context)
        if self._stages is not None:
            self._stages.run(list(rows), self._enter)
            return
        context, sources, tickers = self.context, self._sources, self.context.tickers
        for row in rows:
            context.record = row
            sources[row[0]](row[4], row[5], row[3], row[6])
            if tickers:
                for ticker in tickers:
                    ticker()

    def process_counting(self, rows: Iterable[Input]) -> list[int]:
        """Process records as `process_all` does, and return the number of outputs after each record."""
        enter(self.context)
        if self._stages is not None:
            return self._stages.run(list(rows), self._enter)
        context, sources, tickers = self.context, self._sources, self.context.tickers
        outputs, counts = context.outputs, []
        for row in rows:
            context.record = row
            sources[row[0]](row[4], row[5], row[3], row[6])
            if tickers:
                for ticker in tickers:
                    ticker()
            counts.append(len(outputs))
        return counts

    def process_read(self, topic: str, rows: Sequence[Input], read: Iterable[Read]) -> list[int]:
        """Process records of one topic that `CommonReading` has already decoded to ``read``.

        The result is that of `process_counting`.
        """
        found = entrance(self._topology, self.part, topic)
        if found is None or self._stages is not None or self.context.tickers:
            return self.process_counting(rows)
        enter(self.context)
        source, processor = found
        context, alone = self.context, self._sources[topic]
        forward = fan_out(tuple(context.children[processor.name].values()))
        outputs, counts = context.outputs, []
        for row, made in zip(rows, read, strict=True):
            context.record = row
            if made is None:
                context.drop(source.name)
            elif isinstance(made, tuple):
                key, value, timestamp_ms = made
                if timestamp_ms > context.stream_time_ms:
                    context.stream_time_ms = timestamp_ms
                forward(key, value, timestamp_ms, row[6])
            else:
                alone(row[4], row[5], row[3], row[6])
            counts.append(len(outputs))
        return counts

    def _enter(self, row: Input) -> None:
        self._sources[row[0]](row[4], row[5], row[3], row[6])

    def tick(self, *, stream_time_ms: int | None = None, wall_clock_ms: int | None = None) -> None:
        """Advance time without a record: timers fire, windows close. Time never goes backwards.

        A runner calls this before each batch to set the time of day.
        """
        context = self.context
        enter(context)
        if stream_time_ms is not None:
            context.ticked_ms = max(context.ticked_ms, stream_time_ms)
            context.stream_time_ms = max(context.stream_time_ms, stream_time_ms)
        if wall_clock_ms is not None and wall_clock_ms > context.wall_clock_ms:
            context.wall_clock_ms = wall_clock_ms
        if self._stages is not None:
            self._stages.run([context.record], lambda row: None)
            return
        for ticker in context.tickers:
            ticker()

    def take_outputs(self) -> list[Output]:
        """Return the outputs since the last call, in order. Topics have their names on the cluster."""
        outputs = self.context.outputs[:]
        self.context.outputs.clear()  # the list object must stay: sinks hold its append
        return outputs

    def take_deltas(self) -> dict[str, dict[bytes, bytes | None]]:
        """Return each store's changes since the last call, and the times under `CLOCKS`.

        Unchanged stores are omitted.
        """
        self._clock.ms = self.context.stream_time_ms
        saved = self.maps[CLOCKS]
        for name, clock in self.context.clocks.items():
            ms = b"%d" % clock.ms
            if saved.get(name.encode()) != ms:
                saved.put(name.encode(), ms)
        return {name: delta for name, data in self.maps.items() if (delta := data.take_delta())}

    def take_dropped(self) -> dict[str, int]:
        """Return how many records each node has dropped by rule since the last call."""
        dropped = self.context.dropped.copy()
        self.context.dropped.clear()
        return dropped

    @property
    def stream_time_ms(self) -> int:
        return self.context.stream_time_ms

    # compiling

    def _children(self, node: Node) -> Forward:
        compiled = {child.name: self._node(child) for child in node.children}
        if self._stages is not None:
            edge = self._stages.edge
            compiled = {child.name: edge(node, child, compiled[child.name]) for child in node.children}
        self.context.children[node.name] = compiled
        return fan_out(tuple(compiled.values()))

    def _node(self, node: Node) -> Forward:
        """Return the function that processes the node's records; each node is compiled only once."""
        if node.name not in self._compiled:
            if isinstance(node, Sink):
                compiled = self._sink(node)
            elif isinstance(node, Processor):
                compiled = self._processor(node)
            else:
                raise TopologyError(f"{node.name} is a source, which can't have parents")
            self._compiled[node.name] = compiled
        return self._compiled[node.name]

    def _processor(self, node: Processor) -> Forward:
        forward = self._children(node)
        if self._stages is None:
            return node.operator.compile(node.name, self.context, forward)
        if node.name in self._together:
            return self._stages.collecting(node, node.operator.collected(node.name, self.context, forward))
        tickers = self.context.tickers
        before = len(tickers)
        compiled = node.operator.compile(node.name, self.context, forward)
        self._stages.ticks(node, tickers[before:])
        return compiled

    def _source(self, source: Source) -> Forward:
        return source_reader(source, self.context, self._children(source))

    def _sink(self, sink: Sink) -> Forward:
        context, name, send = self.context, sink.name, self.context.outputs.append
        key_to, value_to = _writer(sink.key), _writer(sink.value)
        target, partition_of = self._target(sink), self._partition(sink)

        if isinstance(target, str) and partition_of is None:
            topic: str = target

            def write(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
                try:
                    key_bytes = None if key is None else key_to(key)
                    value_bytes = None if value is None else value_to(value)
                except Exception as error:
                    context.failed(name, error)
                    return
                send((topic, None, key_bytes, value_bytes, timestamp_ms, headers))

            return write

        def route(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            try:
                record = Record(key, value, timestamp_ms, headers)
                chosen = target if isinstance(target, str) else target(key, value, record)
                if not isinstance(chosen, str) or not chosen:
                    raise InvalidRecord(f"the sink chose {chosen!r}, not the name of a topic")
                key_bytes = None if key is None else key_to(key)
                value_bytes = None if value is None else value_to(value)
                partition = None if partition_of is None else partition_of(chosen, key, value)
            except Exception as error:
                context.failed(name, error)
                return
            send((chosen, partition, key_bytes, value_bytes, timestamp_ms, headers))

        return route

    def _target(self, sink: Sink) -> Any:
        return self._topology.topic(sink.topic) if isinstance(sink.topic, str) else sink.topic

    def _partition(self, sink: Sink) -> Callable[[str, Any, Any], int | None] | None:
        partitions, partitioner, serde = self.context.partitions, sink.partitioner, sink.key
        if partitioner is not None:

            def by_function(topic: str, key: Any, value: Any) -> int | None:
                number = partitions(topic)
                chosen = partitioner(topic, key, value, number)
                if chosen is not None and not 0 <= chosen < number:
                    raise InvalidRecord(
                        f"the partitioner chose {chosen} for {topic}, which has 0 to {number - 1}"
                    )
                return chosen

            return by_function
        if isinstance(serde, WindowedSerde):
            inner = serde.inner.serialize
            return lambda topic, key, value: (
                None if key is None else partition_for_key(inner(key.key), partitions(topic))
            )
        return None


def fan_out(targets: tuple[Forward, ...]) -> Forward:
    """Return one function that passes a record to each target in turn."""
    if len(targets) == 1:
        return targets[0]
    if len(targets) == 2:
        first, second = targets

        def both(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            first(key, value, timestamp_ms, headers)
            second(key, value, timestamp_ms, headers)

        return both

    def each(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        for target in targets:
            target(key, value, timestamp_ms, headers)

    return each


def _same(data: Any) -> Any:
    return data


def _writer(serde: Serde[Any] | None) -> Callable[[Any], bytes]:
    return _same if serde is None else serde.serialize
