"""How processes of the data source end when Spark closes their connection.

Spark ends the process of a stream's reader that way. pyspark then fails to answer on the connection, three
times over, and Python prints the tracebacks after everything that the user wants to see.

Spark also closes the connection of a worker when a query stops in the middle of a batch, or has all rows that
it needs, as with `first`, `show` and `limit`. The worker cannot write the rest then, and pyspark's daemon
prints a traceback, although nothing failed.
"""

from __future__ import annotations

import sys
import traceback
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Final

_READER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
_DAEMON: Final = "pyspark.daemon"


def end_quietly() -> None:
    """Let the process of a stream's reader end without a trace when Spark closes its connection."""
    if _program() == _READER:
        sys.excepthook = _report


def end_worker_quietly() -> None:
    """Let a worker that pyspark's own daemon has forked end without a trace when Spark closes its connection.

    Sessions of `build_session` have `penstock.spark.workers.daemon` instead.
    """
    if _program() == _DAEMON:
        silence(sys.modules["__main__"])


def silence(daemon: ModuleType) -> None:
    """Make pyspark's daemon, imported or run as a program, report failures with `report_failure`."""
    # Only the daemon's name for the module changes: functions that users run in the workers need it whole.
    quiet = SimpleNamespace(print_exc=report_failure, format_exc=traceback.format_exc)
    vars(daemon)["traceback"] = quiet


def report_failure() -> None:
    """Print the traceback of the exception that ends a worker, unless Spark closed its connection."""
    if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
        traceback.print_exc()


def _program() -> str | None:
    """The name of the module that this process runs, if it was started with ``-m``."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return None if spec is None else str(spec.name)


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, BrokenPipeError | ConnectionResetError):
        sys.__excepthook__(kind, error, trace)
