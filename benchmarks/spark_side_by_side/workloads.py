"""What rows do in a session that runs: queries over what is there."""

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

# Facts beside a measurement's own fields.
CPU_S = "spark_cpu_s"
BATCH_MS = "batch_ms"
BESIDE_MS = "batch_at_least_once_ms"
PLAIN_US = "cpu_us_a_row_as_bytes"


@dataclass(frozen=True)
class Throughput:
    """A query reads a topic to its end as fast as it can, in batches of one size. The second time counts.

    Args:
        rows_per_batch: at most; there are at least five batches.
        leave_out: batches at the beginning that don't count.
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
        """Raises RunFailed."""
        node_before_s = session.node_cpu_s()
        found = self.steady(session, self.delivery)
        return _measurement(found, session.node_cpu_s() - node_before_s)

    def steady(self, session: Session, delivery: str | None = None) -> Steady:
        """Raises RunFailed."""
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
        self._once(session, query)  # Java compiles what this query needs
        return self._once(session, query)

    def _once(self, session: Session, query: Query) -> Steady:
        if not self.has_target:
            return session.running.run(query, self.leave_out)
        with session.topics.target() as target:
            return session.running.run(replace(query, target=target), self.leave_out)


@dataclass(frozen=True)
class ExactlyOnceCost(Throughput):
    """Source to sink exactly once, and at least once just before: what a batch takes more.

    Spark's connector writes at least once only; that is what it is measured with.
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
    """A query over orders in a format: with columns by their schema, and just before with their bytes."""

    kind: str
    data: Orders
    rows_per_batch: int = 500_000
    has_target: bool = False

    def run(self, session: Session) -> Measurement:
        """Raises RunFailed."""
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
