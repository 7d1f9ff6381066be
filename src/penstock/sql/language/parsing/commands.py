"""The dispatch of statements by their first word, and the parsers of SHOW, DESCRIBE, SET, TERMINATE, …"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.sql.language.parsing import definitions
from penstock.sql.language.parsing.cursor import Cursor
from penstock.sql.language.parsing.lexer import Kind
from penstock.sql.language.parsing.queries import parse_query
from penstock.sql.language.statements import (
    AlterSystem,
    ControlQuery,
    Define,
    Describe,
    Described,
    Explain,
    Listed,
    Print,
    QueryAction,
    RunScript,
    SetProperty,
    Show,
    SourceKind,
    Statement,
    Undefine,
    UnsetProperty,
)

_EXTENDED: Final = {Listed.TOPICS, Listed.STREAMS, Listed.TABLES, Listed.QUERIES}


def parse_statement(cursor: Cursor) -> Statement:
    """Parse the one statement of a cursor, up to its end."""
    statement = _statement(cursor)
    if not cursor.at_end:
        cursor.wants("the end of the statement")
        cursor.fail()
    return statement


def _statement(cursor: Cursor) -> Statement:
    if cursor.sees("SELECT"):
        return parse_query(cursor)
    word = cursor.accept_one(*_STATEMENTS)
    if word is None:
        cursor.wants("SELECT")
        cursor.fail()
    return _STATEMENTS[word](cursor)


def _show(cursor: Cursor) -> Show:
    if cursor.accept("ALL"):
        cursor.expect("TOPICS")
        return Show(Listed.TOPICS, cursor.accept("EXTENDED"), everything=True)
    kind = cursor.accept_one("SOURCE", "SINK")
    if kind is not None:
        cursor.expect("CONNECTORS")
        return Show(Listed(f"{kind} CONNECTORS"))
    if cursor.accept("CONNECTOR"):
        cursor.expect("PLUGINS")
        return Show(Listed.CONNECTOR_PLUGINS)
    what = Listed(cursor.expect_one(*(listed.value for listed in Listed if " " not in listed.value)))
    return Show(what, what in _EXTENDED and cursor.accept("EXTENDED"))


def _describe(cursor: Cursor) -> Describe:
    if cursor.accept("STREAMS"):
        return Describe(Described.STREAMS, extended=cursor.accept("EXTENDED"))
    if cursor.sees("TABLES") and cursor.ahead().text in (";", "", "EXTENDED"):
        cursor.advance()
        return Describe(Described.TABLES, extended=cursor.accept("EXTENDED"))
    if cursor.accept("CONNECTOR"):
        return Describe(Described.CONNECTOR, cursor.name("a connector's name"))
    if cursor.sees("FUNCTION") and cursor.ahead().text not in (";", "", "EXTENDED"):
        cursor.advance()
        start = cursor.token.start
        return Describe(Described.FUNCTION, cursor.name("a function's name").upper(), start=start)
    start = cursor.token.start
    name = cursor.name("a stream or table")
    return Describe(Described.SOURCE, name, cursor.accept("EXTENDED"), start)


def _explain(cursor: Cursor) -> Explain:
    if cursor.at_name() and cursor.ahead().text in (";", ""):
        return Explain(query_id=cursor.name("a query"))
    with cursor.nested():
        cursor.wants("a query")
        return Explain(_statement(cursor))


def _print(cursor: Cursor) -> Print:
    topic = definitions.resource(cursor, "a topic")
    from_beginning = cursor.accept("FROM")
    if from_beginning:
        cursor.expect("BEGINNING")
    interval = cursor.integer("a number of records") if cursor.accept_one("INTERVAL", "SAMPLE") else None
    limit = cursor.integer("a number of records") if cursor.accept("LIMIT") else None
    return Print(topic, from_beginning, interval, limit)


def _control(action: QueryAction) -> Callable[[Cursor], ControlQuery]:
    def parse(cursor: Cursor) -> ControlQuery:
        return ControlQuery(action, None if cursor.accept("ALL") else cursor.name("a query"))

    return parse


def _assignment(cursor: Cursor) -> tuple[str, str]:
    name = cursor.string("a property's name in quotes")
    cursor.expect("=")
    return name, cursor.string("a value in quotes")


def _set(cursor: Cursor) -> SetProperty:
    return SetProperty(*_assignment(cursor))


def _unset(cursor: Cursor) -> UnsetProperty:
    return UnsetProperty(cursor.string("a property's name in quotes"))


def _alter(cursor: Cursor) -> Statement:
    word = cursor.expect_one("STREAM", "TABLE", "SYSTEM")
    if word == "SYSTEM":
        return AlterSystem(*_assignment(cursor))
    return definitions.alter_source(cursor, SourceKind(word))


def _define(cursor: Cursor) -> Define:
    name = _variable(cursor)
    cursor.expect("=")
    return Define(name, cursor.string("a value in quotes"))


def _undefine(cursor: Cursor) -> Undefine:
    return Undefine(_variable(cursor))


def _variable(cursor: Cursor) -> str:
    """Parse a variable's name. It keeps its case, as in ${…}."""
    token = cursor.token
    if token.kind is not Kind.WORD:
        cursor.wants("a variable's name")
        cursor.fail()
    cursor.name("a variable's name")
    return token.source


def _run(cursor: Cursor) -> RunScript:
    cursor.expect("SCRIPT")
    return RunScript(cursor.string("a file in quotes"))


_STATEMENTS: Final[dict[str, Callable[[Cursor], Statement]]] = {
    "CREATE": definitions.create,
    "INSERT": definitions.insert,
    "DROP": definitions.drop,
    "ALTER": _alter,
    "ASSERT": definitions.assert_,
    "SHOW": _show,
    "LIST": _show,
    "DESCRIBE": _describe,
    "EXPLAIN": _explain,
    "PRINT": _print,
    "TERMINATE": _control(QueryAction.TERMINATE),
    "PAUSE": _control(QueryAction.PAUSE),
    "RESUME": _control(QueryAction.RESUME),
    "SET": _set,
    "UNSET": _unset,
    "DEFINE": _define,
    "UNDEFINE": _undefine,
    "RUN": _run,
}
