"""Aggregates by sliding windows (KIP-450).

The store keeps, for each window of a key, the aggregate of its records and the greatest of their timestamps.
The windows that a new record creates follow from these, without the earlier records:

- The window that ends at the record starts from the aggregate of the last window that ended before it.
- The window that starts right after the record starts from the aggregate of the last window around it that
  has later records.
- The window that starts right after the preceding record starts with the new record alone.

Records whose timestamp is less than a window's length share the window that starts at 0, because no window
starts earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final, NamedTuple

from penstock.topology.aggregates.windowed_aggregates import (
    Aggregator,
    Initializer,
    WindowedTable,
    window_closer,
    window_view,
)
from penstock.topology.context import Context
from penstock.topology.operators.tables import View
from penstock.topology.records import Forward, Headers
from penstock.topology.serdes import Window, Windowed
from penstock.topology.stores.window_stores import WindowStore, pack_start
from penstock.topology.windows import SlidingWindows

_TIME: Final = Struct(">q")


class _Update(NamedTuple):
    """A change of one window that a record causes."""

    window: Window
    new: Any
    old: Any
    timestamp_ms: int


@dataclass(slots=True)
class _Stored:
    """A window's stored aggregate with the timestamp of its last record."""

    start_ms: int
    data: bytes

    @property
    def last_ms(self) -> int:
        last_ms: int = _TIME.unpack_from(self.data)[0]
        return last_ms


@dataclass(slots=True)
class _Arrival:
    """The processing of one record: the changes of the windows around it."""

    operator: AggregateSlidingWindows
    store: WindowStore[Any, Any]
    key: Any
    value: Any
    timestamp_ms: int
    closed_before_ms: int
    updates: list[_Update] = field(default_factory=list)
    late: int = 0
    """The number of windows that were skipped because they are closed."""

    def run(self) -> None:
        """Compute the updates, in the order in which they are sent."""
        if self.timestamp_ms < self.operator.windows.difference_ms:
            self._near_zero()
        else:
            self._usual()

    def _windows(self, from_ms: int) -> list[_Stored]:
        """Return the windows that start from then to right after the record, the last one first."""
        key = self.store.key_serde.serialize(self.key)
        found = self.store.fetch_bytes(key, max(0, from_ms), self.timestamp_ms + 1, reverse=True)
        return [_Stored(start_ms, data) for start_ms, data in found]

    def _usual(self) -> None:
        length_ms, at_ms = self.operator.windows.difference_ms, self.timestamp_ms
        windows = self._windows(at_ms - 2 * length_ms)
        starts = {window.start_ms for window in windows}
        own_ms = at_ms - length_ms
        around = [window for window in windows if own_ms < window.start_ms <= at_ms]
        own = next((window for window in windows if window.start_ms == own_ms), None)
        ended = next((window for window in windows if window.start_ms < own_ms), None)
        for window in around:
            self._add_to(window)
        if own is not None:
            self._add_to(own)
            if own.last_ms == at_ms:
                return  # not the first record with this timestamp: its windows exist
        last = own or ended
        before_ms = None if last is None else last.last_ms
        if before_ms is not None and before_ms + 1 not in starts and own_ms < before_ms + 1:
            self._begin(before_ms + 1, None)
        if own is None:
            takes_over = ended is not None and ended.last_ms >= own_ms
            self._begin(own_ms, ended if takes_over else None)
        self._begin_after(around[0] if around else None, starts)

    def _near_zero(self) -> None:
        windows = self._windows(0)
        starts = {window.start_ms for window in windows}
        around = [window for window in windows if 0 < window.start_ms <= self.timestamp_ms]
        first = next((window for window in windows if window.start_ms == 0), None)
        for window in reversed(around):
            self._add_to(window)
        self._begin_after(around[0] if around else first, starts)
        if first is None:
            self._begin(0, None)
            return
        before_ms = first.last_ms
        if before_ms < self.timestamp_ms and before_ms + 1 not in starts:
            self._begin(before_ms + 1, None)
        self._add_to(first)

    def _add_to(self, window: _Stored) -> None:
        self._update(window.start_ms, window, self._read(window) if self.operator.sends_old else None)

    def _begin(self, start_ms: int, takes_over: _Stored | None) -> None:
        self._update(start_ms, takes_over, None)

    def _update(self, start_ms: int, base: _Stored | None, old: Any) -> None:
        """Add the record to a window that starts from the aggregate of ``base``."""
        window = Window(start_ms, start_ms + self.operator.windows.difference_ms)
        if window.end_ms < self.closed_before_ms:
            self.late += 1
            return
        aggregate = self.operator.initializer() if base is None else self._read(base)
        new = self.operator.aggregator(self.key, self.value, aggregate)
        timestamp_ms = self.timestamp_ms if base is None else max(self.timestamp_ms, base.last_ms)
        self.updates.append(_Update(window, new, old, timestamp_ms))

    def _begin_after(self, base: _Stored | None, starts: set[int]) -> None:
        """Create the window right after the record, if it is missing and ``base`` has later records."""
        if base is None or base.last_ms <= self.timestamp_ms or self.timestamp_ms + 1 in starts:
            return
        start_ms = self.timestamp_ms + 1
        window = Window(start_ms, start_ms + self.operator.windows.difference_ms)
        self.updates.append(_Update(window, self._read(base), None, base.last_ms))

    def _read(self, window: _Stored) -> Any:
        return self.store.value_serde.deserialize(window.data[8:])


class AggregateSlidingWindows(WindowedTable):
    """A table of sliding windows; the module's docstring explains the algorithm."""

    def __init__(
        self,
        store: str,
        windows: SlidingWindows,
        initializer: Initializer,
        aggregator: Aggregator,
        *,
        on_close: bool = False,
    ) -> None:
        super().__init__(store, on_close)
        self.windows = windows
        self.initializer = initializer
        self.aggregator = aggregator
        self.final_after_ms = windows.final_after_ms

    def view(self, context: Context) -> View:
        return window_view(context.store(self.stored))

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        store: WindowStore[Any, Any] = context.store(self.stored)
        length_ms, grace_ms = self.windows.difference_ms, self.windows.grace_ms
        on_close, clock, drop, failed = self.on_close, context.clock(node), context.drop, context.failed
        closing = window_closer(node, context, store, length_ms, forward) if on_close else None
        final_after_ms = self.final_after_ms + length_ms

        def advance() -> None:
            if context.ticked_ms > clock.ms:
                clock.ms = context.ticked_ms
            if closing is not None:
                closing.up_to(clock.ms - final_after_ms)

        if on_close:
            context.on_tick(advance)

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(node)
                return
            if timestamp_ms > clock.ms:
                clock.ms = timestamp_ms
                if closing is not None:
                    closing.up_to(timestamp_ms - final_after_ms)
            closed_before_ms = clock.ms - grace_ms
            if timestamp_ms + length_ms < closed_before_ms:
                drop(node)
                return
            arrival = _Arrival(self, store, key, value, timestamp_ms, closed_before_ms)
            try:
                arrival.run()
                key_bytes = store.key_serde.serialize(key)
                for update in arrival.updates:
                    stored_key = key_bytes + pack_start(update.window.start_ms, 0)
                    if closing is not None and stored_key not in store.data:
                        closing.windows.add(stored_key)
                    store.put(key, update.new, update.window.start_ms, update.timestamp_ms)
            except Exception as error:
                failed(node, error)
                return
            for _ in range(arrival.late):
                drop(node)
            if not on_close:
                for update in arrival.updates:
                    change = (update.new, update.old, True)
                    forward(Windowed(key, update.window), change, update.timestamp_ms, headers)

        return process
