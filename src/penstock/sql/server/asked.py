"""The bodies of requests. Unknown names are ignored, as in ksqlDB. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from penstock.sql.engine.ground.errors import EngineError, ErrorCode


def bad_request(message: str) -> EngineError:
    return EngineError(message, ErrorCode.BAD_REQUEST)


def json_object(text: bytes | str, *, exact: bool = False) -> dict[str, Any]:
    """Parse a JSON object. With ``exact``, numbers with a point are Decimals. Raises EngineError."""
    try:
        found = json.loads(text, parse_float=Decimal if exact else None)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"Invalid JSON in request: {error}") from None
    if not isinstance(found, dict):
        raise bad_request(f"Invalid JSON in request: found {_kind(found)}, expected an object")
    return found


@dataclass(frozen=True)
class Asked:
    """Statements, with the properties and variables to run them with."""

    text: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    command_sequence: int | None = None

    @classmethod
    def of_statements(cls, body: bytes) -> Asked:
        """Parse a body of `/ksql` or `/query`. Raises EngineError."""
        return cls._of(json_object(body), "ksql", "streamsProperties")

    @classmethod
    def of_stream(cls, body: bytes) -> Asked:
        """Parse a body of `/query-stream`. Raises EngineError."""
        return cls._of(json_object(body), "sql", "properties")

    @classmethod
    def _of(cls, content: Mapping[str, Any], text_name: str, properties_name: str) -> Asked:
        text = content.get(text_name)
        if text is not None and not isinstance(text, str):
            raise bad_request(f'"{text_name}": found {_kind(text)}, expected a string')
        if text is None or not text.strip():
            raise bad_request(f'"{text_name}" field must be populated')
        sequence = content.get("commandSequenceNumber")
        if sequence is not None and (isinstance(sequence, bool) or not isinstance(sequence, int)):
            raise bad_request(f'"commandSequenceNumber": found {_kind(sequence)}, expected a whole number')
        variables = _object(content, "sessionVariables")
        return cls(
            text,
            _object(content, properties_name),
            {name: _as_text(value) for name, value in variables.items()},
            sequence,
        )


@dataclass(frozen=True)
class InsertsAsked:
    """The first line of a request to `/inserts-stream`."""

    target: str
    properties: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, line: bytes) -> InsertsAsked:
        """Parse the line. Raises EngineError."""
        content = json_object(line)
        target = content.get("target")
        if not isinstance(target, str) or not target.strip():
            raise bad_request(f'"target": found {_kind(target)}, expected the name of a stream or table')
        return cls(target, _object(content, "properties"))


def query_id_of(body: bytes) -> str:
    """Parse a body of `/close-query`. Raises EngineError."""
    found = json_object(body).get("queryId")
    if not isinstance(found, str):
        raise bad_request(f'"queryId": found {_kind(found)}, expected a string')
    return found


def topics_to_delete(body: bytes) -> list[str]:
    """Parse the names and patterns in a body of `/ksql/terminate`. Raises EngineError."""
    found = (json_object(body) if body.strip() else {}).get("deleteTopicList")
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise bad_request('"deleteTopicList": expected a list of names or regular expressions')
    return found


def _object(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise bad_request(f'"{name}": found {_kind(found)}, expected an object')
    return found


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "a boolean"
        case int() | float() | Decimal():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"
