"""The core that a process may use, and the load of a core (Linux)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT, _STEAL, _GUEST = 3, 4, 7, 8


class Cores(NamedTuple):
    """The broker's core, and the core of all clients and the harness."""

    broker: int
    client: int


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Run processes started in the block on *core* alone, with all their threads."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def busy_s(core: int) -> float:
    """Seconds since boot that *core* was busy, including the kernel's threads and interrupts."""
    line = next(
        text for text in Path("/proc/stat").read_text().splitlines() if text.startswith(f"cpu{core} ")
    )
    ticks = [int(word) for word in line.split()[1:]]
    return (
        sum(t for i, t in enumerate(ticks[:_GUEST]) if i not in {_IDLE, _IOWAIT, _STEAL}) / _TICKS_PER_SECOND
    )
