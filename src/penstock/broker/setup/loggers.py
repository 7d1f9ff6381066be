"""The log levels of this process, which the Admin API shows and sets (KIP-412).

The loggers are Python's; ``root`` is the root logger. TRACE is below DEBUG, and FATAL is CRITICAL.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from penstock.broker.setup.log_format import LEVELS
from penstock.metadata.controller.configs import AlterOp, ConfigChange
from penstock.metadata.controller.state import Refusal
from penstock.protocol.errors import ErrorCode
from penstock.security.permissions import audit

ROOT: Final = "root"


def levels() -> dict[str, str]:
    """Return the effective levels of the root logger, the audit log and Penstock's loggers, by name."""
    names = (name for name in logging.root.manager.loggerDict if name.split(".")[0] == "penstock")
    known = (ROOT, audit.name, *sorted(names))
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in known}


def check(changes: Iterable[ConfigChange]) -> None:
    """Check that every change sets or unsets the level of an existing logger. Raises Refusal if not."""
    known = levels()
    for change in changes:
        if change.op in (AlterOp.APPEND, AlterOp.SUBTRACT):
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"{AlterOp(change.op).name} operation is not allowed for the BROKER_LOGGER resource",
            )
        if change.name not in known:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        if change.op == AlterOp.DELETE:
            if change.name == ROOT:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
                )
        elif change.value not in LEVELS:
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log "
                f"level. Valid log levels are {', '.join(sorted(LEVELS))}",
            )


def apply(changes: Iterable[ConfigChange]) -> None:
    """Apply changes that `check` has accepted."""
    for change in changes:
        level = logging.NOTSET if change.op == AlterOp.DELETE else LEVELS[change.value or ""]
        _logger(change.name).setLevel(level)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _name_of(level: int) -> str:
    """The most severe of Kafka's levels that is not above ``level``."""
    return max((at, name) for name, at in LEVELS.items() if at <= max(level, LEVELS["TRACE"]))[1]
