"""The options of servers for their log."""

from enum import StrEnum
from typing import Annotated

import typer


class LogLevel(StrEnum):
    """Kafka's names of log levels."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    FATAL = "FATAL"


class LogFormat(StrEnum):
    """The forms of log lines."""

    TEXT = "text"
    JSON = "json"


LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        case_sensitive=False,
        help="Log events of this level and above: TRACE, DEBUG, INFO, WARN, ERROR or FATAL.",
    ),
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", metavar="FORMAT", help="Write log lines as text or as json."),
]
