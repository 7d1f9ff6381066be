"""Windowed aggregates: tables whose keys are `Windowed`, with one row per key and window.

Records with a null key or value are dropped. A record is also dropped from each of its windows that has
closed; each such window is counted. Stream time is that of the node: the greatest timestamp that reached it,
which survives restarts. With ``on_close`` a window's result is sent once, when it closes (KIP-825); otherwise
each update is sent. Windows close when records reach the node, and when `Task.tick` advances stream time
without a record.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from struct import Struct
from typing import Any, Final

from penstock.topology.aggregates.grouped_aggregates import step_of
from penstock.topology.collected import Collected, FoldedWindows
from penstock.topology.context import Context, StreamClock
from penstock.topology.operators.tables import TableOperator, View
from penstock.topology.records import NO_HEADERS, Forward, Headers
from penstock.topology.serdes import Window, Windowed
from penstock.topology.stores.window_stores import SessionStore, WindowStore, pack_start, unpack_start
from penstock.topology.windows import SessionWindows, TimeWindows

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
"""``(key, value, aggregate) -> aggregate``; None deletes the row."""
Merger = Callable[[Any, Any, Any], Any]
"""``(key, aggregate, other aggregate) -> aggregate``."""

_TIME: Final = Struct(">q")
_pack_time = _TIME.pack
_unpack_time = _TIME.unpack_from
_SESSION: Final = Struct(">qq")
_pack_session = _SESSION.pack
_unpack_session = _SESSION.unpack_from


class WindowedTable(TableOperator):
    """The base class of all windowed tables."""

    def __init__(self, store: str, on_close: bool) -> None:
        super().__init__(store)
        self.on_close = on_close

    final_after_ms: int
    """A window is final once stream time is at least its end plus this."""


class _Closing:
    """The unsent windows, ordered by the times at which they close.

    After a restart they are found in the store again, from the time up to which windows have been sent.
    """

    def __init__(self, time_of: Callable[[bytes], tuple[int, int]], data: Any, sent: StreamClock) -> None:
        self._time_of = time_of
        """Returns when a stored key's window closes, and the order of windows that close together."""
        self._data = data
        self._sent = sent
        """Windows whose time is at or before this have been sent."""
        self._heap = [(time_of(key), key) for key in data.data if time_of(key)[0] > sent.ms]
        heapify(self._heap)

    def add(self, key: bytes) -> None:
        heappush(self._heap, (self._time_of(key), key))

    def close(self, up_to_ms: int, send: Callable[[bytes, bytes], None]) -> None:
        """Send the windows whose time is up to this, by time and key, without those that were merged away."""
        if up_to_ms <= self._sent.ms:
            return
        self._sent.ms = up_to_ms
        heap, data, last = self._heap, self._data.data, b""
        while heap and heap[0][0][0] <= up_to_ms:
            _, key = heappop(heap)
            stored = data.get(key)
            if stored is not None and key != last:  # a key added twice is in the heap twice
                send(key, stored)
            last = key


