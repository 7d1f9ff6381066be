"""Kills at random points: the victim, and the application's progress at that time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Victim = Literal["application", "node"]
DELAY_MAX_S = 2.0


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill ``delay_s`` after the application has read ``share`` of its input, at any point of its work."""

    victim: Victim
    share: float
    delay_s: float


def planned_kills(seed: int, application: int, node: int) -> list[Kill]:
    """The kills that a seed yields, spread over the run in random order."""
    rng = random.Random(seed)
    victims: list[Victim] = ["application" for _ in range(application)]
    victims += ["node" for _ in range(node)]
    rng.shuffle(victims)
    span = 0.9 / max(len(victims), 1)
    return [
        Kill(victim, 0.05 + (number + rng.random()) * span, rng.uniform(0, DELAY_MAX_S))
        for number, victim in enumerate(victims)
    ]


class Schedule:
    """The kills of a run in their order."""

    def __init__(self, kills: list[Kill]) -> None:
        self._waiting = list(kills)
        self._due_s: float | None = None

    def due(self, share: float, now_s: float) -> Iterator[Kill]:
        """Yield the kill that is due now, if any. A kill's delay begins when its share has been reached."""
        if not self._waiting or share < self._waiting[0].share:
            return
        if self._due_s is None:
            self._due_s = now_s + self._waiting[0].delay_s
        if now_s >= self._due_s:
            self._due_s = None
            yield self._waiting.pop(0)

    @property
    def is_over(self) -> bool:
        return not self._waiting
