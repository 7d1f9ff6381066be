"""Split a `.proto` text into words, strings and signs with their positions."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from penstock.registry.formats.errors import SchemaError

_SKIPPED: Final = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""(?P<word>[\w.+-]+)|(?P<string>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')|(?P<sign>[{}()\[\]<>=;:,/])""",
    re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"
)
_SHORT: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Token(NamedTuple):
    """A token. ``kind`` is word (names with their dots, numbers), string, sign, or end."""

    kind: str
    text: str
    position: int


class Tokens:
    """A reader that moves through the tokens of a text and reports errors with line and column."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = self._read(0)

    def peek(self) -> Token:
        return self._next

    def next(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._next = self._read(token.position + len(token.text))
        return token

    def take(self, text: str) -> bool:
        """Consume the next token if it is this word or sign, and return whether it was."""
        if self._next.text == text and self._next.kind != "string":
            self.next()
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error(f"expected {text!r}")

    def word(self, what: str) -> str:
        if self._next.kind != "word":
            raise self.error(f"expected {what}")
        return self.next().text

    def string(self, what: str) -> str:
        """Consume a string; adjacent strings are joined."""
        if self._next.kind != "string":
            raise self.error(f"expected {what} in quotes")
        parts = []
        while self._next.kind == "string":
            parts.append(_ESCAPE.sub(_unescaped, self.next().text[1:-1]))
        return "".join(parts)

    def error(self, what: str, at: Token | None = None) -> SchemaError:
        """Build an error that names what was found instead, with line and column."""
        token = self._next if at is None else at
        found = "the end of the text" if token.kind == "end" else repr(token.text[:40])
        line = self._text.count("\n", 0, token.position) + 1
        column = token.position - self._text.rfind("\n", 0, token.position)
        return SchemaError(f"line {line}, column {column}: {what}, found {found}")

    def _read(self, position: int) -> Token:
        skipped = _SKIPPED.match(self._text, position)
        assert skipped is not None
        position = skipped.end()
        if position == len(self._text):
            return Token("end", "", position)
        match = _TOKEN.match(self._text, position)
        if match is None or match.lastgroup is None or self._text.startswith("/*", position):
            what = "a comment has no end" if self._text.startswith("/*", position) else "unexpected character"
            raise self.error(what, Token("sign", self._text[position], position))
        return Token(match.lastgroup, match[0], position)


def _unescaped(match: re.Match[str]) -> str:
    hexadecimal, octal, unicode4, unicode8, other = match.groups()
    if other is not None:
        return _SHORT.get(other, other)
    code = int(octal, 8) if octal is not None else int(hexadecimal or unicode4 or unicode8, 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\N{REPLACEMENT CHARACTER}"
