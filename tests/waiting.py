"""Wait for a condition instead of for a time.

The limit only ends a test that would otherwise hang. It is long enough for any machine, and no test measures
speed with it.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

LIMIT_S: Final = 60.0
POLL_INTERVAL_S: Final = 0.02


def wait_until(
    condition: Callable[[], object], timeout_s: float = LIMIT_S, poll_interval_s: float = POLL_INTERVAL_S
) -> None:
    """Block until the condition holds. Raises AssertionError after the limit."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"the condition did not hold within {timeout_s:g} s"
        time.sleep(poll_interval_s)


async def until(
    condition: Callable[[], object], timeout_s: float = LIMIT_S, poll_interval_s: float = 0.005
) -> None:
    """Let the event loop run until the condition holds. Raises AssertionError after the limit.

    On a loop with virtual time the limit is virtual too.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while not condition():
        assert loop.time() < deadline_s, f"the condition did not hold within {timeout_s:g} s"
        await asyncio.sleep(poll_interval_s)
