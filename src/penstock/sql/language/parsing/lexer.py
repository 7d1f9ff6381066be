"""The lexer, which splits a text into tokens with their places and substitutes variables (`${name}`).

sqlglot's own tokenizer does not fit: it drops comments of other languages (`{# … #}`), reads `N'…'` as a
string, splits `1abc`, joins words (`GROUP BY`), and lacks ksqlDB's token for variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from penstock.sql.language.errors import SqlError, shortened


class Kind(Enum):
    WORD = "a word"  # text in upper case; a name or a keyword
    NAME = "a quoted name"
    STRING = "a string"
    INTEGER = "an integer"
    DECIMAL = "a decimal"
    FLOAT = "a floating-point number"
    SYMBOL = "a symbol"
    VARIABLE = "a variable"
    END = "the end of the text"


TOKENS_MAX: Final = 1_000_000
"""Limits the tokens of one text, as a token takes much more memory than its characters."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token. ``source`` is its literal text; ``text`` has no quotes, and words are in upper case."""

    kind: Kind
    text: str
    source: str
    start: int
    end: int


_PATTERN: Final = re.compile(
    r"""
    (?P<space>[ \r\n\t]+|--[^\r\n]*|/\*.*?\*/)
  | (?P<FLOAT>(?:\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d+(?![\w@]))
  | (?P<digits>\d+(?=[A-Za-z_@])[A-Za-z0-9_@]*)  # a name too
  | (?P<DECIMAL>\d+\.\d*|\.\d+)
  | (?P<INTEGER>\d+)
  | (?P<WORD>[A-Za-z_][A-Za-z0-9_@]*)
  | (?P<STRING>'[^']*+(?:''[^']*+)*+')  # possessive: long texts need no stack to backtrack
  | (?P<NAME>"[^"]*+(?:""[^"]*+)*+"|`[^`]*+(?:``[^`]*+)*+`)
  | (?P<VARIABLE>\$\{[A-Za-z_][A-Za-z0-9_@]*\})
  | (?P<SYMBOL>->|=>|:=|<>|!=|<=|>=|\|\||/(?!\*)|[-+*%=<>()\[\],.;])
  | (?P<stray>[^'"`/])  # part of no statement; the parser knows best what it expected
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_@]*)\}", re.ASCII)
_OPENED: Final = {"'": "string", '"': "name", "`": "name", "/*": "comment"}
_KINDS: Final = {"digits": Kind.WORD, "stray": Kind.SYMBOL}
_SUBSTITUTES: Final = frozenset({Kind.WORD, Kind.NAME, Kind.STRING, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT})
"""The tokens, besides a negative number, that a variable outside quotes may expand to."""


def tokens_of(text: str) -> list[Token]:
    """Split a text into its tokens and a last one of kind END.

    Raises SqlError for an unclosed quote or comment, or more than TOKENS_MAX tokens.
    """
    found: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _PATTERN.match(text, offset)
        if match is None:
            raise _unfinished(text, offset)
        group, source = match.lastgroup, match.group()
        if group is not None and group != "space":
            if len(found) == TOKENS_MAX:
                raise SqlError(f"found more than {TOKENS_MAX} words and symbols in one text").at(text, offset)
            kind = _KINDS.get(group) or Kind[group]
            found.append(Token(kind, _meaning(kind, source), source, offset, match.end()))
        offset = match.end()
    found.append(Token(Kind.END, "", "", len(text), len(text)))
    return found


def _meaning(kind: Kind, source: str) -> str:
    if kind is Kind.WORD:
        return source.upper()
    if kind in (Kind.STRING, Kind.NAME):
        return source[1:-1].replace(source[0] * 2, source[0])
    if kind is Kind.VARIABLE:
        return source[2:-1]
    return "<>" if source == "!=" else source


def _unfinished(text: str, offset: int) -> SqlError:
    opening = next(each for each in _OPENED if text.startswith(each, offset))
    closing = "*/" if opening == "/*" else opening
    problem = f"found a {_OPENED[opening]} that does not end, expected {closing}"
    return SqlError(problem, found=opening, expected=(closing,)).at(text, offset)


def substituted(text: str, token: Token, variables: Mapping[str, str]) -> list[Token]:
    """Expand the variables of one token.

    Inside quotes a variable is replaced by its text, and an undefined variable is left as it is. Outside
    quotes it must expand to one literal or name, so that no value can change the statement's structure.
    """
    if token.kind in (Kind.STRING, Kind.NAME):
        if "${" not in token.text:
            return [token]
        value = _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), token.text)
        return [replace(token, text=value)]
    if token.kind is not Kind.VARIABLE:
        return [token]
    if token.text not in variables:
        raise SqlError(
            f"found ${{{token.text}}}, expected a variable that is defined (DEFINE {token.text} = '…')",
            found=token.source,
            expected=("a defined variable",),
        ).at(text, token.start)
    return [
        replace(part, start=token.start, end=token.end)
        for part in _value_tokens(text, token, variables[token.text])
    ]


def _value_tokens(text: str, token: Token, value: str) -> list[Token]:
    try:
        parts = tokens_of(value)[:-1]
    except SqlError:
        parts = []
    match [part.kind for part in parts]:
        case [kind] if kind in _SUBSTITUTES:
            return parts
        case [Kind.SYMBOL, Kind.INTEGER | Kind.DECIMAL | Kind.FLOAT] if parts[0].text == "-":
            return parts
    raise SqlError(
        f"the variable {token.text} has the value {shortened(value)!r}, expected one literal or name",
        found=value,
        expected=("a literal", "a name"),
    ).at(text, token.start)
