"""All measurements so far, in one JSON file: an interrupted run continues where it stopped."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from side_by_side.session import Measurement

DIGITS = 5


@dataclass(frozen=True)
class Run:
    """One row on one broker in one round, with its measurement or the reason why there is none."""

    row: str
    broker: str
    round: int
    scale: float
    measurement: Measurement | None = None
    error: str | None = None


class AnotherMachine(RuntimeError):
    """This machine cannot continue the stored results; the message says what differs."""


class Results:
    """The runs of one machine. Every change is written at once."""

    def __init__(self, path: Path, machine: Mapping[str, str], runs: Iterable[Run] = ()) -> None:
        self.path = path
        self.machine = dict(machine)
        self.runs = list(runs)

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Load the stored results. Raises FileNotFoundError if nothing has been measured."""
        stored = json.loads(path.read_text())
        return cls(path, stored["machine"], [_run(entry) for entry in stored["runs"]])

    @classmethod
    def for_machine(cls, path: Path, machine: Mapping[str, str]) -> "Results":
        """Return the stored results if they are this machine's, or empty ones if nothing is stored.

        Raises AnotherMachine.
        """
        if not path.exists():
            return cls(path, machine)
        stored = cls.load(path)
        changed = sorted(
            name for name in {*machine, *stored.machine} if machine.get(name) != stored.machine.get(name)
        )
        if changed:
            raise AnotherMachine(
                f"{path} was measured with another {', '.join(changed)}: move it away, or name --results"
            )
        return stored

    def measured(self, row: str, broker: str, round_: int) -> bool:
        """Whether the run need not be repeated; a failed one must be."""
        return any(
            (run.row, run.broker, run.round) == (row, broker, round_) and run.measurement is not None
            for run in self.runs
        )

    def add(self, run: Run) -> None:
        key = (run.row, run.broker, run.round)
        self.runs = [other for other in self.runs if (other.row, other.broker, other.round) != key]
        self.runs.append(run)
        self.save()

    def forget(self, rows: Iterable[str]) -> None:
        """Drop all runs of these rows."""
        unwanted = set(rows)
        self.runs = [run for run in self.runs if run.row not in unwanted]

    def save(self) -> None:
        """Write the file with one run per line, so that changes are readable."""
        lines = ",\n".join("  " + json.dumps(_entry(run)) for run in self.runs)
        text = f'{{\n "machine": {json.dumps(self.machine, indent=2)},\n "runs": [\n{lines}\n ]\n}}\n'
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(text)
        unfinished.rename(self.path)


def _entry(run: Run) -> dict[str, Any]:
    def known(values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: round(value, DIGITS) if isinstance(value, float) else value
            for name, value in values.items()
            if value is not None and value != {}
        }

    measurement = known(asdict(run.measurement)) if run.measurement is not None else None
    return known({**asdict(run), "measurement": measurement})


def _run(entry: dict[str, Any]) -> Run:
    measurement = entry.pop("measurement", None)
    return Run(**entry, measurement=None if measurement is None else Measurement(**measurement))
