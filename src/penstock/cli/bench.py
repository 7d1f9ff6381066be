"""`penstock bench`: throughput, latency and cost of a broker."""

import os
import platform
from typing import Annotated

import typer

from penstock.bench.c_program import BuildError
from penstock.bench.loadgen import Loadgen, LoadgenError
from penstock.bench.rows import Bench, Row
from penstock.bench.start import first_acknowledgement_s
from penstock.cli.connection import EXIT_USAGE, JsonOutput, fail, require_broker
from penstock.cli.output import console, print_json, print_table
from penstock.testing import Cluster

PARTITIONS = 4


def bench(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap", "-b", metavar="HOST:PORT", help="Measure this broker instead of starting a node."
        ),
    ] = None,
    broker_pid: Annotated[
        int | None,
        typer.Option(
            "--broker-pid",
            metavar="PID",
            help="The broker's process on this machine, to measure its CPU time and memory.",
        ),
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="TEXT", help="Only measure rows whose name contains this; repeatable."),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(
            "--scale", metavar="FACTOR", min=0.001, help="Multiply the number of records of each row by this."
        ),
    ] = 1.0,
    json_output: JsonOutput = False,
) -> None:
    """Measure a broker with a C client: throughput, latency, processor time, memory, time to start."""
    try:
        loadgen = Loadgen()
        if bootstrap is not None:
            require_broker(bootstrap, {})
            start_s = None
            measured = _run(Bench(loadgen, bootstrap, broker_pid, scale), row or [], json_output)
        else:
            start_s = first_acknowledgement_s(loadgen)
            with Cluster({"num.partitions": str(PARTITIONS)}, fork=False) as cluster:
                bench_of_node = Bench(loadgen, cluster.bootstrap_servers, cluster.pid, scale)
                measured = _run(bench_of_node, row or [], json_output)
    except (BuildError, LoadgenError) as error:
        fail(str(error))
    _report(measured, start_s, json_output)


def _run(bench: Bench, wanted: list[str], quiet: bool) -> list[Row]:
    measured = []
    for name, measure in bench.rows().items():
        if wanted and not any(text in name for text in wanted):
            continue
        if not quiet:
            console().print(f"[dim]measuring {name} …[/]")
        measured.append(measure())
    if not measured:
        fail(f"no row has {' or '.join(wanted)} in its name: {', '.join(bench.rows())}", EXIT_USAGE)
    return measured


def _report(rows: list[Row], start_s: float | None, json_output: bool) -> None:
    if json_output:
        print_json(
            {
                "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
                "start_to_first_ack_s": None if start_s is None else round(start_s, 4),
                "rows": [row.as_json() for row in rows],
            }
        )
        return
    columns = [
        "ROW",
        "RECORDS/S",
        "MB/S",
        "P50 MS",
        "P99",
        "P99.9",
        "BUSY",
        "CPU S/GB",
        "MEM MB",
    ]
    print_table(columns, [_cells(row) for row in rows])
    if start_s is not None:
        console().print(f"start to first acknowledgement: {start_s:.3f} s")


def _cells(row: Row) -> list[str | None]:
    def shown(value: float | None, form: str) -> str | None:
        return None if value is None else format(value, form)

    return [
        row.name,
        f"{row.records_per_s:,.0f}",
        f"{row.mb_per_s:,.1f}",
        *(shown(value, ".3f") for value in (row.p50_ms, row.p99_ms, row.p999_ms)),
        shown(row.broker_busy, ".0%"),
        shown(row.broker_cpu_s_per_gb, ".2f"),
        shown(row.broker_resident_mb, ".0f"),
    ]
