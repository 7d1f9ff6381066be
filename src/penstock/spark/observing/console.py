"""A query's progress on the console: redrawn in place on a terminal, a line for each batch elsewhere."""

from __future__ import annotations

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

#: Partitions and phases that are shown by name: those with the most.
_SHOWN: Final = 6
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


class ProgressView:
    """Of one query. `update` takes the last batch as often as one likes; a batch counts once.

    ``lines_every_s``: where there is no terminal, lines are at least this far apart.
    """

    def __init__(
        self, console: Console, *, lines_every_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._lines_every_s = lines_every_s
        self._clock = clock
        self._started_s = clock()
        self._line_due_s = self._started_s
        self._live: Live | None = None
        self._last: Progress | None = None
        self._shown: Progress | None = None
        self._records = 0

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw on the terminal until the block ends; the last state stays, a line held back comes."""
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False) as self._live:
                yield
            self._live = None
            return
        yield
        self._print_line(self._last)

    def update(self, progress: Progress | None) -> None:
        """The last batch; None before the first."""
        if progress is not None and not _is_same(progress, self._last):
            self._records += progress.records
            self._last = progress
        if self._live is not None:
            self._live.update(self.render(), refresh=True)
        elif self._clock() >= self._line_due_s:
            self._print_line(progress)

    def render(self) -> RenderableType:
        """What is known now, for a terminal of 80 columns or more."""
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

    def _print_line(self, progress: Progress | None) -> None:
        if progress is None or _is_same(progress, self._shown):
            return
        self._shown = progress
        self._line_due_s = self._clock() + self._lines_every_s
        self._console.print(batch_line(progress), highlight=False, soft_wrap=True)


def batch_line(progress: Progress) -> str:
    """``batch 7: 1,200 records in 95 ms (12,632/s), lag 0, state 1.2 MB``."""
    return (
        f"batch {progress.batch_id:,}: {progress.records:,} records in {progress.batch_ms:,} ms "
        f"({progress.records_per_second:,.0f}/s), lag {progress.lag.total:,}, "
        f"state {size(progress.state_bytes)}"
    )


def size(count: int) -> str:
    """Bytes in powers of a thousand: ``1.2 MB``."""
    scaled, units = float(count), iter(_UNITS)
    unit = next(units)
    for larger in units:
        if scaled < 1000:
            break
        scaled, unit = scaled / 1000, larger
    return f"{count} B" if unit == "B" else f"{scaled:,.1f} {unit}"


def _is_same(progress: Progress, other: Progress | None) -> bool:
    return other is not None and (progress.run_id, progress.batch_id) == (other.run_id, other.batch_id)


def _figure(value: str, label: str) -> Text:
    return Text.assemble((value, "bold"), (f" {label}", "dim"))


def _named(label: str, values: list[tuple[str, str]]) -> Text:
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    shown = "  ".join(f"{name} {value}" for name, value in values[:_SHOWN])
    return Text.assemble((f"{label}: ", "dim"), shown, (more, "dim"))
