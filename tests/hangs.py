"""End the process of a test that runs on after its timeout.

pytest-timeout interrupts a test by a signal, whose handler runs in Python. A test that waits inside a C
library never comes back to Python, and the run would wait forever. This plugin then prints the stacks of all
threads and exits the process. pytest-xdist reports the test as failed and goes on with a new worker.
"""

import faulthandler
import os
from collections.abc import Iterator
from typing import Final

import pytest

GRACE_S: Final = 30.0
"""Time after the timeout for pytest-timeout to fail the test, and for its fixtures to be torn down."""


class Hangs:
    """The guard of one pytest process."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._stderr = os.dup(2)  # pytest captures the original during tests

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        limit_s = timeout_of(item) + self._grace_s
        faulthandler.dump_traceback_later(limit_s, exit=True, file=self._stderr)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


def timeout_of(item: pytest.Item) -> float:
    """The timeout of a test in seconds, by its marker or the configuration of pytest-timeout."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker is not None else item.config.getini("timeout"))
