"""The retry policy: exponential backoff with jitter until a deadline, as in Kafka's clients (KIP-580)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.client.errors import ClientError

T = TypeVar("T")

_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When and how often to retry.

    ``timeout_ms`` bounds all attempts together; clock (seconds), sleep and randomness are injected.
    """

    timeout_ms: int
    backoff_ms: int
    backoff_max_ms: int
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    uniform: Callable[[float, float], float] = field(default=random.uniform)

    def backoff_s(self, failures: int) -> float:
        """The time to wait after this number of failures (1 = the first)."""
        plain_ms = min(self.backoff_max_ms, self.backoff_ms << min(failures - 1, 30))
        return plain_ms * self.uniform(1 - _JITTER, 1 + _JITTER) / 1000

    def run(self, operation: Callable[[], T]) -> T:
        """Call ``operation`` until it returns, fails for good, or the timeout has passed.

        Raises the last error, with the number of attempts in a note.
        """
        deadline = self.clock() + self.timeout_ms / 1000
        failures = 0
        while True:
            try:
                return operation()
            except ClientError as error:
                failures += 1
                wait_s = self.backoff_s(failures)
                if not error.retriable or self.clock() + wait_s >= deadline:
                    if failures > 1:
                        error.add_note(f"failed after {failures} attempts within {self.timeout_ms} ms")
                    raise
            self.sleep(wait_s)
