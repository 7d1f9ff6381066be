"""Log lines on standard error: one line per event, as text with `key=value` pairs or as JSON with fields."""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from penstock.security.permissions import audit

LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Kafka's names of levels; Python has no TRACE."""

JSON: Final = "json"
_TIME: Final = "%Y-%m-%dT%H:%M:%S"
_FIELD: Final = re.compile(r"(?:^|(?<=\s))([A-Za-z_][\w.]*)=")
_PLACEHOLDER: Final = re.compile(r"%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")


class LineFormatter(logging.Formatter):
    """Formats `2026-01-31T12:00:00.123Z INFO penstock.broker.node message`; a traceback follows below."""

    default_time_format = _TIME
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


class JsonFormatter(logging.Formatter):
    """Formats an event as one JSON object: time, level, logger, message, fields and, after errors, exception.

    `fields` has the values that the message contains as `key=value`, and `message` the remaining text.
    """

    default_time_format = _TIME
    default_msec_format = "%s.%03dZ"
    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        message, fields = _message_and_fields(record)
        event: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": message,
            "fields": fields,
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event)


def _message_and_fields(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """Split a message by its template, since the values themselves may contain `key=value`."""
    template, args = record.msg, record.args
    starts = list(_FIELD.finditer(template)) if isinstance(template, str) else []
    if not starts or not isinstance(args, tuple) or not args:
        return record.getMessage(), {}
    left = iter(args)
    message = [str(_filled(template[: starts[0].start()].rstrip(), left))]
    ends = [each.start() for each in starts[1:]] + [len(template)]
    fields = {}
    for start, end in zip(starts, ends, strict=True):
        value, _, loose = template[start.end() : end].rstrip().partition(" ")
        fields[start[1]] = _filled(value, left)
        if loose:
            message.append(str(_filled(loose, left)))
    return " ".join(message), fields


def _filled(template: str, args: Iterator[Any]) -> Any:
    """Fill a part of a template from the next arguments; a single argument keeps its JSON type."""
    placeholders = [found[0] for found in _PLACEHOLDER.finditer(template) if found[0] != "%%"]
    values = tuple(next(args) for _ in placeholders)
    if len(values) == 1 and template == placeholders[0]:
        [value] = values
        is_json = value is None or isinstance(value, bool | int | str)
        if is_json or (isinstance(value, float) and math.isfinite(value)):
            return value
    return template % values


def configure(level: str, format: str) -> None:
    """Log to standard error in a format, and Penstock's events from a level of `LEVELS` on.

    The audit log has no permissions then, as in Kafka: there is one for each request.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == JSON else LineFormatter())
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger("penstock").setLevel(LEVELS[level])
    audit.setLevel(max(LEVELS[level], logging.INFO))
