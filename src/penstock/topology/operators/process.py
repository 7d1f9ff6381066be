"""The process operator: user code with keyed state, timers and time, record by record (KIP-478, KIP-820).

A new `Processor` is created for each task. State that must last between records belongs in stores: the
processor's own attributes are lost when the task moves or restarts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from penstock.topology.context import Context
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Operator
from penstock.topology.records import NO_HEADERS, NO_TIMESTAMP, Forward, Headers, Origin, Record
from penstock.topology.serdes import Serde
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.stores.state_stores import ExpiringStore

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

TimeKind: TypeAlias = Literal["stream", "wall"]
"""The kind of time of a timer.

Stream time is the greatest timestamp that the task has seen. Wall time is the time of day at which the batch
began.
"""


class Processor(ABC, Generic[K, V, K2, V2]):
    """Processes records of K and V, and forwards records of K2 and V2.

    ``self.context`` (see `ProcessorContext`) provides stores, time and `ProcessorContext.forward`.

        >>> from penstock.streams import App, Processor, TopologyTest, key_value_store, long, string
        >>> class Idle(Processor):
        ...     '''Reports keys without a record for a minute.'''
        ...     def process(self, record):
        ...         seen = self.context.store("seen")
        ...         seen.put(record.key, record.timestamp_ms, record.timestamp_ms)
        ...         self.context.set_timer(record.key, record.timestamp_ms + 60_000)
        ...     def on_timer(self, key, time_ms, kind):
        ...         last_ms = self.context.store("seen").get(key)
        ...         if last_ms + 60_000 <= time_ms:
        ...             self.context.forward(Record(key, last_ms, time_ms))
        >>> app = App("watch", key=string, value=long)
        >>> seen = key_value_store("seen", key=string, value=long)
        >>> app.stream("beats").process(Idle, stores=[seen], timers=True).to("idle", key=string, value=long)
        >>> test = TopologyTest(app)
        >>> test.input("beats").pipe("a", 1, timestamp=1_000)
        >>> test.input("beats").pipe("b", 1, timestamp=70_000)
        >>> test.output("idle").read_all()
        [Record('a', 1000, 61000)]
    """

    context: ProcessorContext

    def init(self) -> None:
        """Prepare the processor, once per task before its first record.

        Call `ProcessorContext.every` here.
        """
        return None

    @abstractmethod
    def process(self, record: Record[K, V]) -> None:
        """Process a record.

        An exception sends the record to the dead-letter topic or stops the application. Whatever was put and
        forwarded before the exception stays.
        """

    def on_timer(self, key: K, time_ms: int, kind: TimeKind) -> None:
        """Handle a timer of this key and time that is due.

        The current time may be later than ``time_ms``; ``context`` has it.
        """
        raise NotImplementedError(f"{type(self).__name__} sets timers, but has no on_timer")


_TIMER: Final = Struct(">Bq")
_KINDS: Final[tuple[TimeKind, TimeKind]] = ("stream", "wall")


class ProcessorContext:
    """The context of a `Processor`: stores, time, timers and forwarding."""

    def __init__(
        self,
        node: str,
        context: Context,
        forward: Forward,
        timers: OrderedBytes | None,
        key: Serde[Any] | None,
    ) -> None:
        self._node = node
        self._context = context
        self._forward = forward
        self._timers = timers
        self._key = key
        self._schedules: list[_Schedule] = []

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Forward a record to all child nodes, or to the child of this name."""
        if child is None:
            self._forward(record.key, record.value, record.timestamp_ms, record.headers)
            return
        children = self._context.children[self._node]
        if child not in children:
            raise TopologyError(f"{self._node} has no child {child}; it has {sorted(children)}")
        children[child](record.key, record.value, record.timestamp_ms, record.headers)

    def store(self, name: str) -> Any:
        """Return a store that the node is connected to. Raises TopologyError."""
        return self._context.store(name)

    @property
    def stream_time_ms(self) -> int:
        """The greatest timestamp that the task has seen; -1 before the first record."""
        return self._context.stream_time_ms

    @property
    def wall_clock_ms(self) -> int:
        """The time of day at which the batch began."""
        return self._context.wall_clock_ms

    @property
    def partition(self) -> int:
        return self._context.partition

    @property
    def origin(self) -> Origin:
        """The place from which the current record was read."""
        return self._context.origin

    def set_timer(self, key: Any, at_ms: int, kind: TimeKind = "stream") -> None:
        """Set a timer, which calls `Processor.on_timer` once the time is reached.

        A timer is identified by key, time and kind, so setting it twice sets one timer. Timers are state and
        survive restarts. A timer that is already due fires right after the current record.
        """
        self._timer_map().put(self._timer(key, at_ms, kind), b"")

    def delete_timer(self, key: Any, at_ms: int, kind: TimeKind = "stream") -> None:
        """Delete a timer, if it is set."""
        self._timer_map().delete(self._timer(key, at_ms, kind))

    def every(self, interval_ms: int, action: Callable[[int], object], kind: TimeKind = "stream") -> None:
        """Call ``action(time_ms)`` once per interval, like a punctuator of Kafka Streams.

        On stream time the first call is at the first record, and on wall time after one interval. If several
        intervals pass at once, there is one call for all of them. Use it in `Processor.init` only.
        """
        if interval_ms < 1:
            raise TopologyError(f"{self._node} has an interval of {interval_ms} ms: expected at least 1")
        self._timer_map()
        self._schedules.append(
            _Schedule(self._node, len(self._schedules), interval_ms, action, kind, self._context)
        )

    def _timer_map(self) -> OrderedBytes:
        if self._timers is None:
            raise TopologyError(f"{self._node} uses timers: expected process(…, timers=True)")
        return self._timers

    def _timer(self, key: Any, at_ms: int, kind: TimeKind) -> bytes:
        if self._key is None:
            raise TopologyError(f"{self._node} sets timers, so its stream's keys need a serde")
        return _TIMER.pack(_KINDS.index(kind), at_ms) + self._key.serialize(key)


