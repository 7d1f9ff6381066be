"""A query's progress on the console: updated in place on a terminal, a line for each batch elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.spark.progress import Progress

_SHOWN: Final = 6
"""The number of partitions, and of phases, that are shown by name: those with the largest values."""
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


class ProgressView:
    """The view of one query: a watcher for `observe` or ``app.start``, or updated through `progressed`.

    ``lines_every_s``: without a terminal, lines are at least this far apart. Thread-safe.
    """

    def __init__(
        self, console: Console, *, lines_every_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._lines_every_s = lines_every_s
        self._clock = clock
        self._started_s = clock()
        self._lock = threading.RLock()
        # Guarded by _lock.
        self._line_due_s = self._started_s
        self._live: Live | None = None
        self._last: Progress | None = None
        self._is_shown = True
        self._batches = 0
        self._records = 0

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw until the block ends. A terminal keeps the last state; elsewhere a line shows the totals."""
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False) as live:
                self._set_live(live)
                try:
                    yield
                finally:
                    self.refresh()
                    self._set_live(None)
            return
        try:
            yield
        finally:
            with self._lock:
                if not self._is_shown:
                    self._print_line()
                if self._batches:
                    self._print(self.summary())

    def refresh(self) -> None:
        """Redraw, or print a delayed line that is due; call it as time passes."""
        with self._lock:
            if self._live is not None:
                self._live.update(self.render(), refresh=True)
            elif not self._is_shown and self._clock() >= self._line_due_s:
                self._print_line()

    # The interface of a watcher

    def started(self, query_id: str, run_id: str, name: str | None) -> None:
        """Show nothing yet."""

    def progressed(self, progress: Progress) -> None:
        """Show a completed batch; repeated reports of the same batch count once."""
        with self._lock:
            last = self._last
            if last is None or (progress.run_id, progress.batch_id) != (last.run_id, last.batch_id):
                self._batches += 1
                self._records += progress.records
                self._last = progress
                self._is_shown = False
            self.refresh()

    def idled(self, query_id: str) -> None:
        """Change nothing, since the last report still holds."""

    def ended(self, query_id: str, run_id: str, error: str | None) -> None:
        """Show nothing: the program that started the query reports its end."""

    def summary(self) -> str:
        """The totals, such as ``1,200 records in 3 batches, 4 s``."""
        with self._lock:
            elapsed_s = self._clock() - self._started_s
            batches = "1 batch" if self._batches == 1 else f"{self._batches:,} batches"
            return f"{self._records:,} records in {batches}, {elapsed_s:,.0f} s"

    def render(self) -> RenderableType:
        """The current state, for a terminal of 80 columns or more."""
        last, elapsed_s = self._last, self._clock() - self._started_s
        if last is None:
            return Padding(Text(f"no batch yet, {elapsed_s:.0f} s", style="dim"), (1, 2))
        figures = Table.grid(padding=(0, 3))
        figures.add_row(
            _figure(f"{last.batch_id:,}", "batch"),
            _figure(f"{last.records_per_second:,.0f}", "records/s"),
            _figure(f"{last.batch_ms:,}", "ms a batch"),
            _figure(f"{last.lag.total:,}", "lag"),
            _figure(size(last.state_bytes), "state"),
            _figure(f"{self._records:,}", f"records in {elapsed_s:.0f} s"),
        )
        rows: list[RenderableType] = [figures]
        behind = sorted(last.lag.partitions.items(), key=lambda item: -item[1])
        if last.lag.total:
            rows.append(_named("behind", [(str(tp), f"{lag:,}") for tp, lag in behind if lag]))
        phases = sorted(last.phases_ms.items(), key=lambda item: -item[1])
        rows.append(_named("ms", [(phase, f"{ms:,}") for phase, ms in phases if ms]))
        return Padding(Group(*rows), (1, 2))

    def _set_live(self, live: Live | None) -> None:
        with self._lock:
            self._live = live

    def _print_line(self) -> None:
        if self._last is not None:
            self._print(batch_line(self._last))
        self._is_shown = True
        self._line_due_s = self._clock() + self._lines_every_s

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)


def batch_line(progress: Progress) -> str:
    """A line such as ``batch 7: 1,200 records in 95 ms (12,632/s), lag 0, state 1.2 MB``."""
    return (
        f"batch {progress.batch_id:,}: {progress.records:,} records in {progress.batch_ms:,} ms "
        f"({progress.records_per_second:,.0f}/s), lag {progress.lag.total:,}, "
        f"state {size(progress.state_bytes)}"
    )


def size(count: int) -> str:
    """Format bytes in powers of a thousand, such as ``1.2 MB``."""
    scaled, units = float(count), iter(_UNITS)
    unit = next(units)
    for larger in units:
        if scaled < 1000:
            break
        scaled, unit = scaled / 1000, larger
    return f"{count} B" if unit == "B" else f"{scaled:,.1f} {unit}"


def _figure(value: str, label: str) -> Text:
    return Text.assemble((value, "bold"), (f" {label}", "dim"))


def _named(label: str, values: list[tuple[str, str]]) -> Text:
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    shown = "  ".join(f"{name} {value}" for name, value in values[:_SHOWN])
    return Text.assemble((f"{label}: ", "dim"), shown, (more, "dim"))
