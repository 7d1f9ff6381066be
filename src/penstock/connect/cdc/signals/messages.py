"""Signals as values, and the request that ``execute-snapshot`` and ``stop-snapshot`` carry. Pure."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.java.patterns import PatternError, compile_pattern

log = logging.getLogger(__name__)

EXECUTE: Final = "execute-snapshot"
STOP: Final = "stop-snapshot"
PAUSE: Final = "pause-snapshot"
RESUME: Final = "resume-snapshot"
LOG: Final = "log"
WINDOWS: Final = frozenset({"snapshot-window-open", "snapshot-window-close"})
"""Types of the rows that mark a chunk's window in the signal table. The connector writes them itself."""

_SIGNAL_COLUMNS: Final = 3


class Signal(NamedTuple):
    """A signal; notifications about a snapshot have the id of the signal that asked for it."""

    id: str
    type: str
    data: Mapping[str, Any]

    @staticmethod
    def of(id_: str | None, type_: str | None, data: str | None) -> Signal | None:
        """The signal with JSON as data; None, with a warning in the log, if the data is not valid."""
        try:
            parsed = json.loads(data) if data and data.strip() else {}
        except ValueError as error:
            log.warning("signal ignored, its data is no JSON id=%s type=%s reason=%s", id_, type_, error)
            return None
        if not isinstance(parsed, dict):
            log.warning("signal ignored, its data is no JSON object id=%s type=%s", id_, type_)
            return None
        return Signal(id_ or "", type_ or "", parsed)


@dataclass(frozen=True)
class SnapshotRequest:
    """The tables of a snapshot as regular expressions, with conditions, and a key to read them by."""

    collections: tuple[str, ...]
    is_blocking: bool = False
    conditions: tuple[tuple[str, str], ...] = ()
    surrogate_key: str | None = None
    names_none: bool = False

    @staticmethod
    def of(signal: Signal) -> SnapshotRequest | None:
        """The request; None, with a warning in the log, if it is not complete or not valid."""
        collections, kind = signal.data.get("data-collections"), str(signal.data.get("type") or "incremental")
        listed = collections if isinstance(collections, list) else []
        if not listed and signal.type == EXECUTE:
            log.warning("signal ignored, it has no data-collections id=%s type=%s", signal.id, signal.type)
            return None
        if kind.lower() not in ("incremental", "blocking"):
            log.warning("signal ignored, expected incremental or blocking id=%s found=%s", signal.id, kind)
            return None
        conditions = _conditions(signal.data.get("additional-conditions"))
        surrogate = signal.data.get("surrogate-key")
        return SnapshotRequest(
            tuple(str(each).strip() for each in listed),
            kind.lower() == "blocking",
            conditions,
            surrogate if isinstance(surrogate, str) and surrogate.strip() else None,
            not listed,
        )

    def expanded(self, known: Sequence[str]) -> list[str]:
        """The tables that the expressions match; an expression that matches none stands for itself."""
        found: dict[str, None] = {}
        for text in self.collections:
            matching = [name for name in known if _matches(text, name)]
            found.update(dict.fromkeys(matching or [text]))
        return list(found)

    def condition(self, collection: str) -> str:
        """The condition for a table, or an empty text."""
        return next((text for name, text in self.conditions if _matches(f"(?i){name}", collection)), "")


def signal_of_row(row: Sequence[Any]) -> Signal | None:
    """The signal of a row of the signal table: id, type and data, whatever the columns are called."""
    if len(row) != _SIGNAL_COLUMNS:
        log.warning("signal ignored, expected three columns found=%s", len(row))
        return None
    return Signal.of(*(None if each is None else str(each) for each in row))


def _conditions(found: Any) -> tuple[tuple[str, str], ...]:
    parts = found if isinstance(found, list) else []
    return tuple(
        (str(each["data-collection"]), str(each["filter"]))
        for each in parts
        if isinstance(each, dict) and each.get("data-collection") and each.get("filter")
    )


def _matches(text: str, name: str) -> bool:
    try:
        return compile_pattern(text).fullmatch(name) is not None
    except PatternError:
        return False
