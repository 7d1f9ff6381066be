"""Regular expressions sent by clients, matched by RE2 in time linear in the length of the text.

Clients send patterns over the wire. A server that matched them by backtracking, as Python's `re` does, could
be blocked for hours by `(a+)+b`. Kafka uses RE2/J for that reason, so its clients know this syntax:
https://github.com/google/re2/wiki/Syntax. It has no backreferences and no lookaround.

A module enters this package if it makes patterns from outside safe to compile and to match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import re2

__all__ = ["Groups", "Pattern", "PatternError"]

MEMORY_MAX_BYTES: Final = 1 << 20
"""Limits a compiled pattern with its cached states, since `re2` keeps the last 128 patterns."""


class PatternError(ValueError):
    """The pattern is invalid or too large; the message gives the reason."""


Groups = tuple[str | None, ...]
"""The texts of a match and of its groups, the whole match first; None for a group that took no part."""


class Pattern:
    """A compiled pattern, for use by any thread. Raises PatternError.

    Only patterns with ``captures`` have groups and can replace; the others take less time and memory.
    """

    def __init__(self, text: str, *, captures: bool = False) -> None:
        try:
            self._compiled = re2.compile(_encoded(text), _CAPTURING if captures else _OPTIONS)
        except re2.error as error:
            raise PatternError(_reason(error)) from None

    def fullmatch(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        return self._compiled.fullmatch(_encoded(text)) is not None

    @property
    def group_count(self) -> int:
        """The number of groups, without the whole match."""
        count: int = self._compiled.groups
        return count

    @property
    def group_names(self) -> Mapping[str, int]:
        """The numbers of the groups that have names."""
        return {name.decode(): number for name, number in self._compiled.groupindex.items()}

    def replace_first(self, text: str, replacement: Callable[[Groups], str]) -> str:
        """Replace the leftmost match."""
        return self._replace(text, replacement, is_first_only=True)

    def replace_all(self, text: str, replacement: Callable[[Groups], str]) -> str:
        """Replace every match from left to right, as Java's ``Matcher.replaceAll`` finds them.

        A match may be empty, also directly after another match.
        """
        return self._replace(text, replacement, is_first_only=False)

    def _replace(self, text: str, replacement: Callable[[Groups], str], *, is_first_only: bool) -> str:
        encoded = _encoded(text)
        parts: list[bytes] = []
        copied = start = 0
        while start <= len(encoded) and (match := self._compiled.search(encoded, start)) is not None:
            first, end = match.span()
            parts.append(encoded[copied:first])
            parts.append(_encoded(replacement(tuple(map(_decoded, (match.group(), *match.groups()))))))
            copied = end
            if is_first_only:
                break
            start = end if end > first else _next_character(encoded, end)
        parts.append(encoded[copied:])
        return b"".join(parts).decode("utf-8", "surrogatepass")


def _encoded(text: str) -> bytes:
    """Encode the text, so that `re2` converts no offsets to characters. JSON can contain lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode("utf-8", "surrogatepass")


def _next_character(encoded: bytes, at: int) -> int:
    """The offset of the character after the one at ``at``; behind the text's end, at its end."""
    at += 1
    while at < len(encoded) and encoded[at] & 0xC0 == 0x80:
        at += 1
    return at


def _reason(error: Exception) -> str:
    (reason,) = error.args
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _quiet_options(*, captures: bool) -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX_BYTES
    options.never_capture = not captures
    return options


_OPTIONS: Final = _quiet_options(captures=False)
_CAPTURING: Final = _quiet_options(captures=True)
