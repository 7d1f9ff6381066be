"""The result of an operation."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.registry.subjects.json_fields import Json
from penstock.registry.subjects.records import Record


@dataclass(frozen=True, slots=True)
class Decision:
    """Records to write in this order, and the answer once they are replayed."""

    records: tuple[Record, ...]
    answer: Json
