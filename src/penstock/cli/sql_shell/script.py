"""Split text into statements, with their positions, and check whether the last one is complete. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.sql.language.errors import Place

LOCAL: Final = frozenset(("HELP", "EXIT", "QUIT", "CLEAR", "SPOOL", "HISTORY", "SERVER", "VERSION", "OUTPUT"))
"""Commands of the shell: each takes a whole line, with or without a semicolon."""

_PART: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\r\n]*|/\*.*?\*/)
  | (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)
  | (?P<open>/\*|['"`])
  | (?P<end>;)
  | (?P<word>\w+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LINE: Final = re.compile(r"[^\r\n]*")
_SET_CLI: Final = re.compile(r"SET\s+CLI\b", re.IGNORECASE)
"""The only shell command whose first word also begins a statement."""


@dataclass(frozen=True)
class Statement:
    """A statement of a script.

    ``text`` includes its semicolon, if there was one; ``words`` are those outside of quotes, in upper case.
    """

    text: str
    place: Place
    words: tuple[str, ...]
    is_ended: bool

    @property
    def is_local(self) -> bool:
        return self.words[:1] != () and (self.words[0] in LOCAL or self.begins("SET", "CLI"))

    def begins(self, *words: str) -> bool:
        return self.words[: len(words)] == words


def statements_of(text: str) -> list[Statement]:
    """The statements of a script or of typed input.

    An open quote or comment extends to the end of the text.
    """
    found: list[Statement] = []
    start: int | None = None
    words: list[str] = []
    last = at = 0
    while at < len(text):
        part = _PART.match(text, at)
        assert part is not None
        kind = part.lastgroup
        is_local = part.group().upper() in LOCAL or _SET_CLI.match(text, at) is not None
        if kind == "word" and start is None and is_local:
            found.append(_local(text, at))
            at += len(found[-1].text)
            continue
        at = len(text) if kind == "open" else part.end()
        if kind == "space" or (kind == "end" and start is None):
            continue
        start = part.start() if start is None else start
        last = at
        if kind == "word":
            words.append(part.group().upper())
        elif kind == "end":
            found.append(Statement(text[start:at], Place.of(text, start), tuple(words), is_ended=True))
            start, words = None, []
    if start is not None:
        found.append(Statement(text[start:last], Place.of(text, start), tuple(words), is_ended=False))
    return found


def _local(text: str, start: int) -> Statement:
    line = _LINE.match(text, start)
    assert line is not None
    words = line.group().upper().rstrip("; \t").split()
    return Statement(line.group(), Place.of(text, start), tuple(words), is_ended=True)


def is_complete(text: str) -> bool:
    """Whether typed input is ready to run."""
    found = statements_of(text)
    return not found or found[-1].is_ended
