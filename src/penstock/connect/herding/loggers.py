"""Read and change the levels of Python's loggers, under log4j's names as Connect's API has them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from penstock.connect.herding.entities import LoggerLevel

_ROOT: Final = "root"
_LEVELS: Final[Mapping[str, int]] = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}


class Loggers:
    """The loggers of this process. Any thread may call its methods."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._modified_ms: dict[str, int] = {}

    def levels(self) -> dict[str, LoggerLevel]:
        """Return the effective levels of all loggers that exist, except those that are off, by name."""
        found = {name: self._level_of(name, logger) for name, logger in sorted(_existing().items())}
        return {name: level for name, level in found.items() if level.level != "OFF"}

    def level(self, name: str) -> LoggerLevel | None:
        """Return the effective level of a logger; None if it does not exist."""
        known = _known_name(name)
        logger = _existing().get(known)
        return None if logger is None else self._level_of(known, logger)

    def set_level(self, namespace: str, level: str) -> list[str]:
        """Set the level of a logger and of those below it; return the names of those that it changes.

        A logger that did not exist counts as changed. An unknown level changes nothing.
        """
        number = _LEVELS.get(level.upper())
        if number is None:
            return []
        known = _known_name(namespace)
        loggers = _existing()
        is_new = known not in loggers
        loggers.setdefault(known, logging.getLogger(known))
        changed = []
        with self._lock:
            for name, logger in sorted(loggers.items()):
                if known == _ROOT or name == known or name.startswith(f"{known}."):
                    if logger.getEffectiveLevel() != number or (is_new and name == known):
                        changed.append(name)
                        self._modified_ms[name] = self._clock_ms()
                    logger.setLevel(number)
        return changed

    def _level_of(self, name: str, logger: logging.Logger) -> LoggerLevel:
        number = logger.getEffectiveLevel()
        level = next((level for level, least in _LEVELS.items() if number >= least), "ALL")
        return LoggerLevel(level, self._modified_ms.get(name))


def _known_name(name: str) -> str:
    return _ROOT if name == "" or name.lower() == _ROOT else name


def _existing() -> dict[str, logging.Logger]:
    named = dict(logging.root.manager.loggerDict)
    loggers = {name: each for name, each in named.items() if isinstance(each, logging.Logger)}
    return {_ROOT: logging.root, **loggers}
