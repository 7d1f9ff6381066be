"""The figures of three nodes, stored between the measurement and the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from side_by_side.figures import OURS, THEIRS, Spread, spread

Figures = Mapping[str, float]


@dataclass
class ThreeNodeResults:
    """The figures of each row, by side and round. `scale` multiplies the amounts that the rows send."""

    machine: dict[str, str]
    scale: float
    runs: list[dict[str, object]] = field(default_factory=list)
    """The runs, each with `row`, `side`, `round` and `figures`."""

    @classmethod
    def read(cls, file: Path) -> ThreeNodeResults:
        return cls(**json.loads(file.read_text()))

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1))

    def add(self, row: str, side: str, round_: int, figures: Figures) -> None:
        self.runs.append({"row": row, "side": side, "round": round_, "figures": dict(figures)})

    @property
    def rounds(self) -> int:
        return len({run["round"] for run in self.runs})

    def rows(self) -> list[str]:
        return list(dict.fromkeys(str(run["row"]) for run in self.runs))

    def spread(self, row: str, side: str, figure: str) -> Spread | None:
        return spread(self._of(row, side, figure).values())

    def ahead(self, row: str, figure: str, *, more_is_better: bool) -> Spread | None:
        """Return how many times better Penstock's figure is than Apache Kafka's of the same round."""
        ours, theirs = self._of(row, OURS, figure), self._of(row, THEIRS, figure)
        both = [(ours[round_], theirs[round_]) for round_ in ours if round_ in theirs]
        if more_is_better:
            return spread(a / b for a, b in both if b)
        return spread(b / a for a, b in both if a)

    def _of(self, row: str, side: str, figure: str) -> dict[int, float]:
        return {
            run["round"]: run["figures"][figure]  # type: ignore[index,misc]
            for run in self.runs
            if run["row"] == row and run["side"] == side and figure in run["figures"]  # type: ignore[operator]
        }
