"""Joins of two streams: pairs of records with one key whose timestamps are within a window of each other.

    this ──▶ KeepForJoin ──▶ JoinStreams ──▶ merge ◀── JoinStreams ◀── KeepForJoin ◀── other

Each side's records meet what the other side's store has, and go into their own. A pair has the greater of
the two timestamps. Left and outer joins give a record that met none once no partner can come any more: when
stream time passes the end of its window and the grace (since Kafka Streams 3.1). Until then it waits in a
store that both sides share. Stream time is that of both sides together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, TypeAlias

from penstock.topology.context import Context
from penstock.topology.graph import Operator
from penstock.topology.ordered_bytes import OrderedBytes
from penstock.topology.records import NO_HEADERS, Forward, Headers
from penstock.topology.serdes import Serde
from penstock.topology.stores import StoreSpec
from penstock.topology.window_stores import WindowStore
from penstock.topology.windows import JoinWindows

PairJoiner: TypeAlias = Callable[[Any, Any, Any], Any]
"""``(key, left value, right value) -> value``; one of the values is None where there is no partner."""

_TIME_AND_SIDE: Final = Struct(">qB")
_LENGTH: Final = Struct(">i")
_RIGHT, _LEFT = 0, 1


class KeepForJoin(Operator):
    """Passes a record on and then keeps it for the other side. Records with a null key or value are not
    kept.
    """

    def __init__(self, store: str) -> None:
        self.store = store

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        store: WindowStore[Any, Any] = context.store(self.store)
        failed = context.failed

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            forward(key, value, timestamp_ms, headers)
            if key is None or value is None:
                return
            try:
                store.put(key, value, timestamp_ms)
            except Exception as error:
                failed(node, error)

        return process


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedSpec(StoreSpec):
    """The records of both sides that have not met any, by their timestamps. ``value`` is the left side's."""

    right_value: Serde[Any]

    def open(self, data: OrderedBytes) -> Unmatched:
        return Unmatched(data, self)


class Unmatched:
    """Records that have not met any. The bytes of the keys are Kafka Streams', with a number at their end:

    time (8) + side (1: left is 1) + key, then number (4)       value
    """

    def __init__(self, data: OrderedBytes, spec: UnmatchedSpec) -> None:
        self._data = data
        self._key = spec.key
        self._values = {_LEFT: spec.value, _RIGHT: spec.right_value}

    def __len__(self) -> int:
        return len(self._data)

    def _entries(self, key: Any, timestamp_ms: int, side: int) -> list[bytes]:
        """The stored keys of one key, time and side."""
        prefix = _TIME_AND_SIDE.pack(timestamp_ms, side) + self._key.serialize(key)
        found = self._data.prefix(prefix)
        return [stored_key for stored_key, _ in found if len(stored_key) == len(prefix) + _LENGTH.size]

    def put(self, key: Any, value: Any, timestamp_ms: int, side: int) -> None:
        present = self._entries(key, timestamp_ms, side)
        number = _LENGTH.unpack_from(present[-1], len(present[-1]) - 4)[0] + 1 if present else 0
        prefix = _TIME_AND_SIDE.pack(timestamp_ms, side) + self._key.serialize(key)
        self._data.put(prefix + _LENGTH.pack(number), self._values[side].serialize(value))

    def met(self, key: Any, timestamp_ms: int, side: int) -> None:
        """The records of this key, time and side have met one."""
        if len(self._data):
            for stored_key in self._entries(key, timestamp_ms, side):
                self._data.delete(stored_key)

    def take(self, left_before_ms: int, right_before_ms: int) -> Iterator[tuple[Any, Any, int, int]]:
        """Take out those before these times: ``(key, value, timestamp_ms, side)`` by time, right ones
        first.
        """
        if not len(self._data):
            return
        before = {_LEFT: left_before_ms, _RIGHT: right_before_ms}
        for stored_key, stored in self._data.scan(None, _TIME_AND_SIDE.pack(max(0, *before.values()), 0)):
            timestamp_ms, side = _TIME_AND_SIDE.unpack_from(stored_key)
            if timestamp_ms < before[side]:
                self._data.delete(stored_key)
                key = self._key.deserialize(stored_key[_TIME_AND_SIDE.size : -_LENGTH.size])
                yield key, self._values[side].deserialize(stored), timestamp_ms, side


