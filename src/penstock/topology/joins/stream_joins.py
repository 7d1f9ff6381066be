"""Joins of two streams: pairs of records with one key whose timestamps are within a window of each other.

    this ──▶ KeepForJoin ──▶ JoinStreams ──▶ merge ◀── JoinStreams ◀── KeepForJoin ◀── other

A record of one side joins the records in the other side's store, and is then added to its own side's store. A
pair has the greater of the two timestamps. Left and outer joins also send a record without a match, as soon
as no partner can arrive any more: when stream time passes the end of its window plus the grace (as in Kafka
Streams since 3.1). Until then the record waits in a store that both sides share. Both sides also share one
stream time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, TypeAlias

from penstock.topology.context import Context
from penstock.topology.graph import Operator
from penstock.topology.records import NO_HEADERS, Forward, Headers
from penstock.topology.serdes import Serde
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.stores.state_stores import StoreSpec
from penstock.topology.stores.window_stores import WindowStore
from penstock.topology.windows import JoinWindows

PairJoiner: TypeAlias = Callable[[Any, Any, Any], Any]
"""``(key, left value, right value) -> value``; a value is None if that side has no partner."""

_TIME_AND_SIDE: Final = Struct(">qB")
_LENGTH: Final = Struct(">i")
_RIGHT, _LEFT = 0, 1


class KeepForJoin(Operator):
    """Forwards every record, and then stores it for the other side if key and value are not null."""

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
    """A store of the unmatched records of both sides, by timestamp. ``value`` is the left side's serde."""

    right_value: Serde[Any]

    def open(self, data: OrderedBytes) -> Unmatched:
        return Unmatched(data, self)


class Unmatched:
    """The unmatched records of both sides.

    Stored keys have the format of Kafka Streams plus a number at the end: time (8) + side (1: left is 1) +
    key + number (4). The stored value is the record's value.
    """

    def __init__(self, data: OrderedBytes, spec: UnmatchedSpec) -> None:
        self._data = data
        self._key = spec.key
        self._values = {_LEFT: spec.value, _RIGHT: spec.right_value}

    def __len__(self) -> int:
        return len(self._data)

    def _entries(self, key: Any, timestamp_ms: int, side: int) -> list[bytes]:
        """Return the stored keys of the entries with one key, time and side."""
        prefix = _TIME_AND_SIDE.pack(timestamp_ms, side) + self._key.serialize(key)
        found = self._data.prefix(prefix)
        return [stored_key for stored_key, _ in found if len(stored_key) == len(prefix) + _LENGTH.size]

    def put(self, key: Any, value: Any, timestamp_ms: int, side: int) -> None:
        present = self._entries(key, timestamp_ms, side)
        number = _LENGTH.unpack_from(present[-1], len(present[-1]) - 4)[0] + 1 if present else 0
        prefix = _TIME_AND_SIDE.pack(timestamp_ms, side) + self._key.serialize(key)
        self._data.put(prefix + _LENGTH.pack(number), self._values[side].serialize(value))

    def met(self, key: Any, timestamp_ms: int, side: int) -> None:
        """Delete the entries of this key, time and side, which have found a match."""
        if len(self._data):
            for stored_key in self._entries(key, timestamp_ms, side):
                self._data.delete(stored_key)

    def take(self, left_before_ms: int, right_before_ms: int) -> Iterator[tuple[Any, Any, int, int]]:
        """Remove and yield the records before these times: ``(key, value, timestamp_ms, side)``.

        The order is by time; at equal times, right records come first.
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
    """One side of a join: it joins its records with the records that the other side stored.

    Args:
        side: which side this is.
        clock: the name of the stream time that both sides share.
        other_store: the store of the other side's records.
        unmatched: the shared store of unmatched records in a left or outer join, else None.
        outer: whether this side's unmatched records have a result. Without the shared store the result is
            sent immediately, and another one for each later match, as before Kafka Streams 3.1.
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
            """Send the records that can't match any more.

            A left record's window ends ``after`` its time, a right record's ``before``.
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
