"""The rows of the benchmark: what each one sends, and what is measured."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from penstock.bench.loadgen import Loadgen, LoadgenResult
from penstock.bench.process import process_cost

PRODUCE_SETTINGS = ("linger.ms=5", "acks=1", "queue.buffering.max.messages=500000")
ONE_RECORD_SETTINGS = ("linger.ms=0", "acks=1", "batch.num.messages=1", "queue.buffering.max.messages=500000")
LATENCY_RATE_PER_S = 1_000


@dataclass(frozen=True)
class Row:
    """One measured line; a field is None if it does not apply or the broker's process is not known."""

    name: str
    records: int
    seconds: float
    records_per_s: float
    mb_per_s: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    broker_busy: float | None = None
    broker_cpu_s_per_gb: float | None = None
    broker_resident_mb: float | None = None

    def as_json(self) -> dict[str, str | int | float | bool | None]:
        """The row for scripts, rounded to four decimals."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()}


class Bench:
    """Runs rows against one broker.

    Args:
        bootstrap: the broker's address; `auto.create.topics.enable` must be on, since topics are created on
            demand.
        broker_pid: the broker's process, to measure busy time, processor seconds and memory; None if it runs
            elsewhere.
        scale: multiplies the number of records of every row.
    """

    def __init__(self, loadgen: Loadgen, bootstrap: str, broker_pid: int | None, scale: float = 1.0) -> None:
        self._loadgen = loadgen
        self._bootstrap = bootstrap
        self._broker_pid = broker_pid
        self._scale = scale
        self._run_id = f"{time.time_ns():x}"

    def rows(self) -> dict[str, Callable[[], Row]]:
        """Name → measurement, in order: a consume row reads what the row before it produced."""
        return {
            "produce 100 B": lambda: self._produce("produce 100 B", 100, 8_000_000),
            "consume 100 B": lambda: self._consume("consume 100 B", 100, 8_000_000),
            "produce 1 KiB": lambda: self._produce("produce 1 KiB", 1024, 1_500_000),
            "consume 1 KiB": lambda: self._consume("consume 1 KiB", 1024, 1_500_000),
            "one-record requests": self._one_record_requests,
            "latency at 1,000/s": self._latency,
        }

    def _records(self, count: int) -> int:
        return max(int(count * self._scale), 1000)

    def _topic(self, size_bytes: int) -> str:
        return f"penstock-bench-{size_bytes}-{self._run_id}"

    def _produce(self, name: str, size_bytes: int, count: int) -> Row:
        arguments = (self._topic(size_bytes), size_bytes, self._records(count), *PRODUCE_SETTINGS)
        return self._measure(name, size_bytes, "produce", *arguments)

    def _consume(self, name: str, size_bytes: int, count: int) -> Row:
        return self._measure(name, size_bytes, "consume", self._topic(size_bytes), self._records(count))

    def _one_record_requests(self) -> Row:
        arguments = (f"penstock-bench-one-{self._run_id}", 100, self._records(200_000), *ONE_RECORD_SETTINGS)
        return self._measure("one-record requests", 100, "produce", *arguments)

    def _latency(self) -> Row:
        arguments = (f"penstock-bench-latency-{self._run_id}", 100, self._records(10_000), LATENCY_RATE_PER_S)
        return self._measure("latency at 1,000/s", 100, "latency", *arguments)

    def _measure(self, name: str, size_bytes: int, mode: str, *arguments: object) -> Row:
        before = process_cost(self._broker_pid) if self._broker_pid else None
        started = time.monotonic()
        result = self._loadgen.run(mode, self._bootstrap, *arguments)
        elapsed_s = time.monotonic() - started
        row = _row(name, size_bytes, result)
        if before is None or self._broker_pid is None:
            return row
        after = process_cost(self._broker_pid)
        cpu_s = after.cpu_seconds - before.cpu_seconds
        return replace(
            row,
            broker_busy=cpu_s / elapsed_s,  # over the whole run, including the connection setup
            broker_cpu_s_per_gb=cpu_s / (result["records"] * size_bytes / 1e9),
            broker_resident_mb=after.resident_bytes / 1e6,
        )


def _row(name: str, size_bytes: int, result: LoadgenResult) -> Row:
    records_per_s = result["records"] / result["seconds"]
    return Row(
        name=name,
        records=result["records"],
        seconds=result["seconds"],
        records_per_s=records_per_s,
        mb_per_s=records_per_s * size_bytes / 1e6,
        p50_ms=result.get("p50_ms"),
        p99_ms=result.get("p99_ms"),
        p999_ms=result.get("p999_ms"),
    )
