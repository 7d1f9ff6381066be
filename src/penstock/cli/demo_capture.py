"""`penstock demo cdc`: PostgreSQL under a storm of changes and kills, and copies of it that stay equal."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from penstock.cli.connection import EXIT_REFUSED, fail
from penstock.cli.extras import require_packages

if TYPE_CHECKING:
    from penstock.demo.capture.run import Outcome

_REQUIRED: Final = ("psycopg", "starlette", "uvicorn", "regex")
_SPARK: Final = ("pyspark", "pyarrow", "deltalake")
_SQL: Final = ("sqlglot", "httptools")
_DIFFERENCES_SHOWN_MAX: Final = 5


def capture(
    kills: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="How often the worker, the broker and the database are killed, each."
        ),
    ] = 2,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="The seed of the changes and the kills. Default: random."),
    ] = None,
) -> None:
    """Copy a PostgreSQL database while it changes and parts are killed, and compare the copies with it.

    A PostgreSQL server of the demo's own has random transactions. A connector writes their changes to topics;
    a SQL table and Delta tables follow these. `kill -9` ends the worker, the broker and the database. In the
    end, all three copies must be equal to the database, and no change is lost or repeated in the topics.
    """
    require_packages(_REQUIRED, "cdc", "the demo")
    require_packages(_SPARK, "delta", "the demo")
    require_packages(_SQL, "sql", "the demo")
    from penstock.demo.capture.postgres import PostgresMissing
    from penstock.demo.capture.run import run
    from penstock.mirroring import MirrorError
    from penstock.spark.launching.java import JavaNotFound, find_java
    from penstock.testing import ClusterError

    console = Console(highlight=False, soft_wrap=True)
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    console.print(f"seed {seed}")
    try:
        find_java()  # fail before anything is started
        outcome = run(
            seed,
            lambda text: console.print(escape(text)),
            lambda text, seconds: console.print(f"[green]✓[/] {escape(text)} [dim]{seconds:.1f} s[/]"),
            kills,
        )
    except (ClusterError, JavaNotFound, MirrorError, PostgresMissing, TimeoutError) as error:
        fail(str(error), EXIT_REFUSED)
    _report(outcome, console)
    if not outcome.is_equal:
        raise typer.Exit(EXIT_REFUSED)


def _report(outcome: Outcome, console: Console) -> None:
    """Print the figures, and the first differences if there are any."""
    killed = ", ".join(f"the {victim} {count} times" for victim, count in outcome.kills.items())
    console.print(
        f"\nPostgreSQL {outcome.version}: {outcome.transactions:,} transactions committed "
        f"{outcome.changes:,} changes of rows, {outcome.rolled_back:,} rolled back, "
        f"{outcome.truncates} tables truncated; killed: {killed or 'nothing'}"
    )
    console.print(
        f"topics: {outcome.records:,} records, {outcome.lost} changes lost, {outcome.repeated} repeated; "
        f"Delta tables written in {outcome.batches:,} batches"
    )
    for name, lines in outcome.differences.items():
        if not lines:
            console.print(f"[green]equal, row for row[/]: {name} and the database")
            continue
        console.print(f"[red]{len(lines):,} differences[/] of {name} from the database:")
        for line in lines[:_DIFFERENCES_SHOWN_MAX]:
            console.print(f"  {escape(line)}")
    console.print(f"{outcome.rows:,} rows compared; {outcome.seconds:.0f} s in all")
