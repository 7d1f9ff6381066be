"""Metrics of a session's queries: counters that add up from batch to batch, and the state of the last batch.

Independent of Spark: any thread may report starts, batches and ends, and Prometheus reads in another. Series
have the query's name, or its id if it has none. A query that ended stays, as inactive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from penstock.client.connections.metadata import TopicPartition
from penstock.spark.progress import Progress

BUCKETS_S: Final = (0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The upper bounds of the histogram of batch durations, in seconds."""


@dataclass(slots=True)
class _Query:
    """The series of one query. Counters begin with the process, as Prometheus expects."""

    query_id: str
    run_id: str
    is_active: bool = True
    starts: int = 0
    failures: int = 0
    batches: int = 0
    records: int = 0
    late_rows: int = 0
    batch_s: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    phases_s: dict[str, float] = field(default_factory=dict)
    last: Progress | None = None
    last_at_s: float = 0.0
    records_per_second: float = 0.0
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)


class QueryMetrics(Collector):
    """The metrics of a session; ``clock`` gives seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Condition()
        self._queries: dict[str, _Query] = {}
        self._dead_letters: dict[str, Callable[[], int]] = {}
        self._dropped: list[Callable[[], Mapping[str, Mapping[str, int]]]] = []

    def count_dead_letters(self, query: str, total: Callable[[], int]) -> None:
        """Call ``total``, which must not raise, at each scrape for the dead letters of the named query."""
        with self._lock:
            self._dead_letters[query] = total

    def count_dropped(self, totals: Callable[[], Mapping[str, Mapping[str, int]]]) -> None:
        """Call ``totals``, which must not raise, at each scrape for the dropped records by query and node."""
        with self._lock:
            self._dropped.append(totals)

    def started(self, query_id: str, run_id: str, name: str | None) -> None:
        with self._lock:
            query = self._of(query_id, run_id, name)
            query.starts += 1
            query.is_active = True

    def progressed(self, progress: Progress) -> None:
        with self._lock:
            query = self._of(progress.query_id, progress.run_id, progress.name)
            seconds = progress.batch_ms / 1000
            query.batches += 1
            query.records += progress.records
            query.late_rows += progress.late_rows
            query.batch_s += seconds
            query.buckets[next((n for n, most in enumerate(BUCKETS_S) if seconds <= most), -1)] += 1
            for phase, ms in progress.phases_ms.items():
                query.phases_s[phase] = query.phases_s.get(phase, 0.0) + ms / 1000
            query.last, query.last_at_s = progress, self._clock()
            query.records_per_second = progress.records_per_second
            query.lag = progress.lag.partitions

    def idled(self, query_id: str) -> None:
        """Set the rate to zero: while a query is idle, no batch reports it."""
        with self._lock:
            for query in self._queries.values():
                if query.query_id == query_id:
                    query.records_per_second = 0.0

    def ended(self, query_id: str, run_id: str, error: str | None) -> None:
        with self._lock:
            for query in self._queries.values():
                if (query.query_id, query.run_id) == (query_id, run_id):
                    query.is_active = False
                    query.records_per_second = 0.0
                    query.failures += error is not None
            self._lock.notify_all()

    def wait_for_end(self, run_id: str, timeout_s: float) -> bool:
        """Wait until this run has ended and all its batches are reported; returns False at the timeout."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._is_active(run_id), timeout_s)

    def _is_active(self, run_id: str) -> bool:
        return any(query.run_id == run_id and query.is_active for query in self._queries.values())

    def _of(self, query_id: str, run_id: str, name: str | None) -> _Query:
        query = self._queries.setdefault(name or query_id, _Query(query_id, run_id))
        query.query_id, query.run_id = query_id, run_id
        return query

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            dead_letters, dropped = dict(self._dead_letters), list(self._dropped)
            families = [
                *_states(self._queries),
                *_batches(self._queries),
                *_last_batch(self._queries),
            ]
        # These functions may access the checkpoint's file system, so call them outside the lock.
        letters = CounterMetricFamily(
            "penstock_query_dead_letters",
            "Records sent to the dead-letter topic, since the checkpoint was made.",
            labels=["query"],
        )
        for name, total in dead_letters.items():
            letters.add_metric([name], total())
        drops = CounterMetricFamily(
            "penstock_query_dropped_records",
            "Records that a node dropped, too late or without a key or value, since the checkpoint was made.",
            labels=["query", "node"],
        )
        for totals in dropped:
            for name, by_node in totals().items():
                for node, count in by_node.items():
                    drops.add_metric([name, node], count)
        return [*families, letters, drops]


