"""Write this part of `docs/benchmarks.md` from the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from side_by_side.figures import OURS, Figure, RowRuns, records_per_s
from side_by_side.report import cell, count, machine_table, milliseconds, seconds, times
from side_by_side.results import Results
from side_by_side.session import Measurement
from spark_side_by_side.backlog import PEAK_LARGE_MB, PEAK_SMALL_MB
from spark_side_by_side.rows import COLD_START, COST, LATENCY, MEMORY, SCHEMAS, THROUGHPUT, all_rows
from spark_side_by_side.sides import LOW_LATENCY, PRODUCER_OPTIONS, SIDES
from spark_side_by_side.workloads import BATCH_MS, BESIDE_MS, CPU_S, PLAIN_US

LABELS = {side.name: side.label for side in SIDES}
NOTHING = ""

HEAD = """# Penstock in Spark, beside Spark's own Kafka connector

This part runs the same queries through `format("penstock")` and `format("kafka")`, on one Penstock node in
the same run. `make bench-spark` measures and writes this part. It needs Linux, a C compiler, Java, and
Maven Central or the connector's jars fetched before. `make bench-spark BENCH=--quick` takes some minutes
and only shows its figures.

## How it is measured

- **Interleaved rounds.** In each round, a new Spark process (`local[*]`) is started for either side, warmed
  up, and run through the rows. The side that goes first alternates. Figures are medians over the rounds,
  followed by the range if it is wider than 5 %. Ratios are medians of the rounds' own ratios, and are above
  1 where Penstock is better.
- **The same query.** The sides differ only in the format's name. Both sinks are configured with {producer}.
  Records have a key of 8 bytes and a value of 92 bytes, and topics have two partitions. All records are in
  the topics before a query starts. The query reads them from the beginning, in batches of a million rows
  (streams applications: 500,000), and stops at the end.
- **Rows/s**: a query runs twice, and the second run counts. It is measured from the third batch until the
  last one ends, including planning and checkpoints between batches.
- **Rows per CPU second**: the processor time of Spark in that period, with all its descendants: Java, the
  Python process that drives it, and the Python workers. The node's time does not count. The node and the
  harness share the machine's cores with Spark.
- **What a schema costs**: orders of six fields are read as columns by their schema, and just before that as
  bytes. The sink writes them in the same format, or as the original bytes. µs are processor time.
- **Latency** is the time from when a record was due to be sent until a consumer that reads committed
  records has the resulting record. There is one partition, and the settings are {low_latency}.
- **Cold start** is the time from the start of the application's process until a consumer has the first
  result.
- **Memory** is the highest total resident memory of all Spark processes together; pages that they share
  count for each process.
"""


def render(results: Results) -> str:
    """Return this part of the page, without rows that were never measured."""
    parts = [
        HEAD.format(producer=_told(PRODUCER_OPTIONS.items()), low_latency=_told(LOW_LATENCY.items())),
        machine_table(results),
    ]
    sections: dict[str, list[RowRuns]] = {}
    for row in all_rows():
        runs = RowRuns(row.name, results.runs)
        if any(runs.of(side.name) or runs.error(side.name) for side in SIDES):
            sections.setdefault(row.section, []).append(runs)
    parts += [_table(title, SECTIONS[title], rows) for title, rows in sections.items()]
    return "\n".join(parts)


class Column(NamedTuple):
    """A figure of each side. `ahead` is the title of a further column for Penstock's advantage, if any."""

    title: str
    figure: Figure
    form: Callable[[float], str]
    ahead: str | None = None
    less_is_better: bool = False


def rows_per_cpu_s(measurement: Measurement) -> float | None:
    cpu_s = measurement.facts.get(CPU_S)
    return measurement.records / cpu_s if measurement.records and cpu_s else None


def cpu_share(measurement: Measurement) -> float | None:
    """The number of processors that Spark kept busy on average."""
    cpu_s = measurement.facts.get(CPU_S)
    return None if cpu_s is None else cpu_s / measurement.seconds


def cost(measurement: Measurement) -> float | None:
    """The extra time of a batch relative to at least once, or None if nothing was written exactly once."""
    least, exactly = measurement.facts[BESIDE_MS], measurement.facts[BATCH_MS]
    return None if least == exactly else exactly / least - 1


def added_ms(measurement: Measurement) -> float | None:
    least, exactly = measurement.facts[BESIDE_MS], measurement.facts[BATCH_MS]
    return None if least == exactly else exactly - least


