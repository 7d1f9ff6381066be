"""The state that the nodes of one task share: current record, time, stores, and error handling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.topology.errors import ErrorPolicy, Failure, RecordFailed, TopologyError
from penstock.topology.records import NO_HEADERS, NO_TIMESTAMP, Forward, Input, Origin, Output
from penstock.topology.stores.ordered_bytes import OrderedBytes

Ticker = Callable[[], None]
"""A callback that runs when time may have passed; it reads the time from the context."""

_NOTHING_YET: Final[Input] = ("", -1, -1, NO_TIMESTAMP, None, None, NO_HEADERS)


class StreamClock:
    """The stream time of one node: the greatest timestamp of the records that reached it.

    It is saved with the task's state, so it survives batches and restarts. A node gets it from
    `Context.clock`.
    """

    __slots__ = ("ms",)

    def __init__(self, ms: int) -> None:
        self.ms = ms


class Context:
    """The context that the nodes of one task share; nodes read it, and the task writes it.

    Attributes:
        stream_time_ms: the greatest timestamp seen by the task (`NO_TIMESTAMP` before the first record).
        ticked_ms: the stream time to which `Task.tick` advanced the task without a record.
        wall_clock_ms: the time of day, set by the task's runner; the same for all records of a batch.
        record: the current input record, as read.
        outputs: the records that the task is going to send.
    """

    def __init__(
        self,
        partition: int,
        errors: ErrorPolicy,
        stores: Mapping[str, Any],
        partition_counts: Mapping[str, int],
        clocks: OrderedBytes,
    ) -> None:
        self.partition = partition
        self.record: Input = _NOTHING_YET
        self.stream_time_ms = NO_TIMESTAMP
        self.ticked_ms = NO_TIMESTAMP
        self.wall_clock_ms = 0
        self.outputs: list[Output] = []
        self.children: dict[str, dict[str, Forward]] = {}
        self.tickers: list[Ticker] = []
        self.dropped: dict[str, int] = {}
        self._errors = errors
        self._stores = stores
        self._partition_counts = partition_counts
        self._saved_clocks = clocks
        self._failures = 0
        self._failures_at_ms = 0
        self.clocks: dict[str, StreamClock] = {}

    @property
    def origin(self) -> Origin:
        """The place from which the current record was read."""
        topic, partition, offset, *_ = self.record
        return Origin(topic, partition, offset)

    def store(self, name: str | None) -> Any:
        """Return the store of this name, as its `StoreSpec` opens it. Raises TopologyError."""
        try:
            return self._stores[name]  # type: ignore[index]  # no store is named None
        except KeyError:
            raise TopologyError(
                f"store {name} is not connected to this part of the topology; it has {sorted(self._stores)}"
            ) from None

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of an output topic. Raises TopologyError."""
        try:
            return self._partition_counts[topic]
        except KeyError:
            raise TopologyError(f"the number of partitions of topic {topic} is not known") from None

    def clock(self, node: str) -> StreamClock:
        """Return the node's own stream time, as saved after the last batch."""
        if node not in self.clocks:
            saved = self._saved_clocks.get(node.encode())
            self.clocks[node] = StreamClock(NO_TIMESTAMP if saved is None else int(saved))
        return self.clocks[node]

    def on_tick(self, ticker: Ticker) -> None:
        """Register ``ticker`` to run after each record of the task, and when time passes without a record."""
        self.tickers.append(ticker)

    def drop(self, node: str) -> None:
        """Count a record that the node drops by rule (null key, too late…), as Kafka Streams does."""
        self.dropped[node] = self.dropped.get(node, 0) + 1

    def failed(self, node: str, error: Exception) -> None:
        """Handle a failure of ``node`` on the current record: skip the record or raise RecordFailed.

        The error policy decides. A dead letter has the input record's own key, value, timestamp and headers,
        as read.
        """
        if isinstance(error, RecordFailed | TopologyError):
            raise error  # from a node below, called by user code; or no record is the cause
        letters = self._errors.letters(self._failure(node, error))
        if letters is None:
            raise RecordFailed(node, self.origin, error) from error
        self.outputs += letters

    def report(self, node: str, error: Exception) -> None:
        """Report an error with the current record, whose processing continues."""
        self.outputs += self._errors.reports(self._failure(node, error))

    def _failure(self, node: str, error: Exception) -> Failure:
        if self._failures_at_ms != self.wall_clock_ms:
            self._failures_at_ms, self._failures = self.wall_clock_ms, 0
        self._failures += 1
        return Failure(node, self.record, error, self._failures - 1, self.wall_clock_ms)


class _Running(threading.local):
    context: Context | None = None


_running: Final = _Running()


def running() -> Context | None:
    """Return the context of the task that this thread runs, for functions that receive only values."""
    return _running.context


def enter(context: Context) -> None:
    """Set the task of ``context`` as the one that this thread runs."""
    _running.context = context