def _states(queries: Mapping[str, _Query]) -> Iterator[Metric]:
    active = GaugeMetricFamily("penstock_query_active", "1 while the query runs.", labels=["query"])
    info = GaugeMetricFamily(
        "penstock_query_info",
        "Always 1; the labels hold the id in the checkpoint and that of the run.",
        labels=["query", "id", "run"],
    )
    restarts = CounterMetricFamily(
        "penstock_query_restarts", "Starts in this process except the first.", labels=["query"]
    )
    failures = CounterMetricFamily(
        "penstock_query_failures", "Runs that ended with an error.", labels=["query"]
    )
    for name, query in queries.items():
        active.add_metric([name], float(query.is_active))
        info.add_metric([name, query.query_id, query.run_id], 1)
        restarts.add_metric([name], max(0, query.starts - 1))
        failures.add_metric([name], query.failures)
    yield from (active, info, restarts, failures)


def _batches(queries: Mapping[str, _Query]) -> Iterator[Metric]:
    records = CounterMetricFamily("penstock_query_records", "Records read.", labels=["query"])
    late = CounterMetricFamily(
        "penstock_query_late_rows", "Rows dropped behind the watermark.", labels=["query"]
    )
    seconds = HistogramMetricFamily(
        "penstock_query_batch_seconds", "Duration of the batches.", labels=["query"]
    )
    phases = CounterMetricFamily(
        "penstock_query_phase_seconds",
        "Duration of the batches by phase, under Spark's names.",
        labels=["query", "phase"],
    )
    bounds = [*map(str, BUCKETS_S), "+Inf"]
    for name, query in queries.items():
        records.add_metric([name], query.records)
        late.add_metric([name], query.late_rows)
        counts = accumulate(query.buckets)
        seconds.add_metric([name], list(zip(bounds, counts, strict=True)), query.batch_s)
        for phase, total_s in query.phases_s.items():
            phases.add_metric([name, phase], total_s)
    yield from (records, late, seconds, phases)


def _last_batch(queries: Mapping[str, _Query]) -> Iterator[Metric]:
    rate = GaugeMetricFamily(
        "penstock_query_records_per_second",
        "Records per second of the last batch; 0 while the query is idle.",
        labels=["query"],
    )
    at = GaugeMetricFamily(
        "penstock_query_last_batch_timestamp_seconds",
        "Time at which the last batch ended, in seconds since 1970.",
        labels=["query"],
    )
    batch = GaugeMetricFamily("penstock_query_last_batch", "Number of the last batch.", labels=["query"])
    lag = GaugeMetricFamily(
        "penstock_query_lag",
        "Offsets from the end of the last batch to the end of the partition when it was planned.",
        labels=["query", "topic", "partition"],
    )
    rows = GaugeMetricFamily("penstock_query_state_rows", "Rows in Spark's state store.", labels=["query"])
    size = GaugeMetricFamily(
        "penstock_query_state_bytes",
        "Size of Spark's state store in memory and on disk.",
        labels=["query"],
    )
    for name, query in queries.items():
        for tp, behind in query.lag.items():
            lag.add_metric([name, tp.topic, str(tp.partition)], behind)
        rate.add_metric([name], query.records_per_second)
        if query.last is not None:
            at.add_metric([name], query.last_at_s)
            batch.add_metric([name], query.last.batch_id)
            rows.add_metric([name], query.last.state_rows)
            size.add_metric([name], query.last.state_bytes)
    yield from (rate, at, batch, lag, rows, size)
