"""How the process of a stream's reader ends.

Spark ends that process by closing its connection. pyspark then fails to answer on it, three times over, and
Python prints the tracebacks after everything that the user wants to see.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Final

_PROGRAM: Final = "pyspark.sql.streaming.python_streaming_source_runner"


def end_quietly() -> None:
    """Let the process of a stream's reader end without a trace when Spark closes its connection."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == _PROGRAM:
        sys.excepthook = _report


def _report(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if not isinstance(error, BrokenPipeError | ConnectionResetError):
        sys.__excepthook__(kind, error, traceback)
