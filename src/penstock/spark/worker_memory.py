"""Keeps what a Python worker has imported out of its garbage collections.

Spark's worker daemon collects garbage after each task, in all generations. With pandas and pyarrow imported
that takes 30 to 50 ms, and even a batch of ten rows passes through six workers: it was more than half of the
processor time of a small batch, and of the time it took.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# The daemon's own switch: set in its workers when they are kept from task to task, and nowhere else.
_KEPT: Final = "SPARK_REUSE_WORKER"

_calls: dict[int, int] = {}


def settle_worker() -> None:
    """To be called by whatever a worker runs, at its beginning. Does nothing outside such a worker.

    What is there is taken out of later collections: at the second call, when the first task has imported all
    that it needs and the daemon has just collected what it left; and whenever there have been twice as many
    calls again, as state may have grown. Of what is taken out nothing that lies in a cycle is freed later, so
    it is not done more often.
    """
    pid = os.getpid()
    calls = _calls[pid] = _calls.get(pid, 0) + 1
    if _KEPT in os.environ and calls > 1 and calls.bit_count() == 1:
        gc.freeze()


#: New objects between two collections while a batch is worked on: records by the hundred thousand, which live
#: until its end, and none of which is part of a cycle.
_NEW_OBJECTS: Final = 200_000


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Collect less often meanwhile: at Python's own rate it takes a third of the time of a batch."""
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
