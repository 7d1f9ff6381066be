"""Recognizes statements that change schemas, and the tables that they change. Pure.

This does not parse DDL: columns and types come with each table map, so only the kind of a statement and the
names of its tables are needed, for the topic of schema changes, for TRUNCATE, and to read defaults again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_COMMENTS: Final = re.compile(r"/\*(?!!).*?\*/|(?:--\s|#)[^\n]*(?:\n|$)", re.DOTALL)
_SETTINGS: Final = re.compile(r"SET\s+STATEMENT\s.*?\sFOR\s", re.IGNORECASE | re.DOTALL)
_NAME: Final = r"(?:`(?:[^`]|``)+`|\"[^\"]+\"|[\w$\u0080-\uffff]+)"
_TABLE: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_STATEMENT: Final = re.compile(
    r"""(?P<kind>CREATE|ALTER|DROP|TRUNCATE|RENAME)\s+
    (?:OR\s+REPLACE\s+|ONLINE\s+|IGNORE\s+|UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)*
    (?:(?P<what>TABLES?|DATABASE|SCHEMA|INDEX)\b\s*)?
    (?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?P<rest>.*)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ON_TABLE: Final = re.compile(rf".*?\bON\s+({_TABLE})", re.IGNORECASE | re.DOTALL)
_FIRST: Final = re.compile(rf"\s*({_TABLE})")
_PARTS: Final = re.compile(_NAME)
_RENAMED: Final = re.compile(rf"({_TABLE})\s*(?:WAIT\s+\d+\s+|NOWAIT\s+)?\bTO\s+({_TABLE})", re.IGNORECASE)
_ALSO_RENAMED: Final = re.compile(rf"\bRENAME\s+(?:TO\s+|AS\s+)?({_TABLE})\s*$", re.IGNORECASE)
_CHANGES_ROWS: Final = re.compile(r"(?:WITH|INSERT|REPLACE|UPDATE|DELETE|LOAD)\b", re.IGNORECASE)
_NAMED: Final = re.compile(
    r"""\b(?:INSERT|REPLACE|UPDATE|DELETE|INTO|FROM|JOIN)\s+
    (?:(?:LOW_PRIORITY|HIGH_PRIORITY|DELAYED|QUICK|IGNORE|INTO|TABLE|FROM)\s+)*"""
    rf"({_TABLE})",
    re.IGNORECASE | re.VERBOSE,
)
_ALSO_NAMED: Final = re.compile(rf",\s*({_TABLE})")
_NAMES_WITHIN: Final = 4096
"""Characters of a statement in which the names of tables are sought: long ones hold long lists of values."""
_NOT_TABLES: Final = {"COLUMN", "INDEX", "KEY"}


class Ddl(NamedTuple):
    """A statement: CREATE, ALTER, DROP, TRUNCATE or DATABASE, and its tables as database and name."""

    kind: str
    database: str
    tables: tuple[tuple[str, str], ...]

    @property
    def table_names(self) -> str:
        """The names of the tables, separated by commas."""
        return ",".join(name for _, name in self.tables)


def read_ddl(statement: str, database: str) -> Ddl | None:
    """The tables that a statement changes; None for any other statement. ``database`` is the current one."""
    text = _SETTINGS.sub("", _COMMENTS.sub(" ", statement), count=1).strip()
    found = _STATEMENT.match(text)
    if found is None:
        return None
    kind, what, rest = found["kind"].upper(), (found["what"] or "").upper(), found["rest"]
    if what in ("DATABASE", "SCHEMA"):
        name = _FIRST.match(rest)
        return Ddl("DATABASE", _unquoted(name[1]) if name else database, ())
    tables = tuple(dict.fromkeys(_tables(kind, what, rest, database)))
    if not tables:
        return None
    return Ddl("ALTER" if kind == "RENAME" or what == "INDEX" else kind, tables[0][0], tables)


def changed_tables(statement: str, database: str) -> list[tuple[str, str]]:
    """The tables that a statement may change rows of: those that it names, if it is one that does."""
    text = _SETTINGS.sub("", _COMMENTS.sub(" ", statement), count=1).strip()
    if _CHANGES_ROWS.match(text) is None:
        return []
    found = _NAMED.findall(text[:_NAMES_WITHIN])
    if text[:1].upper() in "UD":
        found += _ALSO_NAMED.findall(text[:_NAMES_WITHIN])
    return list(dict.fromkeys(_names(each, database) for each in found))


def _tables(kind: str, what: str, rest: str, database: str) -> Iterator[tuple[str, str]]:
    if what == "INDEX":
        on = _ON_TABLE.match(rest)
        if on is not None:
            yield _names(on[1], database)
    elif kind == "RENAME" and what.startswith("TABLE"):
        for _, new in _RENAMED.findall(rest):
            yield _names(new, database)
    elif what.startswith("TABLE") or kind == "TRUNCATE":
        first = _FIRST.match(rest)
        if first is None:
            return
        yield _names(first[1], database)
        if kind == "DROP":
            for each in re.findall(rf",\s*({_TABLE})", rest):
                yield _names(each, database)
        renamed = _ALSO_RENAMED.search(rest) if kind == "ALTER" else None
        if renamed is not None and renamed[1].upper() not in _NOT_TABLES:
            yield _names(renamed[1], database)


def _names(text: str, database: str) -> tuple[str, str]:
    parts = [_unquoted(each) for each in _PARTS.findall(text)]
    return (parts[0], parts[1]) if len(parts) == 2 else (database, parts[0])


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name[:1] in '`"' else name
