"""ksqlDB's statistics of a topic: what queries read and write, since this server first saw each query."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Final, NamedTuple

from penstock.sql.engine.running.host import QueryActivity

_WINDOW_MS: Final = 30_000


class _Kind(Enum):
    READ = "read"
    WRITTEN = "written"


class Moved(NamedTuple):
    """One kind of records that a query moves: those read from a topic, or those written to it."""

    query_id: str
    is_written: bool
    topic: str


class _Count:
    """A counter that only grows."""

    def __init__(self, first: int) -> None:
        self._value = first
        self.total = 0
        self.last_ms = 0
        self._samples: deque[tuple[int, int]] = deque()

    def add(self, value: int, now_ms: int) -> None:
        grown = max(0, value - self._value)  # a failed query reads some records twice; count them once
        self._value += grown
        self.total += grown
        if grown:
            self.last_ms = now_ms
        self._samples.append((now_ms, self.total))
        while self._samples[0][0] < now_ms - _WINDOW_MS:
            self._samples.popleft()

    @property
    def per_second(self) -> float:
        (first_ms, first), (last_ms, last) = self._samples[0], self._samples[-1]
        return 1000 * (last - first) / (last_ms - first_ms) if last_ms > first_ms else 0.0


class Meter:
    """The counters of all queries, for one thread at a time.

    ``log_topic`` is the processing log, where each message reports a record that could not be read.
    """

    def __init__(self, log_topic: str | None) -> None:
        self._log_topic = log_topic
        self._counts: dict[str, dict[tuple[_Kind, str], _Count]] = {}

    def sample(self, activity: Mapping[str, QueryActivity], now_ms: int) -> None:
        """Update the counters. ``activity`` has all queries, so that those of others are removed."""
        for query_id in self._counts.keys() - activity.keys():
            del self._counts[query_id]
        for query_id, each in activity.items():
            is_new = query_id not in self._counts
            counts = self._counts.setdefault(query_id, {})
            for kind, figures in ((_Kind.READ, each.read), (_Kind.WRITTEN, each.written)):
                for topic, value in figures.items():
                    known = counts.setdefault((kind, topic), _Count(value if is_new else 0))
                    known.add(value, now_ms)

    def totals(self) -> dict[Moved, int]:
        """The records that each query has read from topics and written to them."""
        return {
            Moved(query_id, kind is _Kind.WRITTEN, topic): count.total
            for query_id, counts in self._counts.items()
            for (kind, topic), count in counts.items()
        }

    def statistics(self, topic: str) -> str:
        """The line of statistics about the records that queries read from a topic and write to it."""
        read, written = self._of(_Kind.READ, topic), self._of(_Kind.WRITTEN, topic)
        shown = [
            *_shown(read, "consumer-messages-per-sec", "consumer-total-messages"),
            *_shown(written, "messages-per-sec", "total-messages"),
        ]
        return _line(shown, "last-message", [*read, *written])

    def failures(self, topic: str) -> str:
        """The line of statistics about the records of a topic that queries failed to read."""
        log_topic = self._log_topic
        if log_topic is None:
            return ""
        failed = [
            counts[_Kind.WRITTEN, log_topic]
            for counts in self._counts.values()
            if (_Kind.READ, topic) in counts and (_Kind.WRITTEN, log_topic) in counts
        ]
        shown = _shown(failed, "consumer-failed-messages-per-sec", "consumer-failed-messages")
        return _line(shown, "last-failed", failed)

    def _of(self, kind: _Kind, topic: str) -> list[_Count]:
        return [counts[kind, topic] for counts in self._counts.values() if (kind, topic) in counts]


def _shown(counts: Sequence[_Count], per_second: str, total: str) -> list[str]:
    """Format counters in columns, as ksqlDB does."""
    if not counts:
        return []
    figures = (
        (per_second, sum(each.per_second for each in counts)),
        (total, sum(each.total for each in counts)),
    )
    return [f"{name:>16}:{value:>10.{0 if value == round(value) else 2}f}" for name, value in figures]


def _line(shown: Sequence[str], last: str, counts: Sequence[_Count]) -> str:
    if not shown:
        return ""
    last_ms = max(each.last_ms for each in counts)
    return " ".join([*shown, f"{last:>16}: {_time(last_ms):>9}"])


def _time(at_ms: int) -> str:
    if not at_ms:
        return "n/a"
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
