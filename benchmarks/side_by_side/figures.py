"""Medians, ranges and ratios over the rounds of a row."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from side_by_side.results import Run
from side_by_side.session import Measurement

OURS, THEIRS = "penstock", "kafka"
BUSY_ENOUGH = 0.9
OWN_SHARE = 0.65
"""The least share of a busy core's time for its own process; kernel threads and interrupts take some."""

Figure = Callable[[Measurement], float | None]


@dataclass(frozen=True)
class Spread:
    """A figure over the rounds."""

    median: float
    least: float
    most: float


def spread(values: Iterable[float | None]) -> Spread | None:
    """The spread of a figure, or None if no round has it."""
    known = [value for value in values if value is not None]
    return Spread(statistics.median(known), min(known), max(known)) if known else None


class RowRuns:
    """All runs of one row."""

    def __init__(self, name: str, runs: Sequence[Run], *, fixed_rate: bool = False) -> None:
        self.name = name
        self.fixed_rate = fixed_rate
        self._runs = [run for run in runs if run.row == name]

    def of(self, broker: str) -> list[Measurement]:
        return [run.measurement for run in self._runs if run.broker == broker and run.measurement is not None]

    def error(self, broker: str) -> str | None:
        """The reason why a run has no measurement."""
        return next((run.error for run in reversed(self._runs) if run.broker == broker and run.error), None)

    def spread(self, broker: str, figure: Figure) -> Spread | None:
        return spread(figure(measurement) for measurement in self.of(broker))

    def busy(self, broker: str) -> bool:
        """Whether the broker's core was the limit, and no other process used it."""
        core = self.spread(broker, lambda measurement: measurement.core_busy)
        own = self.spread(broker, lambda measurement: measurement.broker_busy)
        if core is None or own is None:
            return False
        return core.median >= BUSY_ENOUGH and own.median >= OWN_SHARE * core.median

    def ahead(self, figure: Figure, *, less_is_better: bool = False) -> Spread | None:
        """Return how many times better Penstock's figure is than Apache Kafka's of the same round."""
        measured = {
            (run.broker, run.round): run.measurement for run in self._runs if run.measurement is not None
        }
        rounds = sorted({round_ for _, round_ in measured})
        return spread(
            _ratio(measured.get((OURS, round_)), measured.get((THEIRS, round_)), figure, less_is_better)
            for round_ in rounds
        )


def _ratio(
    ours: Measurement | None, theirs: Measurement | None, figure: Figure, less_is_better: bool
) -> float | None:
    if ours is None or theirs is None:
        return None
    above, below = figure(ours), figure(theirs)
    if less_is_better:
        above, below = below, above
    return above / below if above is not None and below else None


def records_per_s(measurement: Measurement) -> float | None:
    if not measurement.records or not measurement.seconds:
        return None
    return measurement.records / measurement.seconds


def mb_per_s(measurement: Measurement) -> float | None:
    return measurement.mb / measurement.seconds if measurement.mb and measurement.seconds else None


def cpu_ms_per_record(measurement: Measurement) -> float | None:
    if measurement.broker_cpu_s is None or not measurement.records:
        return None
    return measurement.broker_cpu_s * 1000 / measurement.records


def cpu_s_per_gb(measurement: Measurement) -> float | None:
    if measurement.broker_cpu_s is None or not measurement.mb:
        return None
    return measurement.broker_cpu_s / (measurement.mb / 1000)