class _Schedule:
    """One periodic action, registered with `ProcessorContext.every`."""

    def __init__(
        self,
        node: str,
        number: int,
        interval_ms: int,
        action: Callable[[int], object],
        kind: TimeKind,
        context: Context,
    ) -> None:
        self._interval_ms = interval_ms
        self._action = action
        self._kind = kind
        self._context = context
        self._next = context.clock(f"{node}@{number}")

    def fire(self) -> bool:
        """Call the action if it is due."""
        stream = self._kind == "stream"
        now_ms = self._context.stream_time_ms if stream else self._context.wall_clock_ms
        if self._next.ms == NO_TIMESTAMP:
            if now_ms < 0:
                return False
            self._next.ms = 0 if stream else now_ms + self._interval_ms
        if now_ms < self._next.ms:
            return False
        self._next.ms += self._interval_ms
        if self._next.ms <= now_ms:
            self._next.ms = now_ms - now_ms % self._interval_ms + self._interval_ms
        self._action(now_ms)
        return True


class Process(Operator):
    """The operator that runs a `Processor`."""

    def __init__(
        self,
        factory: Callable[[], Processor[Any, Any, Any, Any]],
        stores: Sequence[str],
        key: Serde[Any] | None,
        timers: str | None = None,
        fixed_key: bool = False,
    ) -> None:
        self.factory = factory
        self.stores = tuple(stores)
        self.key = key
        self.timers = timers
        self.fixed_key = fixed_key
        self.has_timers = timers is not None

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        failed = context.failed
        timers: OrderedBytes | None = None if self.timers is None else context.store(self.timers)
        for name in self.stores:
            store = context.store(name)
            if isinstance(store, ExpiringStore):
                store.stream_time = lambda: context.stream_time_ms
        key_in_hand: list[Any] = [None]
        send = _same_key(node, forward, key_in_hand) if self.fixed_key else forward
        user = self.factory()
        user.context = ProcessorContext(node, context, send, timers, self.key)
        user.init()
        take = user.process

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            key_in_hand[0] = key
            try:
                take(Record(key, value, timestamp_ms, headers))
            except Exception as error:
                failed(node, error)

        if timers is not None:
            context.on_tick(_Timers(node, context, user, timers, self.key, key_in_hand).fire)
        return process


def _same_key(node: str, forward: Forward, key_in_hand: list[Any]) -> Forward:
    def send(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        if key != key_in_hand[0]:
            raise ValueError(f"process_values keeps the key {key_in_hand[0]!r}; {node} forwarded {key!r}")
        forward(key, value, timestamp_ms, headers)

    return send


class _Timers:
    """Fires the due timers of one task."""

    def __init__(
        self,
        node: str,
        context: Context,
        user: Processor[Any, Any, Any, Any],
        timers: OrderedBytes,
        key: Serde[Any] | None,
        key_in_hand: list[Any],
    ) -> None:
        self._node = node
        self._context = context
        self._user = user
        self._timers = timers
        self._key = key
        self._key_in_hand = key_in_hand

    def fire(self) -> None:
        """Fire the due timers by time, stream time before wall time, then the periodic actions.

        Timers that user code sets meanwhile fire too, if they are due.
        """
        context = self._context
        for number, kind in enumerate(_KINDS):
            now_ms = context.stream_time_ms if kind == "stream" else context.wall_clock_ms
            low, high = _TIMER.pack(number, 0), _TIMER.pack(number, now_ms + 1)
            while (timer := self._timers.first(low, high)) is not None:
                self._timers.delete(timer)
                self._fire_one(timer, kind)
        for schedule in self._user.context._schedules:
            self._failing(schedule.fire, b"", context.stream_time_ms)

    def _fire_one(self, timer: bytes, kind: TimeKind) -> None:
        key_bytes, time_ms = timer[_TIMER.size :], _TIMER.unpack_from(timer)[1]
        assert self._key is not None, "a timer without a key serde can't be set"
        key = self._key_in_hand[0] = self._key.deserialize(key_bytes)
        self._failing(lambda: self._user.on_timer(key, time_ms, kind), key_bytes, time_ms)

    def _failing(self, action: Callable[[], object], key: bytes, time_ms: int) -> None:
        """Run user code without a current record; in errors and dead letters the timer stands in for it."""
        context = self._context
        record, context.record = (
            context.record,
            (f"{self._node} timers", context.partition, -1, time_ms, key, None, NO_HEADERS),
        )
        try:
            action()
        except Exception as error:
            context.failed(self._node, error)
        finally:
            context.record = record
