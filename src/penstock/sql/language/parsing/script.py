"""Parsing of scripts: statements with their text and place, and variables that apply from their DEFINE on."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass

from penstock.sql.language.errors import Place, SqlError
from penstock.sql.language.parsing.commands import parse_statement
from penstock.sql.language.parsing.cursor import Cursor
from penstock.sql.language.parsing.lexer import Kind, Token, substituted, tokens_of
from penstock.sql.language.statements import Define, Statement, Undefine


@dataclass(frozen=True)
class ScriptStatement:
    """A statement of a script. ``text`` is its original text, without the semicolon."""

    statement: Statement
    text: str
    place: Place


def parse_script(text: str, variables: MutableMapping[str, str] | None = None) -> Iterator[ScriptStatement]:
    """Parse the statements of a script lazily, so that the caller may run each before the next is parsed.

    ``variables`` are those of the session; DEFINE and UNDEFINE change them. The last statement may lack
    its semicolon. Raises a SqlError at the first invalid statement.
    """
    known: MutableMapping[str, str] = {} if variables is None else variables
    place = Place.of(text, 0)
    for tokens in _split(tokens_of(text)):
        replaced = [part for token in tokens for part in substituted(text, token, known)]
        statement = parse_statement(Cursor(text, replaced))
        if isinstance(statement, Define):
            known[statement.name] = statement.value
        elif isinstance(statement, Undefine):
            known.pop(statement.name, None)
        start = tokens[0].start
        place = place.moved(text, start)
        yield ScriptStatement(statement, text[start : tokens[-2].end], place)


def parse(text: str, variables: MutableMapping[str, str] | None = None) -> Statement:
    """Parse a text that holds exactly one statement."""
    found: list[ScriptStatement] = []
    for each in parse_script(text, variables):
        if found:
            raise _count_error("another statement").at(text, each.place.offset)
        found.append(each)
    if not found:
        raise _count_error("none").at(text, len(text))
    return found[0].statement


def _count_error(found: str) -> SqlError:
    return SqlError(f"found {found}, expected one statement", found=found, expected=("one statement",))


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield each statement's tokens with its end token. Empty statements are skipped."""
    current: list[Token] = []
    for token in tokens:
        is_last = token.kind is Kind.END or (token.kind is Kind.SYMBOL and token.text == ";")
        if is_last and not current:
            continue
        current.append(token)
        if is_last:
            yield current
            current = []
