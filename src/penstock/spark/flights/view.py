"""What the person who runs the demo sees: steps with their times, and the stream live while it runs.

On a terminal the live part redraws in place; elsewhere (a log, a pipe) it becomes a line every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.spark.flights.monitor import Delay, Snapshot

PLAIN_LINE_EVERY_S = 3.0
BAR_WIDTH = 40
STEP_WIDTH = 68
MINUTES_PER_HOUR = 60


class View:
    """Prints steps, and shows snapshots of the running stream between `live()`'s enter and exit."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._plain_line_due_s = 0.0

    def step(self, text: str, seconds: float) -> None:
        """Report a step as done."""
        dots = " " * max(1, STEP_WIDTH - len(text))
        self._console.print(f"[green]✓[/] {text}{dots}[dim]{seconds:6.1f} s[/]", highlight=False)

    def note(self, text: str) -> None:
        """Print a line of its own."""
        self._console.print(text, highlight=False)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show what `update` gets until the block ends; the last state stays on the screen."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def update(self, snapshot: Snapshot, total: int) -> None:
        """Show the state of the stream: `total` flights are to be read in all."""
        if self._live is not None:
            self._live.update(render(snapshot, total), refresh=True)
        elif (now_s := time.monotonic()) >= self._plain_line_due_s:
            self._plain_line_due_s = now_s + PLAIN_LINE_EVERY_S
            self._console.print(f"  {plain_line(snapshot, total)}", highlight=False, soft_wrap=True)


def render(snapshot: Snapshot, total: int) -> RenderableType:
    """Lay out one snapshot for a terminal of 80 columns or more."""
    read = min(snapshot.rows_read, total)
    figures = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=total, completed=read, width=BAR_WIDTH)
    figures.add_row(Text("read", style="dim"), bar, f"{read:,} of {total:,} flights")
    pairs = Table.grid(padding=(0, 3))
    pairs.add_row(
        _figure(f"{snapshot.rows_per_second:,.0f}", "rows/s"),
        _figure(f"{snapshot.lag:,}", "lag"),
        _figure(f"{snapshot.results:,}", "results"),
        _figure(snapshot.watermark[:10] if snapshot.batches > 1 else "–", "watermark"),
        _figure(f"{snapshot.elapsed_s:.0f}", "s"),
    )
    parts: list[RenderableType] = [figures, pairs]
    if snapshot.worst:
        parts.append(worst_table(snapshot))
    return Padding(Group(*parts), (1, 2))


def worst_table(snapshot: Snapshot) -> Table:
    """The most delayed departures found so far, one row each; only names shrink on a narrow terminal."""
    table = Table(
        box=None, padding=(0, 2, 0, 0), title="worst delays so far", title_justify="left", expand=True
    )
    table.title_style = "bold"
    table.add_column("delay", justify="right", min_width=len("21 h 41 min"), no_wrap=True)
    table.add_column("flight", min_width=len("HA 5100"), no_wrap=True)
    table.add_column("airline", ratio=2, no_wrap=True)
    table.add_column("route", ratio=3, no_wrap=True)
    table.add_column("day (UTC)", min_width=len("2013-01-09"), no_wrap=True)
    for delay in snapshot.worst:
        route = f"{delay.origin} → {delay.destination}"
        lateness = Text(duration(delay.minutes), style="red")
        table.add_row(lateness, delay.flight, delay.airline, route, delay.hour[: len("2013-01-09")])
    return table


def plain_line(snapshot: Snapshot, total: int) -> str:
    """One line with the same figures."""
    line = (
        f"{min(snapshot.rows_read, total):,} of {total:,} flights, {snapshot.rows_per_second:,.0f} rows/s, "
        f"lag {snapshot.lag:,}, {snapshot.results:,} results"
    )
    return f"{line}, worst: {describe(snapshot.worst[0])}" if snapshot.worst else line


def describe(delay: Delay) -> str:
    return f"{duration(delay.minutes)} {delay.flight} {delay.origin} → {delay.destination}"


def duration(minutes: int) -> str:
    """`21 h 41 min`."""
    hours, rest = divmod(minutes, MINUTES_PER_HOUR)
    return f"{hours} h {rest:02d} min" if hours else f"{rest} min"


def _figure(value: str, label: str) -> Text:
    return Text.assemble((value, "bold"), (f" {label}", "dim"))
