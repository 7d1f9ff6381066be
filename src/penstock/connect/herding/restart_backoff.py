"""Restart failed connectors and tasks after a delay, for connectors whose configuration asks for it.

Kafka Connect leaves a failed task alone until a user restarts it. With ``restart.backoff.max.ms`` in the
configuration of a connector, the worker restarts the connector and its tasks by itself: after a second at
first, then each time after twice as long, up to this maximum.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from penstock.connect.stores.configs.records import Properties
from penstock.connect.stores.statuses.model import Subject

log = logging.getLogger(__name__)

RESTART_BACKOFF_MAX_MS: Final = "restart.backoff.max.ms"
_FIRST_DELAY_MS: Final = 1_000


class RestartBackoff:
    """The restarts of one worker. For one thread at a time.

    Args:
        clock_s: the current time in seconds.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._failures: dict[Subject, tuple[int, float]] = {}
        """The number of failures in a row, and the time of the last one."""

    def delay_s(self, subject: Subject, properties: Properties) -> float | None:
        """Note a failure; return the delay before the restart, or None if there shall be none.

        A connector or task that has run for more than twice the longest delay begins anew with the shortest.
        """
        longest_ms = _longest_ms(subject, properties)
        if longest_ms <= 0:
            return None
        count, last_s = self._failures.get(subject, (0, 0.0))
        now_s = self._clock_s()
        if now_s - last_s > 2 * longest_ms / 1000 + self._delay_ms(count, longest_ms) / 1000:
            count = 0
        self._failures[subject] = count + 1, now_s
        return self._delay_ms(count, longest_ms) / 1000

    def forget(self, subject: Subject) -> None:
        """Forget the failures of a connector or a task that no longer runs here."""
        self._failures.pop(subject, None)

    def _delay_ms(self, failures: int, longest_ms: int) -> int:
        return int(min(_FIRST_DELAY_MS << min(failures, 40), longest_ms))


def _longest_ms(subject: Subject, properties: Properties) -> int:
    found = properties.get(RESTART_BACKOFF_MAX_MS)
    if found is None:
        return 0
    try:
        return int(found)
    except ValueError:
        log.warning(
            "a failed connector or task is not restarted subject=%s %s='%s' expected=milliseconds",
            *(subject, RESTART_BACKOFF_MAX_MS, found),
        )
        return 0
