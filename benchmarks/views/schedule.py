"""The schedule of updates, known to every process, so that readers can tell what an answer should have shown.

Update i happens at ``start + i / rate`` and sets its key to that time (monotonic, in ns; one machine). Keys
come in a scattered order, each one again after all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

APPLICATION: Final = "views-bench"
STORE: Final = "latest"
INPUT: Final = "views-bench-updates"
_STEP: Final = 7_919  # a prime, so that updates visit all keys


@dataclass(frozen=True)
class Schedule:
    """The schedule of one run.

    ``start_ns`` is on the monotonic clock. Lookups request keys that have changed within ``age_s``.
    """

    start_ns: int
    keys: int
    updates_per_s: int
    age_s: float = 1.0

    def key_of(self, update: int) -> bytes:
        return key_text(update * _STEP % self.keys).encode()

    def time_of(self, update: int) -> int:
        return self.start_ns + update * 1_000_000_000 // self.updates_per_s

    def last_before(self, now_ns: int) -> int:
        """The last update at or before this time, or -1 if there was none."""
        return (now_ns - self.start_ns) * self.updates_per_s // 1_000_000_000


def key_text(number: int) -> str:
    return f"user-{number:07}"
