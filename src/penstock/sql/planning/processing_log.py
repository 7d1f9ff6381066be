"""The processing log: messages of a topic about what queries could not read or compute.

Messages have the content that ksqlDB writes through its logger, as JSON. They are outputs of tasks like any
others, so they are published exactly once, together with the batch that they are about.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.sql.planning.sources import NoTime, Unreadable
from penstock.topology.context import running
from penstock.topology.errors import ErrorPolicy, Failure
from penstock.topology.records import NO_HEADERS, Output

# Properties that a query is built with.
FAIL_ON_UNREADABLE: Final = "ksql.fail.on.deserialization.error"
FAIL_ON_NO_TIME: Final = "ksql.timestamp.throw.on.invalid"
LOG_TOPIC: Final = "ksql.logging.processing.topic.name"
LOG_ROWS: Final = "ksql.logging.processing.rows.include"

MESSAGES_MAX: Final = 100
"""Limit on the messages of one task in one batch, so that a topic of unreadable records isn't copied here."""
_TEXT_MAX: Final = 2_000
_RECORD_BYTES_MAX: Final = 64 << 10
_CAUSES_MAX: Final = 10

_CAUSE: Final = "CAUSE ARRAY<STRING>"
COLUMNS: Final = (
    "LOGGER STRING, LEVEL STRING, `TIME` BIGINT, MESSAGE STRUCT<`TYPE` INTEGER, "
    f"DESERIALIZATIONERROR STRUCT<TARGET STRING, ERRORMESSAGE STRING, RECORDB64 STRING, {_CAUSE}, "
    "`TOPIC` STRING>, "
    f"RECORDPROCESSINGERROR STRUCT<ERRORMESSAGE STRING, RECORD STRING, {_CAUSE}>, "
    "PRODUCTIONERROR STRUCT<ERRORMESSAGE STRING>, "
    f"SERIALIZATIONERROR STRUCT<TARGET STRING, ERRORMESSAGE STRING, RECORD STRING, {_CAUSE}, "
    "`TOPIC` STRING>, "
    f"KAFKASTREAMSTHREADERROR STRUCT<ERRORMESSAGE STRING, THREADNAME STRING, {_CAUSE}>>"
)
"""The columns of a stream over the topic."""

_ERRORS: Final = (
    "deserializationError",
    "recordProcessingError",
    "productionError",
    "serializationError",
    "kafkaStreamsThreadError",
)


class RowFailed(ValueError):
    """Raised for a part of a row that can't be computed; the row continues without it, or is dropped."""


def report_expression(text: str, error: Exception) -> None:
    """Report to the log why an expression failed; its value is NULL. Compiled expressions call this."""
    context = running()
    if context is not None:
        failed = RowFailed(f"Error computing expression {text}")
        failed.__cause__ = error
        context.report("", failed)


@dataclass(frozen=True, slots=True)
class ProcessingLog(ErrorPolicy):
    """The treatment of one query's failures. A failure that `letters` doesn't cover stops the query.

    ``dead_letter_topic`` is the topic of the processing log, or None if there is none.
    """

    query_id: str = ""
    fails_on_unreadable: bool = False
    fails_without_time: bool = False
    has_rows: bool = False

    @classmethod
    def of(cls, query_id: str, settings: Mapping[str, str]) -> ProcessingLog:
        def flag(name: str) -> bool:
            return settings.get(name, "false").lower() == "true"

        return cls(
            settings.get(LOG_TOPIC) or None,
            query_id,
            flag(FAIL_ON_UNREADABLE),
            flag(FAIL_ON_NO_TIME),
            flag(LOG_ROWS),
        )

    def letters(self, failure: Failure) -> list[Output] | None:
        match failure.error:
            case Unreadable(target=target) if not self.fails_on_unreadable:
                return self._messages(failure, lambda: self._unreadable(failure, target))
            case NoTime() if self.fails_without_time:
                return None
            case NoTime() | RowFailed():
                return self.reports(failure)
        return None

    def reports(self, failure: Failure) -> list[Output]:
        return self._messages(failure, lambda: self._not_processed(failure))

    def _messages(self, failure: Failure, make: Callable[[], dict[str, Any]]) -> list[Output]:
        if self.dead_letter_topic is None or failure.place > MESSAGES_MAX:
            return []
        if failure.place == MESSAGES_MAX:
            notice = f"only the first {MESSAGES_MAX} errors of a batch of {failure.origin.topic} are reported"
            message = _message(1, {"errorMessage": notice, "record": None, "cause": []})
        else:
            message = make()
        value = _entry(self.query_id, failure.clock_ms, message)
        return [(self.dead_letter_topic, None, None, value, failure.clock_ms, NO_HEADERS)]

    def _unreadable(self, failure: Failure, target: str) -> dict[str, Any]:
        *_, key, value, _ = failure.record
        data = key if target == "key" else value
        details: dict[str, Any] = {
            "target": target,
            "errorMessage": f"Failed to read the {target} of {failure.origin}",
            "recordB64": self._shown(data, lambda found: base64.b64encode(found).decode()),
            "cause": [],
            "topic": failure.origin.topic,
        }
        return _message(0, _caused(details, failure.error))

    def _not_processed(self, failure: Failure) -> dict[str, Any]:
        """The message of a row that failed. ``record`` is the value that was read, as text."""
        *_, value, _ = failure.record
        error = failure.error
        details: dict[str, Any] = {
            "errorMessage": f"{error}, in the record of {failure.origin}",
            "record": self._shown(value, lambda found: found.decode(errors="backslashreplace")),
            "cause": [],
        }
        return _message(1, _caused(details, error.__cause__))

    def _shown(self, data: bytes | None, as_text: Callable[[bytes], str]) -> str | None:
        if data is None or not self.has_rows or len(data) > _RECORD_BYTES_MAX:
            return None
        return as_text(data)


def stopped(query_id: str, at_ms: int, error: str) -> bytes:
    """The message of a query that failed as a whole."""
    details = {"errorMessage": error[:_TEXT_MAX], "threadName": query_id, "cause": []}
    return _entry(query_id, at_ms, _message(4, details))


def _entry(query_id: str, at_ms: int, message: dict[str, Any]) -> bytes:
    entry = {"level": "ERROR", "logger": f"processing.{query_id}", "time": at_ms, "message": message}
    return json.dumps(entry, ensure_ascii=False).encode(errors="backslashreplace")


def _message(type_: int, details: dict[str, Any]) -> dict[str, Any]:
    return {"type": type_, **dict.fromkeys(_ERRORS), _ERRORS[type_]: details}


def _caused(details: dict[str, Any], error: BaseException | None) -> dict[str, Any]:
    causes = [str(each)[:_TEXT_MAX] for each in _chain(error)]
    message = ": ".join([details["errorMessage"], *causes[:1]])
    return {**details, "errorMessage": message[:_TEXT_MAX], "cause": causes}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes, each text once."""
    seen: set[str] = set()
    while error is not None and len(seen) < _CAUSES_MAX:
        if str(error) not in seen:
            yield error
        seen.add(str(error))
        error = error.__cause__
