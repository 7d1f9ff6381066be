"""Regular expressions sent by clients, matched by RE2 in time linear in the length of the text.

Clients send patterns over the wire. A server that matched them by backtracking, as Python's `re` does, could
be blocked for hours by `(a+)+b`. Kafka uses RE2/J for that reason, so its clients know this syntax:
https://github.com/google/re2/wiki/Syntax. It has no backreferences and no lookaround.

A module enters this package if it makes patterns from outside safe to compile and to match.
"""

from __future__ import annotations

from typing import Final

import re2

__all__ = ["Pattern", "PatternError"]

MEMORY_MAX_BYTES: Final = 1 << 20
"""Limits a compiled pattern with its cached states, since `re2` keeps the last 128 patterns."""


class PatternError(ValueError):
    """The pattern is invalid or too large; the message gives the reason."""


class Pattern:
    """A compiled pattern, for use by any thread. Raises PatternError."""

    def __init__(self, text: str) -> None:
        try:
            self._compiled = re2.compile(_encoded(text), _OPTIONS)
        except re2.error as error:
            raise PatternError(_reason(error)) from None

    def fullmatch(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        return self._compiled.fullmatch(_encoded(text)) is not None


def _encoded(text: str) -> bytes:
    """Encode the text, so that `re2` converts no offsets to characters. JSON can contain lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _reason(error: Exception) -> str:
    (reason,) = error.args
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _quiet_options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX_BYTES
    options.never_capture = True
    return options


_OPTIONS: Final = _quiet_options()
