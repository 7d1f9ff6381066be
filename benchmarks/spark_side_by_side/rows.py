"""The rows of the comparison, in the order of the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from side_by_side.figures import OURS, THEIRS
from side_by_side.session import Measurement
from spark_side_by_side.backlog import BacklogMemory
from spark_side_by_side.cold_start import ColdStart
from spark_side_by_side.data import Data
from spark_side_by_side.latency import EndToEnd
from spark_side_by_side.orders import Orders
from spark_side_by_side.session import Session
from spark_side_by_side.workloads import EXACTLY_ONCE, ExactlyOnceCost, SchemaCost, Throughput

THROUGHPUT = "Throughput"
COST = "What exactly once costs"
SCHEMAS = "What a schema costs"
LATENCY = "Latency at a fixed rate"
COLD_START = "Cold start"
MEMORY = "Memory"

FEW_KEYS, MANY_KEYS = 20_000, 1_000_000
EVENTS = Data(FEW_KEYS, 6_000_000)
SHORT = Data(FEW_KEYS, 3_000_000)
WIDE = Data(MANY_KEYS, 3_000_000)
TABLE = Data(FEW_KEYS, FEW_KEYS, each_key_once=True)


class Measurable(Protocol):
    def run(self, session: Session) -> Measurement: ...


class Row(NamedTuple):
    """One line of the report.

    `sides`: the sides that have it. `needs_session`: it runs in the session of its side; other rows start
    their own processes. `rounds` limits the rounds of a row that takes long and varies little.
    """

    section: str
    name: str
    work: Measurable
    sides: tuple[str, ...] = (OURS, THEIRS)
    needs_session: bool = True
    rounds: int | None = None


def all_rows() -> list[Row]:
    return [*_throughput(), *_cost(), *_schemas(), *_latency(), *_cold_start(), *_memory()]


def _throughput() -> Iterator[Row]:
    yield Row(THROUGHPUT, "source → noop", Throughput("read", EVENTS))
    yield Row(THROUGHPUT, "source → sink", Throughput("copy", EVENTS, has_target=True))
    yield Row(THROUGHPUT, "filter and project", Throughput("filter and project", EVENTS))
    yield Row(THROUGHPUT, "windowed count, 20 k keys", Throughput("windowed count", EVENTS))
    yield Row(THROUGHPUT, "stream-table join", Throughput("table join", EVENTS, table=TABLE))
    exactly = Throughput("copy", EVENTS, has_target=True, delivery=EXACTLY_ONCE)
    yield Row(THROUGHPUT, "source → sink, exactly once", exactly, (OURS,))
    for label, data in (("20 k", SHORT), ("1 M", WIDE)):
        app = Throughput("streams", data, rows_per_batch=500_000, has_target=True)
        yield Row(THROUGHPUT, f"streams application: count by key, {label} keys", app, (OURS,))


def _cost() -> Iterator[Row]:
    large = ExactlyOnceCost("copy", SHORT, 200_000, leave_out=4, has_target=True)
    yield Row(COST, "batches of 200,000 rows", large)
    few = Data(FEW_KEYS, 500)
    small = ExactlyOnceCost("copy", few, 10, leave_out=10, has_target=True, low_latency=True)
    yield Row(COST, "batches of 10 rows", small)


def _schemas() -> Iterator[Row]:
    for format, name in (("avro", "Avro"), ("protobuf", "Protobuf"), ("json-schema", "JSON Schema")):
        data = Orders(format, 3_000_000)
        yield Row(SCHEMAS, f"{name}: source → noop", SchemaCost("read", data), (OURS,))
    for format, name in (("avro", "Avro"), ("protobuf", "Protobuf")):
        data = Orders(format, 3_000_000)
        work = SchemaCost("value", data, has_target=True)
        yield Row(SCHEMAS, f"{name}: source → sink", work, (OURS,))


def _latency() -> Iterator[Row]:
    yield Row(LATENCY, "source → sink, 1,000 records/s", EndToEnd())
    yield Row(LATENCY, "exactly once, 1,000 records/s", EndToEnd(delivery=EXACTLY_ONCE), (OURS,))


def _cold_start() -> Iterator[Row]:
    for name, work in (
        ("as Spark starts", ColdStart("steady")),
        ("C1 alone (`quick`)", ColdStart("quick")),
        ("C1 and an archive of classes", ColdStart("quick", shares_classes=True)),
    ):
        yield Row(COLD_START, name, work, needs_session=False, rounds=2)


def _memory() -> Iterator[Row]:
    row = "a backlog read in one batch"
    yield Row(MEMORY, row, BacklogMemory(), (OURS,), needs_session=False, rounds=1)
