"""Spark's daemon of Python workers, whose workers end without a trace when Spark closes their connection.

Spark closes it when a query stops in the middle of a batch, or while it plans one. The worker cannot write
the rest then, and pyspark's daemon prints a traceback, although nobody waits for the result.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

from pyspark import daemon


def report_failure() -> None:
    """Print the traceback of the exception that ends a worker, unless Spark closed its connection."""
    if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
        traceback.print_exc()


if __name__ == "__main__":
    # Only the daemon's name for the module changes: functions that users run in the workers need it whole.
    quiet = SimpleNamespace(print_exc=report_failure, format_exc=traceback.format_exc)
    vars(daemon)["traceback"] = quiet
    daemon.manager()
