"""Completions of the word being typed: keywords, and names that the server knows."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from penstock.cli.sql_shell.rest import Refused, Unreachable
from penstock.cli.sql_shell.script import LOCAL, statements_of
from penstock.cli.sql_shell.session import Session
from penstock.sql.language.keywords import RESERVED, quoted

_AGE_S: Final = 5.0
"""How long names are considered current."""

_FIRST: Final = (
    *("ALTER", "ASSERT", "CREATE", "DEFINE", "DESCRIBE", "DROP", "EXPLAIN", "INSERT INTO", "LIST", "PAUSE"),
    *("PRINT", "RESUME", "RUN SCRIPT", "SELECT", "SET", "SHOW", "TERMINATE", "UNDEFINE", "UNSET"),
)
_OTHER: Final = (
    *("CHANGES", "EMIT", "EMIT CHANGES", "EMIT FINAL", "FUNCTION", "FUNCTIONS", "GRACE PERIOD", "HEADER"),
    *("HEADERS", "IF EXISTS", "IF NOT EXISTS", "KEY", "PARTITION BY", "PRIMARY KEY", "REPLACE", "SHOW"),
    *("SESSION", "SOURCE", "TYPE", "TYPES", "VARIABLES", "STRUCT", "ARRAY", "MAP", "BIGINT", "BOOLEAN"),
    *("BYTES", "DATE", "DOUBLE", "INTEGER", "STRING", "TIME", "TIMESTAMP", "VARCHAR"),
)
_WORD: Final = re.compile(r"[\w@]*$")
_IN_STRING: Final = re.compile(r"'([^']*)$")
_BEFORE_SOURCE: Final = frozenset(("FROM", "JOIN", "INTO", "DESCRIBE", "EXISTS"))
_BEFORE_QUERY: Final = frozenset(("TERMINATE", "PAUSE", "RESUME", "EXPLAIN"))


class Names:
    """The server's names, fetched again when they are old; empty if the server does not answer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[str, tuple[float, list[str]]] = {}

    def sources(self) -> list[str]:
        return [*self._of("SHOW STREAMS;", "streams"), *self._of("SHOW TABLES;", "tables")]

    def functions(self) -> list[str]:
        return self._of("SHOW FUNCTIONS;", "functions")

    def properties(self) -> list[str]:
        return self._of("SHOW PROPERTIES;", "properties")

    def topics(self) -> list[str]:
        return self._of("SHOW TOPICS;", "topics")

    def queries(self) -> list[str]:
        return self._of("SHOW QUERIES;", "queries", "id")

    def forget(self) -> None:
        """Drop all names after a statement, which may have changed some."""
        self._kept.clear()

    def _of(self, statement: str, part: str, name: str = "name") -> list[str]:
        at_s, found = self._kept.get(statement, (0.0, []))
        if time.monotonic() - at_s > _AGE_S:
            try:
                [entity] = self._session.rest.execute({"ksql": statement})
                found = [str(each[name]) for each in entity[part]]
            except (Unreachable, Refused, ValueError, KeyError, TypeError):
                found = []
            self._kept[statement] = (time.monotonic(), found)
        return found


class SqlCompleter(Completer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if (string := _open_string(before)) is not None:
            yield from self._in_string(before, string)
            return
        match = _WORD.search(before)
        word = match.group() if match else ""
        if not word and not complete_event.completion_requested:
            return
        statement = statements_of(before[: len(before) - len(word)])[-1:]
        words = statement[0].words if statement and not statement[0].is_ended else ()
        yield from _matching(word, self._candidates(words))

    def _candidates(self, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """The candidates that may follow the statement's words, with their kinds."""
        if not words:
            yield from ((each, "keyword") for each in _FIRST)
            yield from ((each, "command") for each in sorted(LOCAL))
            return
        is_drop = words[0] in ("DROP", "ALTER") and words[-1] in ("STREAM", "TABLE")
        if words[-1] in _BEFORE_QUERY:
            yield from ((each, "query") for each in self._names.queries())
        if words[0] == "PRINT" and len(words) == 1:
            yield from ((each, "topic") for each in self._names.topics())
        elif words[-1] in _BEFORE_SOURCE or is_drop:
            yield from ((quoted(each), "source") for each in self._names.sources())
        else:
            yield from ((each, "keyword") for each in sorted({*RESERVED, *_OTHER}))
            yield from ((each, "function") for each in self._names.functions())
            yield from ((quoted(each), "source") for each in self._names.sources())

    def _in_string(self, before: str, string: str) -> Iterator[Completion]:
        words = statements_of(before[: len(before) - len(string) - 1])[-1:]
        first = words[0].words[:1] if words else ()
        known: Callable[[], list[str]] | None = None
        if first in (("SET",), ("UNSET",)) and "=" not in before.rpartition(";")[2]:
            known = self._names.properties
        elif first == ("PRINT",):
            known = self._names.topics
        elif first == ("RUN",):
            yield from _files(string)
        if known is not None:
            for name in known():
                if name.lower().startswith(string.lower()):
                    yield Completion(name, -len(string))


def _open_string(before: str) -> str | None:
    """The text behind a quote that is still open."""
    last = statements_of(before)[-1:]
    if not last or last[0].is_ended or last[0].text.count("'") % 2 == 0:
        return None
    match = _IN_STRING.search(before)
    return match[1] if match else None


def _matching(word: str, candidates: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    """Completions in the case of the typed word."""
    is_lower = word.islower()
    told: set[str] = set()
    for name, kind in candidates:
        if name.upper().startswith(word.upper()) and name.upper() != word.upper() and name not in told:
            told.add(name)
            shown = name.lower() if is_lower and kind in ("keyword", "function", "command") else name
            yield Completion(shown, -len(word), display_meta=kind)


def _files(string: str) -> Iterator[Completion]:
    typed = Path(string).expanduser()
    folder, start = (typed, "") if string.endswith("/") or not string else (typed.parent, typed.name)
    try:
        found: list[Any] = sorted(each for each in folder.iterdir() if each.name.startswith(start))
    except OSError:
        return
    for path in found:
        if path.is_dir() or path.suffix == ".sql":
            yield Completion(path.name + ("/" if path.is_dir() else ""), -len(start))
