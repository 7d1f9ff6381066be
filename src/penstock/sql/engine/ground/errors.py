"""The errors that the engine refuses statements and requests with, under ksqlDB's codes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from penstock.sql.engine.ground.entities import Entity, to_json


class ErrorCode(IntEnum):
    """ksqlDB's error codes. The HTTP status is the code without its last two digits."""

    BAD_REQUEST = 40000
    BAD_STATEMENT = 40001
    QUERY_ENDPOINT = 40002
    MAX_PUSH_QUERIES_EXCEEDED = 40003
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    NOT_FOUND = 40400
    REQUEST_TIMEOUT = 40800
    CONFLICT = 40900
    ASSERTION_FAILED = 41700
    SCHEMA_REGISTRY_UNCONFIGURED = 42801
    TOO_MANY_REQUESTS = 42900
    SERVER_ERROR = 50000
    COMMAND_QUEUE_CATCHUP_TIMEOUT = 50301
    SERVER_NOT_READY = 50302
    SERVER_SHUTTING_DOWN = 50303

    @property
    def http_status(self) -> int:
        return self // 100


class EngineError(Exception):
    """The refusal of a statement or a request.

    ``statement_text`` is the refused statement. ``entities`` are the answers to the statements before it in
    the same request. ``inserted`` is the number of rows that were written before an invalid one.
    """

    def __init__(
        self,
        message: str,
        code: ErrorCode = ErrorCode.BAD_STATEMENT,
        statement_text: str | None = None,
        entities: Sequence[Entity] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.statement_text = statement_text
        self.entities = tuple(entities)
        self.inserted = 0

    def of(self, statement_text: str, entities: Sequence[Entity] = ()) -> EngineError:
        """Add the statement and the entities to this error, unless it has its own, and return it."""
        self.statement_text = self.statement_text or statement_text
        self.entities = self.entities or tuple(entities)
        return self

    def to_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {"@type": "generic_error", "error_code": int(self.code)}
        made["message"] = self.message
        if self.statement_text is not None:
            made["@type"] = "statement_error"
            made["statementText"] = self.statement_text
            made["entities"] = to_json(self.entities)
        return made
