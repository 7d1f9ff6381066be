"""The type of a column: its schema, and how what the database sent becomes a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.connect.data.schema import Schema


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The schema of a column, and its values. Connectors first make the one that may not be null.

    `convert` gets what the database sent, and raises DataError if that has no value. `fallback` stands for
    null in a column that may not be null, `null` in one that may, and `unchanged` for a value that the
    server did not send.
    """

    schema: Schema
    convert: Callable[[Any], Any]
    fallback: Any
    unchanged: Any
    null: Any = None
