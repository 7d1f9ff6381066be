"""The parser's position in a statement's tokens, and the tokens that would have been valid there.

The cursor records every token that the grammar tries without success, until it advances. An error can thus
list all alternatives at its position, and the grammar need not maintain such lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn

from penstock.sql.language.errors import SqlError, listed, shortened
from penstock.sql.language.keywords import RESERVED
from penstock.sql.language.parsing.lexer import Kind, Token

NESTING_MAX: Final = 40
"""Limits how deep expressions may nest: above what people write, and far below Python's recursion limit."""


class Cursor:
    """A position in one statement. The last of its ``tokens`` ends it (`;` or the end of the text)."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._index = 0
        self._expected: dict[str, None] = {}
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._index]

    def ahead(self, count: int = 1) -> Token:
        return self._tokens[min(self._index + count, len(self._tokens) - 1)]

    @property
    def at_end(self) -> bool:
        return self._index == len(self._tokens) - 1

    def advance(self) -> Token:
        token = self.token
        if not self.at_end:
            self._index += 1
            self._expected.clear()
        return token

    # Optional and required tokens

    def sees(self, *texts: str) -> bool:
        """Whether the next tokens are these words or symbols. Neither advances nor records an alternative."""
        return all(self._is(self.ahead(place), text) for place, text in enumerate(texts))

    @staticmethod
    def _is(token: Token, text: str) -> bool:
        return token.text == text and token.kind in (Kind.WORD, Kind.SYMBOL)

    def accept(self, *texts: str, what: str | None = None) -> bool:
        """Advance past these words or symbols if all of them are next.

        Otherwise record the first of them as an alternative for the error, or ``what``, a description for
        cases where there are too many words to list.
        """
        if self.sees(*texts):
            for _ in texts:
                self.advance()
            return True
        self._expected[what or texts[0]] = None
        return False

    def accept_one(self, *texts: str, what: str | None = None) -> str | None:
        return next((text for text in texts if self.accept(text, what=what)), None)

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.accept(text):
                self.fail()

    def expect_one(self, *texts: str) -> str:
        taken = self.accept_one(*texts)
        return self.fail() if taken is None else taken

    def wants(self, what: str) -> None:
        """Record an alternative that is not a fixed word, such as "a string"."""
        self._expected[what] = None

    def at_name(self) -> bool:
        token = self.token
        return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.text not in RESERVED)

    def name(self, what: str) -> str:
        token = self.token
        if token.kind is Kind.WORD and token.text in RESERVED and not self._expected:
            problem = (
                f"found the reserved word {token.source}, expected {what}, or `{token.text}` in back quotes"
            )
            raise SqlError(problem, found=token.source, expected=(what,)).at(self.text, token.start)
        if not self.at_name():
            self.wants(what)
            self.fail()
        if not token.text:
            raise self.error(f"found an empty name, expected {what}")
        return self.advance().text

    def string(self, what: str = "a string") -> str:
        if self.token.kind is not Kind.STRING:
            self.wants(what)
            self.fail()
        return self.advance().text

    def integer(self, what: str = "an integer") -> int:
        if self.token.kind is not Kind.INTEGER or len(self.token.text) > 19:
            self.wants(what)
            self.fail()
        return int(self.advance().text)

    # Errors

    def error(self, problem: str, token: Token | None = None) -> SqlError:
        return SqlError(problem).at(self.text, (token or self.token).start)

    def fail(self) -> NoReturn:
        expected = tuple(self._expected) or ("the end of the statement",)
        token = self.token
        if token.kind is Kind.END:
            found = shown = "the end of the text"
        elif token.source == ";":
            found = shown = "the end of the statement"
        else:
            found = shortened(token.source)
            shown = found
            if token.kind is Kind.SYMBOL:  # make an unprintable character, such as a Unicode space, visible
                shown = f"'{found}'" if found.isprintable() else repr(found)
        problem = f"found {shown}, expected {listed(expected)}"
        raise SqlError(problem, found=found, expected=expected).at(self.text, token.start)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Enter one nesting level; raises a SqlError beyond NESTING_MAX levels."""
        if self._depth == NESTING_MAX:
            raise self.error(f"found more than {NESTING_MAX} levels, one inside the other")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