def exactly_once_ms(measurement: Measurement) -> float | None:
    return None if cost(measurement) is None else measurement.facts[BATCH_MS]


def decoded_us(measurement: Measurement) -> float | None:
    """The processor time of a row, in µs."""
    rate = rows_per_cpu_s(measurement)
    return None if rate is None else 1e6 / rate


def times_as_long(measurement: Measurement) -> float | None:
    decoded = decoded_us(measurement)
    return None if decoded is None else decoded / measurement.facts[PLAIN_US]


def _fact(name: str) -> Figure:
    return lambda measurement: measurement.facts.get(name)


def _growth(measurement: Measurement) -> float | None:
    return measurement.facts[PEAK_LARGE_MB] / measurement.facts[PEAK_SMALL_MB]


PERCENT = "{:.0%}".format
SIGNED_PERCENT = "{:+.1%}".format
SIGNED_MS = "{:+.1f}".format
MICROSECONDS = "{:.2f}".format
CPU_SECONDS = Column("CPU s", _fact(CPU_S), seconds)

SECTIONS: Mapping[str, tuple[Column, ...]] = {
    THROUGHPUT: (
        Column("rows/s", records_per_s, count, "× rows/s"),
        Column("rows per CPU s", rows_per_cpu_s, count, "× rows per CPU s"),
        Column("processors busy", cpu_share, "{:.2f}".format),
        Column("ms a batch", _fact(BATCH_MS), count),
    ),
    COST: (
        Column("at least once, ms a batch", _fact(BESIDE_MS), milliseconds),
        Column("exactly once, ms a batch", exactly_once_ms, milliseconds),
        Column("added", cost, SIGNED_PERCENT),
        Column("added ms", added_ms, SIGNED_MS),
    ),
    SCHEMAS: (
        Column("as bytes, µs a row", _fact(PLAIN_US), MICROSECONDS),
        Column("by the schema, µs a row", decoded_us, MICROSECONDS),
        Column("×", times_as_long, times),
        Column("rows/s", records_per_s, count),
    ),
    LATENCY: (
        Column("p50 ms", lambda m: m.p50_ms, milliseconds, "× less p50", less_is_better=True),
        Column("p99 ms", lambda m: m.p99_ms, milliseconds, "× less p99", less_is_better=True),
        Column("processors busy", cpu_share, "{:.2f}".format),
    ),
    COLD_START: (
        Column("first result after s", lambda m: m.seconds, seconds, "× sooner", less_is_better=True),
        CPU_SECONDS,
        Column("memory MB", lambda m: m.resident_mb, count),
    ),
    MEMORY: (
        Column("2 GB behind, MB", _fact(PEAK_SMALL_MB), count),
        Column("20 GB behind, MB", _fact(PEAK_LARGE_MB), count),
        Column("×", _growth, times),
        Column("rows/s", records_per_s, count),
    ),
}


def _table(title: str, columns: tuple[Column, ...], rows: list[RowRuns]) -> str:
    ratios = [column for column in columns if column.ahead is not None]
    titles = [
        "row",
        "side",
        *(column.title for column in columns),
        *(column.ahead or "" for column in ratios),
    ]
    aligned = "| --- | --- |" + " ---: |" * (len(titles) - 2)
    lines = [f"## {title}", "", f"| {' | '.join(titles)} |", aligned]
    for runs in rows:
        better = [
            cell(runs.ahead(column.figure, less_is_better=column.less_is_better), times) for column in ratios
        ]
        for side in SIDES:
            lines += _line(runs, side.name, columns, better)
    return "\n".join([*lines, ""])


def _line(runs: RowRuns, side: str, columns: tuple[Column, ...], better: list[str]) -> list[str]:
    """The lines of one side; none for a row that the side does not have."""
    name, ratios = (runs.name, better) if side == OURS else (NOTHING, [NOTHING] * len(better))
    if runs.of(side):
        figures = [cell(runs.spread(side, column.figure), column.form) for column in columns]
        return [f"| {name} | {LABELS[side]} | {' | '.join([*figures, *ratios])} |"]
    if (error := runs.error(side)) is not None:
        reason = error.splitlines()[0][:120].replace("|", "/")
        return [f"| {name} | {LABELS[side]} | {reason} |" + " |" * (len(columns) + len(ratios) - 1)]
    return []


def _told(options: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in options)
