"""The work of rows in a running session: queries over existing records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from side_by_side.session import Measurement
from spark_side_by_side.data import RECORD_BYTES, Data
from spark_side_by_side.orders import Orders, options
from spark_side_by_side.queries import Query
from spark_side_by_side.session import Session
from spark_side_by_side.sides import LOW_LATENCY, PENSTOCK
from spark_side_by_side.spark_process import Steady

BATCHES_MIN = 5
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"

# Names of facts, which complement a measurement's own fields.
CPU_S = "spark_cpu_s"
BATCH_MS = "batch_ms"
BESIDE_MS = "batch_at_least_once_ms"
PLAIN_US = "cpu_us_a_row_as_bytes"


@dataclass(frozen=True)
class Throughput:
    """A query that reads a topic to its end as fast as it can, in batches of one size. The second run counts.

    Args:
        rows_per_batch: the most rows; there are at least five batches.
        leave_out: the number of first batches that don't count.
    """

    kind: str
    data: Data | Orders
    rows_per_batch: int = 1_000_000
    leave_out: int = 2
    has_target: bool = False
    table: Data | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    delivery: str | None = None
    low_latency: bool = False

    def run(self, session: Session) -> Measurement:
        """Measure the query, including the node's processor time. Raises RunFailed."""
        node_before_s = session.node_cpu_s()
        found = self.steady(session, self.delivery)
        return _measurement(found, session.node_cpu_s() - node_before_s)

    def steady(self, session: Session, delivery: str | None = None) -> Steady:
        """Run the query twice, and return the second run's figures. Raises RunFailed."""
        topics = session.topics
        data = topics.scaled(self.data)
        query = Query(
            self.kind,
            topics.filled(data),
            table=None if self.table is None else topics.filled(topics.scaled(self.table)),
            rows_per_batch=min(self.rows_per_batch, max(1, data.records // BATCHES_MIN)),
            delivery=delivery,
            settings=LOW_LATENCY if self.low_latency else {},
            formats=self.formats,
        )
        self._once(session, query)  # lets Java compile what this query needs
        return self._once(session, query)

    def _once(self, session: Session, query: Query) -> Steady:
        if not self.has_target:
            return session.running.run(query, self.leave_out)
        with session.topics.target() as target:
            return session.running.run(replace(query, target=target), self.leave_out)


@dataclass(frozen=True)
class ExactlyOnceCost(Throughput):
    """The extra time of a batch from source to sink exactly once, relative to at least once just before.

    Spark's connector writes at least once only, and is measured with that.
    """

    def run(self, session: Session) -> Measurement:
        if session.side is not PENSTOCK:
            found = self.steady(session, None)
            return _measurement(found, None, {BESIDE_MS: found.batch_ms})
        least = self.steady(session, AT_LEAST_ONCE)
        exactly = self.steady(session, EXACTLY_ONCE)
        return _measurement(exactly, None, {BESIDE_MS: least.batch_ms})


@dataclass(frozen=True)
class SchemaCost:
    """A query over orders in a format: first with their bytes, then with columns by their schema."""

    kind: str
    data: Orders
    rows_per_batch: int = 500_000
    has_target: bool = False

    def run(self, session: Session) -> Measurement:
        """Measure the query without and with the schema. Raises RunFailed."""
        work = Throughput(self.kind, self.data, self.rows_per_batch, has_target=self.has_target)
        plain = work.steady(session)
        decoded = replace(work, formats=options(self.data.format)).steady(session)
        return _measurement(decoded, None, {PLAIN_US: plain.cpu_s / plain.rows * 1e6})


def _measurement(
    found: Steady, node_cpu_s: float | None, facts: dict[str, float] | None = None
) -> Measurement:
    return Measurement(
        seconds=found.seconds,
        records=found.rows,
        mb=found.rows * RECORD_BYTES / 1e6,
        broker_cpu_s=node_cpu_s,
        resident_mb=found.peak_bytes / 1e6,
        facts={CPU_S: found.cpu_s, BATCH_MS: found.batch_ms, **(facts or {})},
    )
