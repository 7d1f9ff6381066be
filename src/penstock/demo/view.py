"""The demo's output: steps with their times, and the live state of the application.

On a terminal the live part redraws in place; elsewhere (a log, a pipe) it becomes a line every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.demo.monitor import Airline, Lag
from penstock.demo.processes import BatchProgress

PLAIN_LINE_EVERY_S = 3.0
BAR_WIDTH = 40
STEP_WIDTH = 68
AIRLINES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the run at one moment.

    `total` counts the records to read; `progress` is that of the last batch, None before the first; `kills`
    counts those of the application and the node together.
    """

    elapsed_s: float
    total: int
    lag: Lag
    progress: BatchProgress | None
    results: int
    airlines: Sequence[Airline]
    kills: int = 0


class View:
    """Prints steps, and shows snapshots of the running application within `live()`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._plain_line_due_s = 0.0

    def step(self, text: str, seconds: float) -> None:
        """Report a finished step."""
        dots = " " * max(1, STEP_WIDTH - len(text))
        self._console.print(f"[green]✓[/] {text}{dots}[dim]{seconds:6.1f} s[/]", highlight=False)

    def note(self, text: str) -> None:
        """Print a separate line."""
        self._console.print(text, highlight=False, soft_wrap=True)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the snapshots passed to `update` until the block ends; the last one stays on the screen."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def update(self, snapshot: Snapshot) -> None:
        """Show the state of the run."""
        if self._live is not None:
            self._live.update(render(snapshot), refresh=True)
        elif (now_s := time.monotonic()) >= self._plain_line_due_s:
            self._plain_line_due_s = now_s + PLAIN_LINE_EVERY_S
            self._console.print(f"  {plain_line(snapshot)}", highlight=False, soft_wrap=True)


def render(snapshot: Snapshot) -> RenderableType:
    """Lay out one snapshot for a terminal of 80 columns or more."""
    read = min(snapshot.lag.read, snapshot.total)
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        Text("read", style="dim"),
        ProgressBar(total=snapshot.total, completed=read, width=BAR_WIDTH),
        f"{read:,} of {snapshot.total:,}",
    )
    parts: list[RenderableType] = [bar, figures_table(snapshot)]
    if snapshot.airlines:
        parts.append(airline_table(snapshot.airlines))
    return Padding(Group(*parts), (1, 2))


def figures_table(snapshot: Snapshot) -> Table:
    """Each figure above its label, so that none is broken on a terminal of 80 columns."""
    progress = snapshot.progress
    figures = {
        "rows/s": "–" if progress is None else f"{progress.records_per_second:,.0f}",
        "lag": f"{snapshot.lag.behind:,}",
        "on the way": f"{snapshot.lag.under_way:,}",
        "ms a batch": "–" if progress is None else f"{progress.batch_ms:,}",
        "MB state": "–" if progress is None else f"{progress.state_bytes / 1e6:,.0f}",
        "results": f"{snapshot.results:,}",
        "s": f"{snapshot.elapsed_s:.0f}",
    }
    if snapshot.kills:
        figures["killed"] = f"{snapshot.kills}"
    table = Table.grid(padding=(0, 2))
    for _ in figures:
        table.add_column(justify="right", no_wrap=True)
    table.add_row(*(Text(value, style="bold") for value in figures.values()))
    table.add_row(*(Text(label, style="dim") for label in figures))
    return table


def airline_table(airlines: Sequence[Airline]) -> Table:
    """The worst airlines by current mean delay; only names shrink on a narrow terminal."""
    table = Table(
        box=None, padding=(0, 2, 0, 0), title="airlines by mean delay", title_justify="left", expand=True
    )
    table.title_style = "bold"
    table.add_column("airline", ratio=1, no_wrap=True)
    for heading in ("mean delay", "flights", "delayed", "cancelled", "seats"):
        table.add_column(heading, justify="right", no_wrap=True)
    for airline in airlines[:AIRLINES_SHOWN]:
        table.add_row(
            airline.name,
            Text(f"{airline.mean_minutes:.1f} min", style="red"),
            f"{airline.flights:,}",
            f"{airline.delayed / airline.flights:.0%}",
            f"{airline.cancelled / airline.flights:.1%}",
            f"{airline.seats:,}",
        )
    return table


def plain_line(snapshot: Snapshot) -> str:
    """One line with the same figures."""
    read, progress = min(snapshot.lag.read, snapshot.total), snapshot.progress
    line = f"{read:,} of {snapshot.total:,} records read, lag {snapshot.lag.behind:,}"
    line += f", {snapshot.lag.under_way:,} on the way, {snapshot.results:,} results"
    if progress is not None:
        line += f", {progress.records_per_second:,.0f} rows/s, {progress.batch_ms:,} ms a batch"
    if snapshot.airlines:
        worst = snapshot.airlines[0]
        line += f", worst: {worst.name}, {worst.mean_minutes:.1f} min"
    return line
