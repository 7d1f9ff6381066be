"""Text into statements: where each ends, where it stands, and whether the last one is complete. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.sql.errors import Place

#: Commands of the shell: each has a line of its own, with or without a semicolon.
LOCAL: Final = frozenset(("HELP", "EXIT", "QUIT", "CLEAR", "SPOOL", "HISTORY", "SERVER", "VERSION", "OUTPUT"))
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
#: The one whose first word begins a statement, too.
_SET_CLI: Final = re.compile(r"SET\s+CLI\b", re.IGNORECASE)


@dataclass(frozen=True)
class Statement:
    """``text`` has its semicolon, if there was one; ``words`` are those outside of quotes, in upper case."""

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
    """Those of a script or of what was typed. Quotes and comments that don't end reach to the end of it."""
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
    """Whether what was typed is to be carried out."""
    found = statements_of(text)
    return not found or found[-1].is_ended