class JoinStreams(Operator):
    """One side of a join: its records meet those that the other side kept.

    Args:
        side: which one this is.
        clock: names the stream time that both sides share.
        other_store: what the other side kept.
        unmatched: the shared store of an outer or left join, else None.
        outer: whether records of this side that meet none have a result: without that store at once, and
            once more when they meet one later, as before Kafka Streams 3.1.
    """

    LEFT: Final = _LEFT
    RIGHT: Final = _RIGHT

    def __init__(
        self,
        side: int,
        clock: str,
        other_store: str,
        windows: JoinWindows,
        joiner: PairJoiner,
        *,
        unmatched: str | None,
        outer: bool,
    ) -> None:
        self.side = side
        self.clock = clock
        self.other_store = other_store
        self.windows = windows
        self.joiner = joiner
        self.unmatched = unmatched
        self.outer = outer

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        others: WindowStore[Any, Any] = context.store(self.other_store)
        unmatched: Unmatched | None = None if self.unmatched is None else context.store(self.unmatched)
        side, outer, joiner, windows = self.side, self.outer, self.joiner, self.windows
        is_left, other_side = side == _LEFT, _RIGHT if side == _LEFT else _LEFT
        before_ms, after_ms = windows.before_ms, windows.after_ms
        if not is_left:
            before_ms, after_ms = after_ms, before_ms
        clock, drop, failed = context.clock(self.clock), context.drop, context.failed
        grace_ms = windows.grace_ms

        def joined(key: Any, mine: Any, other: Any) -> Any:
            return joiner(key, mine, other) if is_left else joiner(key, other, mine)

        def give_up() -> None:
            """Send what can't meet any more: a left record's window ends ``after`` it, a right one's
            ``before``.
            """
            if unmatched is None:
                return
            closed_ms = clock.ms - grace_ms
            for key, value, timestamp_ms, at in unmatched.take(
                closed_ms - windows.after_ms, closed_ms - windows.before_ms
            ):
                try:
                    result = joiner(key, value, None) if at == _LEFT else joiner(key, None, value)
                except Exception as error:
                    failed(node, error)
                    continue
                forward(key, result, timestamp_ms, NO_HEADERS)

        def advance() -> None:
            if context.ticked_ms > clock.ms:
                clock.ms = context.ticked_ms
                give_up()

        if unmatched is not None:
            context.on_tick(advance)

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if value is None or (key is None and not outer):
                clock.ms = max(clock.ms, timestamp_ms)
                drop(node)
                return
            if timestamp_ms > clock.ms:
                clock.ms = timestamp_ms
                if key is not None:
                    give_up()
            try:
                found = [] if key is None else list(_within(others, key, timestamp_ms, before_ms, after_ms))
                results = [(joined(key, value, other), other_ms) for other_ms, other in found]
                if found and unmatched is not None:
                    for other_ms, _ in found:
                        unmatched.met(key, other_ms, other_side)
                elif not found and outer:
                    is_open = timestamp_ms + after_ms + grace_ms >= clock.ms
                    if key is not None and is_open and unmatched is not None:
                        unmatched.put(key, value, timestamp_ms, side)
                    else:
                        results = [(joined(key, value, None), timestamp_ms)]
            except Exception as error:
                failed(node, error)
                return
            for result, other_ms in results:
                forward(key, result, max(timestamp_ms, other_ms), headers)

        return process


def _within(
    others: WindowStore[Any, Any], key: Any, timestamp_ms: int, before_ms: int, after_ms: int
) -> Iterator[tuple[int, Any]]:
    return others.fetch(key, max(0, timestamp_ms - before_ms), max(0, timestamp_ms + after_ms))
