"""Log lines on standard error: one line per event, with its values as `key=value`."""

from __future__ import annotations

import logging
import sys
import time


class LineFormatter(logging.Formatter):
    """Formats `2026-01-31T12:00:00.123Z INFO penstock.broker.node message`; a traceback follows below."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        # A client must not be able to forge a line with the data that it sends.
        head, separator, rest = line.partition("\n")
        if separator and not record.exc_info and not record.stack_info:
            return f"{head}\\n{rest}".replace("\n", "\\n")
        return line


def configure(level: str) -> None:
    """Send the node's log to standard error. Raises ValueError for an unknown level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger("penstock")
    root.setLevel(level.upper())
    root.handlers[:] = [handler]
    root.propagate = False
    logging.getLogger("asyncio").handlers[:] = [handler]
