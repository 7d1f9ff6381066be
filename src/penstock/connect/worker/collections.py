"""Python's garbage collector in a process that runs only a worker."""

from __future__ import annotations

import gc
from typing import Final

_COLLECTED_AFTER: Final = (10_000, 10, 100)
"""The thresholds. Records on their way are many objects without cycles: with Python's defaults, collections
that traverse them take half of a busy task's time and free nothing."""


def calm_garbage_collector() -> None:
    """Exempt what exists by now, and let full collections be rare."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