class AggregateTimeWindows(WindowedTable):
    """Tumbling and hopping windows: each record belongs to every window that contains its timestamp.

    With ``cached``, only the last of a window's updates in a batch is sent.
    """

    def __init__(
        self,
        store: str,
        windows: TimeWindows,
        initializer: Initializer,
        aggregator: Aggregator,
        *,
        on_close: bool = False,
        cached: bool = False,
    ) -> None:
        super().__init__(store, on_close)
        self.cached = cached
        self.windows = windows
        self.initializer = initializer
        self.aggregator = aggregator
        self.final_after_ms = windows.final_after_ms

    def view(self, context: Context) -> View:
        return window_view(context.store(self.stored))

    @property
    def takes_batches(self) -> bool:
        return self.cached and not self.on_close

    def collected(self, node: str, context: Context, forward: Forward) -> Collected:
        windows = self.windows
        size_ms, closed_after_ms, starts = windows.size_ms, windows.grace_ms + windows.size_ms, windows.starts
        clock, drop = context.clock(node), context.drop

        def open_windows(timestamp_ms: int) -> list[int]:
            if context.ticked_ms > clock.ms:
                clock.ms = context.ticked_ms
            if timestamp_ms > clock.ms:
                clock.ms = timestamp_ms
            found = []
            for start_ms in starts(timestamp_ms):
                if start_ms <= clock.ms - closed_after_ms:
                    drop(node)
                else:
                    found.append(start_ms)
            return found

        return FoldedWindows(
            node,
            context,
            context.store(self.stored),
            step_of(self.aggregator, self.initializer),
            open_windows,
            lambda key, start_ms: Windowed(key, Window(start_ms, start_ms + size_ms)),
            send_old=self.sends_old,
            forward=forward,
        )

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        store: WindowStore[Any, Any] = context.store(self.stored)
        windows, initializer, aggregator = self.windows, self.initializer, self.aggregator
        size_ms, grace_ms, starts = windows.size_ms, windows.grace_ms, windows.starts
        on_close, send_old = self.on_close, self.sends_old
        clock, drop, failed = context.clock(node), context.drop, context.failed
        key_to, value_to = store.key_serde.serialize, store.value_serde.serialize
        value_of, data = store.value_serde.deserialize, store.data
        get, put = data.data.get, data.put
        close = window_closer(node, context, store, size_ms, forward) if on_close else None

        def advance() -> None:
            if context.ticked_ms > clock.ms:
                clock.ms = context.ticked_ms
            if close is not None:
                close.up_to(clock.ms - grace_ms - size_ms)

        if on_close:
            context.on_tick(advance)

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(node)
                return
            if timestamp_ms > clock.ms:
                clock.ms = timestamp_ms
                if close is not None:  # before the store deletes the closed windows
                    close.up_to(timestamp_ms - grace_ms - size_ms)
            open_after_ms = clock.ms - grace_ms - size_ms
            try:
                key_bytes = key_to(key)
            except Exception as error:
                failed(node, error)
                return
            for start_ms in starts(timestamp_ms):
                if start_ms <= open_after_ms:
                    drop(node)
                    continue
                try:
                    stored_key = key_bytes + pack_start(start_ms, 0)
                    stored = get(stored_key)
                    at_ms, old = timestamp_ms, None
                    if stored is None:
                        new = aggregator(key, value, initializer())
                    else:
                        # The aggregator may change the aggregate in place, so the old one is deserialized
                        # separately.
                        old = value_of(stored[8:]) if send_old else None
                        new = aggregator(key, value, value_of(stored[8:]))
                        at_ms = max(at_ms, _unpack_time(stored)[0])
                    if new is None:
                        data.delete(stored_key)
                    else:
                        put(stored_key, _pack_time(at_ms) + value_to(new))
                        if close is not None and stored is None:
                            close.windows.add(stored_key)
                except Exception as error:
                    failed(node, error)
                    return
                if not on_close:
                    window = Window(start_ms, start_ms + size_ms)
                    forward(Windowed(key, window), (new, old, True), at_ms, headers)
            store.expire()

        return process


class WindowCloser:
    """Sends the final results of a window store."""

    def __init__(
        self, windows: _Closing, store: WindowStore[Any, Any], size_ms: int, forward: Forward
    ) -> None:
        self.windows = windows
        self._store = store
        self._size_ms = size_ms
        self._forward = forward

    def up_to(self, start_ms: int) -> None:
        """Close the windows that start at this time or before."""
        self.windows.close(start_ms, self._send)

    def _send(self, key: bytes, stored: bytes) -> None:
        start_ms = unpack_start(key, len(key) - 12)[0]
        windowed = Windowed(
            self._store.key_serde.deserialize(key[:-12]), Window(start_ms, start_ms + self._size_ms)
        )
        value = self._store.value_serde.deserialize(stored[8:])
        self._forward(windowed, (value, None, True), _unpack_time(stored)[0], NO_HEADERS)


def window_closer(
    node: str, context: Context, store: WindowStore[Any, Any], size_ms: int, forward: Forward
) -> WindowCloser:
    windows = _Closing(
        lambda key: (unpack_start(key, len(key) - 12)[0], 0), store.data, context.clock(f"{node} closed")
    )
    return WindowCloser(windows, store, size_ms, forward)


