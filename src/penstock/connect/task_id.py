"""The identity of a task."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_NUMBER: Final = re.compile(r"[+-]?\d+")


class ConnectorTaskId(NamedTuple):
    """One task of a connector."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


def task_in_key(key: str, prefix: str) -> ConnectorTaskId | None:
    """Find the task in a record's key, such as ``task-my-connector-0``; None if it names none.

    Empty parts at the end do not count, as Java's String.split drops them.
    """
    parts = key.rstrip("-").split("-")
    first = prefix.count("-")
    if len(parts) < first + 2 or not _NUMBER.fullmatch(parts[-1]) or not _is_int32(int(parts[-1])):
        return None
    return ConnectorTaskId("-".join(parts[first:-1]), int(parts[-1]))


def _is_int32(number: int) -> bool:
    return -(1 << 31) <= number < 1 << 31
