"""The reason why an application stopped, in one sentence instead of Spark's two tracebacks."""

from __future__ import annotations

import re
from typing import Final

from penstock.topology.errors import StreamsError

_DESCRIPTION: Final = "\n=== Streaming Query ==="
_TRACEBACK: Final = "Traceback (most recent call last):\n"
_SQL_STATES: Final = re.compile(r"(\s+SQLSTATE: \w{5})+\s*$")
_OURS: Final = re.compile(r"^penstock(\.\w+)*\.(?=\w+(:|$))")


class ApplicationFailed(StreamsError):
    """The application stopped because of an error.

    The message is that of the last exception raised; ``details`` is Spark's whole text.
    """

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


def failure_of(text: str) -> ApplicationFailed:
    """Find the reason in a Spark exception's text, which may include a Python process's traceback."""
    said = _SQL_STATES.sub("", text.partition(_DESCRIPTION)[0])
    _, traced, last = said.rpartition(_TRACEBACK)
    if not traced:
        return ApplicationFailed(said.partition("terminated with exception: ")[2] or said, text)
    lines = last.splitlines()
    raised = next((row for row, line in enumerate(lines) if line and not line[0].isspace()), 0)
    return ApplicationFailed(_OURS.sub("", "\n".join(lines[raised:])), text)
