"""Exclude what a Python worker has imported from its garbage collections.

Spark's worker daemon collects garbage after each task, in all generations. With pandas and pyarrow imported
that takes 30 to 50 ms, and even a batch of ten rows passes through six workers: collecting took more than
half of the processor time of a small batch, and of its duration.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_KEPT: Final = "SPARK_REUSE_WORKER"
"""The variable that Spark's daemon sets in workers that it keeps across tasks, and nowhere else."""

_calls: dict[int, int] = {}


def settle_worker() -> None:
    """Freeze the objects of a Spark worker, so that later garbage collections skip them.

    Everything that runs in a worker calls this first. It does nothing in other processes. It freezes at the
    second call, when the first task has imported all that it needs and the daemon has just collected its
    garbage, and then each time the number of calls has doubled, because state may have grown. It does so no
    more often because frozen objects in a reference cycle are never freed.
    """
    pid = os.getpid()
    calls = _calls[pid] = _calls.get(pid, 0) + 1
    if _KEPT in os.environ and calls > 1 and calls.bit_count() == 1:
        gc.freeze()


_NEW_OBJECTS: Final = 200_000
"""The number of new objects between two collections during a batch.

A batch creates records by the hundred thousand, which live until its end and are not part of any cycle.
"""


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Collect garbage less often during the block: by default it takes a third of a batch's time."""
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
