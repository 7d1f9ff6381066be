"""Folders named by times, in the patterns of Joda-Time: ``'year'=YYYY/'month'=MM``."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from typing import Final

from penstock.connect.errors import ConfigInvalid, DataError
from penstock.java.dates import SimpleDateFormat

_PART: Final = re.compile(r"'(?:[^']|'')*'|[A-Za-z]+|.", re.DOTALL)
_JODA: Final = {"Y": "y", "x": "Y"}
"""Letters of Joda-Time that have another name in SimpleDateFormat: the year of an era and of weeks."""
_KNOWN: Final = frozenset("GyYxMwDdEaHkKhmsS")
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_UNIX: Final = _EPOCH.replace(tzinfo=datetime.UTC)
_MS: Final = datetime.timedelta(milliseconds=1)


class PathFormat:
    """Names folders by the times at which periods of ``duration_ms`` begin, in one time zone."""

    def __init__(self, pattern: str, timezone: str, duration_ms: int) -> None:
        """Raise ConfigInvalid for a pattern or time zone that is not known."""
        try:
            self._zone = zoneinfo.ZoneInfo(timezone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
            raise ConfigInvalid(
                f"timezone is {timezone!r}: expected a name such as UTC or Europe/Paris"
            ) from error
        self._format = SimpleDateFormat(_as_simple(pattern))
        self._duration_ms = duration_ms
        self._last = (-1, "")

    def folder(self, millis: int) -> str:
        """Return the folder for a moment, given in milliseconds since 1970. Raises DataError."""
        try:
            local = (_UNIX + millis * _MS).astimezone(self._zone).replace(tzinfo=None)
        except (OverflowError, ValueError) as error:
            raise DataError(
                f"no folder has the time {millis}: expected milliseconds since 1970, in years 1 to 9999"
            ) from error
        period = (local - _EPOCH) // _MS // self._duration_ms * self._duration_ms
        if period != self._last[0]:
            self._last = (period, self._format.format(period))
        return self._last[1]


def _as_simple(pattern: str) -> str:
    """Return a pattern of Joda-Time in SimpleDateFormat's letters."""
    parts = []
    for part in _PART.findall(pattern):
        if part[0].isalpha():
            for letter in part:
                if letter not in _KNOWN:
                    raise ConfigInvalid(
                        f"path.format is {pattern!r}: the letter {letter!r} has no meaning, "
                        "expected text in quotes"
                    )
            part = "".join(_JODA.get(letter, letter) for letter in part)
        parts.append(part)
    return "".join(parts)
