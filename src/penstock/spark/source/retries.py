"""Repeated listing of offsets, set by ``fetchOffset.numRetries`` and ``fetchOffset.retryIntervalMs``."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OffsetRetries:
    """The number of attempts to list an end that is not before the start, and the pause between them.

    A partition can seem to end before an offset that was already read, for a moment under a new leader.
    Requests that fail are not counted: the client retries them for ``default.api.timeout.ms``.
    """

    attempts: int
    interval_ms: int

    def pause(self) -> None:
        time.sleep(self.interval_ms / 1000)
