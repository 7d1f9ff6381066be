"""Retries of offset requests, set by ``fetchOffset.numRetries`` and ``fetchOffset.retryIntervalMs``."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from penstock.client.errors import ClientError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OffsetRetries:
    """The number of attempts of an offset request, and the pause between them.

    The driver retries after a retriable error. It also retries if a partition seems to end before an offset
    that was already read, which can happen briefly under a new leader.
    """

    attempts: int
    interval_ms: int

    def pause(self) -> None:
        time.sleep(self.interval_ms / 1000)


def with_retries(retries: OffsetRetries, ask: Callable[[], T]) -> T:
    """Call `ask`, again after retriable errors. Raises the last ClientError."""
    for _ in range(retries.attempts - 1):
        try:
            return ask()
        except ClientError as error:
            if not error.retriable:
                raise
            retries.pause()
    return ask()
