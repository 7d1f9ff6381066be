"""Log lines as text and as JSON."""

import json
import logging
from typing import Any

import pytest

from penstock.broker.setup.log_format import JsonFormatter, LineFormatter


def record(message: object, *args: Any, error: BaseException | None = None) -> logging.LogRecord:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("penstock.broker.node", logging.WARNING, "node.py", 1, message, args, exc_info)
    made.created, made.msecs = 1_769_860_800.123, 123.0
    return made


def event(message: object, *args: Any, error: BaseException | None = None) -> dict[str, Any]:
    line = JsonFormatter().format(record(message, *args, error=error))
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def test_an_event_is_one_object() -> None:
    assert event("cannot open log topic=%s partition=%d error=%s", "a b", 3, OSError("x=1\ny")) == {
        "time": "2026-01-31T12:00:00.123Z",
        "level": "WARNING",
        "logger": "penstock.broker.node",
        "message": "cannot open log",
        "fields": {"topic": "a b", "partition": 3, "error": "x=1\ny"},
    }


@pytest.mark.parametrize(
    ("message", "args", "text", "fields"),
    [
        ("stopped", (), "stopped", {}),
        ("100% of a=b", (), "100% of a=b", {}),
        ("%s failed after_ms=%.1f", ("sync", 1.25), "sync failed", {"after_ms": 1.25}),
        ("served address=%s:%d", ("h", 1), "served", {"address": "h:1"}),
        ("refused reason=max limit=%d", (5,), "refused", {"reason": "max", "limit": 5}),
        ("blocked turns=%d %s", (2, "longest_ms=3"), "blocked longest_ms=3", {"turns": 2}),
        ("values a=%s b=%s c=%s", (None, True, 0.5), "values", {"a": None, "b": True, "c": 0.5}),
        ("share done=%d%% of=%s", (50, float("nan")), "share", {"done": "50%", "of": "nan"}),
        ("empty a= b=%s", (1,), "empty", {"a": "", "b": 1}),
        ("lone=%s", ("\ud800",), "", {"lone": "\ud800"}),
    ],
)
def test_values_become_fields(message: str, args: tuple[Any, ...], text: str, fields: dict[str, Any]) -> None:
    found = event(message, *args)
    assert (found["message"], found["fields"]) == (text, fields)


def test_a_traceback_is_a_field_of_its_own() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        found = event("request failed api=%s", "FETCH", error=error)
    assert found["fields"] == {"api": "FETCH"}
    assert found["exception"].startswith("Traceback")
    assert found["exception"].endswith("ValueError: broken")


def test_a_line_of_text_cannot_be_forged_by_its_values() -> None:
    line = LineFormatter().format(record("refused name=%s", "a\nb"))
    assert line == "2026-01-31T12:00:00.123Z WARNING penstock.broker.node refused name=a\\nb"
