"""Asking again for offsets, as ``fetchOffset.numRetries`` and ``fetchOffset.retryIntervalMs`` say."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from penstock.client.errors import ClientError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OffsetRetries:
    """How often the driver asks for offsets, and the pause between: after an error that may pass, and where a
    partition seems to end before what was read of it already, as it may for a moment under a new leader."""

    attempts: int
    interval_ms: int

    def pause(self) -> None:
        time.sleep(self.interval_ms / 1000)


def with_retries(retries: OffsetRetries, ask: Callable[[], T]) -> T:
    """`ask`, again after errors that may pass. Raises the last ClientError."""
    for _ in range(retries.attempts - 1):
        try:
            return ask()
        except ClientError as error:
            if not error.retriable:
                raise
            retries.pause()
    return ask()
