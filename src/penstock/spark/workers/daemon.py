"""Spark's daemon of Python workers, whose workers end without a trace when Spark closes their connection.

Spark closes it when a query stops in the middle of a batch. The worker then cannot write what is left, and
pyspark's daemon prints a traceback, although nobody waits for the result.
"""

from __future__ import annotations

import socket
from typing import Final

from pyspark import daemon

_FAILED: Final = 1
"""The exit code with which the daemon does not use the worker again."""

run = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run a worker's task as pyspark does, and return the exit code."""
    try:
        return run(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return _FAILED


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