def window_view(store: WindowStore[Any, Any]) -> View:
    def view(windowed: Windowed[Any]) -> tuple[Any, int] | None:
        return store.get_with_timestamp(windowed.key, windowed.window.start_ms)

    return view


class AggregateSessions(WindowedTable):
    """Sessions: a record merges all sessions within the gap into one, or starts its own.

    The previous sessions are sent as tombstones before the new one, even if the new session has the bounds of
    one of them. A session's timestamp is its end.
    """

    def __init__(
        self,
        store: str,
        windows: SessionWindows,
        initializer: Initializer,
        aggregator: Aggregator,
        merger: Merger,
        *,
        on_close: bool = False,
    ) -> None:
        super().__init__(store, on_close)
        self.windows = windows
        self.initializer = initializer
        self.aggregator = aggregator
        self.merger = merger
        self.final_after_ms = windows.final_after_ms

    def view(self, context: Context) -> View:
        store: SessionStore[Any, Any] = context.store(self.stored)

        def view(windowed: Windowed[Any]) -> tuple[Any, int] | None:
            value = store.get(windowed.key, windowed.window)
            return None if value is None else (value, windowed.window.end_ms)

        return view

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        store: SessionStore[Any, Any] = context.store(self.stored)
        gap_ms, final_after_ms = self.windows.gap_ms, self.final_after_ms
        initializer, aggregator, merger = self.initializer, self.aggregator, self.merger
        on_close, send_old = self.on_close, self.sends_old
        clock, drop, failed = context.clock(node), context.drop, context.failed
        closing = _Closing(_session_times, store.data, context.clock(f"{node} closed")) if on_close else None
        key_to, value_of = store.key_serde.serialize, store.value_serde.deserialize

        def send(stored_key: bytes, stored: bytes) -> None:
            end_ms, start_ms = _unpack_session(stored_key, len(stored_key) - 16)
            windowed = Windowed(store.key_serde.deserialize(stored_key[:-16]), Window(start_ms, end_ms))
            forward(windowed, (value_of(stored), None, True), end_ms, NO_HEADERS)

        def advance() -> None:
            if context.ticked_ms > clock.ms:
                clock.ms = context.ticked_ms
            if closing is not None:
                closing.close(clock.ms - final_after_ms, send)

        if on_close:
            context.on_tick(advance)

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(node)
                return
            if timestamp_ms > clock.ms:
                clock.ms = timestamp_ms
                if closing is not None:
                    closing.close(timestamp_ms - final_after_ms, send)
            try:
                # Closed sessions stay unchanged, however long the store keeps them.
                earliest_end_ms = max(timestamp_ms - gap_ms, clock.ms - final_after_ms + 1)
                merged = list(store.find(key, earliest_end_ms, timestamp_ms + gap_ms))
                window = Window(
                    min([timestamp_ms, *(session.start_ms for session, _ in merged)]),
                    max([timestamp_ms, *(session.end_ms for session, _ in merged)]),
                )
                if window.end_ms <= clock.ms - final_after_ms:
                    drop(node)
                    return
                before = {session: store.get(key, session) if send_old else None for session, _ in merged}
                aggregate = initializer()
                for _, other in merged:
                    aggregate = merger(key, aggregate, other)
                new = aggregator(key, value, aggregate)
                for session, _ in merged:
                    store.delete(key, session)
                store.put(key, window, new)
                if closing is not None and new is not None:
                    closing.add(key_to(key) + _pack_session(window.end_ms, window.start_ms))
            except Exception as error:
                failed(node, error)
                return
            if on_close:
                return
            if window == Window(timestamp_ms, timestamp_ms):
                forward(Windowed(key, window), (new, before.get(window), True), timestamp_ms, headers)
                return
            for session, old in before.items():
                forward(Windowed(key, session), (None, old, True), session.end_ms, headers)
            forward(Windowed(key, window), (new, None, True), window.end_ms, headers)

        return process


def _session_times(key: bytes) -> tuple[int, int]:
    end_ms, start_ms = _unpack_session(key, len(key) - 16)
    return end_ms, start_ms
