"""A bound on the memory of nodes, which tests set for all nodes of a run."""

import os
import resource
from typing import Final

MEMORY_MAX: Final = "PENSTOCK_TEST_NODE_MEMORY_MAX_BYTES"
"""The environment variable with the bound; without it, nodes take what they need."""


def bound_memory(pid: int) -> None:
    """Bound the memory of a process that a test has just started, and of all that this process will start.

    The bound counts what a process has for itself, not the files that it maps. A process beyond it gets
    `MemoryError` instead of memory, and leaves the machine to others.

    Raises:
        ValueError: the variable does not hold a number of bytes.
    """
    if text := os.environ.get(MEMORY_MAX):
        bytes_max = int(text)
        resource.prlimit(pid, resource.RLIMIT_DATA, (bytes_max, bytes_max))
