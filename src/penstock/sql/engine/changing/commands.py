"""Commands: statements as the command topic holds them, in the JSON of ksqlDB's Command, without a plan.

A command also holds everything outside its text that its meaning depends on: the columns that the schema
registry knew, the text of a function's file, and the server's properties at the time. So it has the same
meaning whenever it is read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import uuid4

from penstock.sql.language import statements as s
from penstock.sql.language.parsing.script import parse

VERSION: Final = 18
"""The version of ksqlDB's Command whose fields these are."""

T = TypeVar("T")


class BadCommand(ValueError):
    """Raised for a record of the command topic that is no command, or is one of a later release."""


@dataclass(frozen=True)
class Command:
    """One record of the command topic.

    ``statement`` is its text. ``columns`` are those that a registry knew, as CREATE lists them. ``file`` is
    the text of the file that CREATE FUNCTION names. ``query_number`` is the end of its query's id; None, as
    in earlier releases, stands for the command's offset.
    """

    id: str
    statement: str
    properties: Mapping[str, str] = field(default_factory=dict)
    original_properties: Mapping[str, str] = field(default_factory=dict)
    columns: str | None = None
    file: str | None = None
    query_number: int | None = None

    @property
    def key(self) -> bytes:
        return json.dumps(self.id, ensure_ascii=False).encode()

    @property
    def value(self) -> bytes:
        made: dict[str, Any] = {
            "statement": self.statement,
            "streamsProperties": dict(self.properties),
            "originalProperties": dict(self.original_properties),
            "plan": None,
            "version": VERSION,
        }
        more = {"columns": self.columns, "file": self.file, "queryNumber": self.query_number}
        made |= {name: held for name, held in more.items() if held is not None}
        return json.dumps(made, ensure_ascii=False).encode()

    @classmethod
    def of(cls, key: bytes | None, value: bytes | None) -> Command:
        """Parse a record of the command topic. Raises BadCommand if this release can't understand it."""
        try:
            command_id, content = json.loads(key or b""), json.loads(value or b"")
            statement = content["statement"]
            if not isinstance(statement, str) or not isinstance(command_id, str):
                raise TypeError(f"found {statement!r} under {command_id!r}, expected texts")
            if (version := _held(content, "version", int) or 0) > VERSION:
                raise ValueError(f"found version {version}, expected up to {VERSION}")
            return cls(
                command_id,
                statement,
                _texts(content.get("streamsProperties")),
                _texts(content.get("originalProperties")),
                _held(content, "columns", str),
                _held(content, "file", str),
                _held(content, "queryNumber", int),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadCommand(f"found no command in {(value or b'')[:80]!r}: {error!r}") from None

    def parsed(self) -> s.Statement:
        return parse(self.statement)


def _held(content: Mapping[str, Any], name: str, type_: type[T]) -> T | None:
    """The value of a field, or None if it is absent. Raises TypeError if it has another type."""
    found = content.get(name)
    if found is None or type(found) is type_:
        return found
    raise TypeError(f"found {name} {found!r}, expected {type_.__name__}")


def _texts(given: Mapping[str, object] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (given or {}).items()}


def command_id_of(statement: s.Statement) -> str:
    """The id by which a client asks for the status of a statement."""
    match statement:
        case s.CreateSource(kind=kind, name=name) | s.CreateAsSelect(kind=kind, name=name):
            return f"{kind.value.lower()}/`{name}`/create"
        case s.InsertSelect(name=name):
            return f"stream/`{name}`/create"
        case s.DropSource(kind=kind, name=name):
            return f"{kind.value.lower()}/{name}/drop"
        case s.AlterSource(kind=kind, name=name):
            return f"{kind.value.lower()}/{name}/alter"
        case s.CreateType(name=name):
            return f"type/{name}/create"
        case s.DropType(name=name):
            return f"type/{name}/drop"
        case s.CreateFunction(name=name):
            return f"function/{name}/create"
        case s.DropFunction(name=name):
            return f"function/{name}/drop"
        case s.ControlQuery(action=action, query_id=query_id):
            return f"{action.value.lower()}/{query_id or 'ALL'}/execute"
    return f"cluster/{uuid4()}/alter"
