"""The choices of the caller of `apply_changes`, checked before the query starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Debezium writes this for a large value (TOAST) that an update left as it was, so that it is not logged."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `apply_changes`, which explains them; lists of columns are tuples, None is not given.

    ``unavailable_value`` is None if cells with it are passed on as they are.
    """

    keys: tuple[str, ...]
    sequence_by: str | Column | None = None
    keeps_history: bool = False
    apply_as_deletes: str | Column | None = None
    apply_as_truncates: str | Column | None = None
    column_list: tuple[str, ...] | None = None
    except_column_list: tuple[str, ...] = field(default=())
    ignore_null_updates: bool = False
    track_history_column_list: tuple[str, ...] | None = None
    track_history_except_column_list: tuple[str, ...] = field(default=())
    row_schema: str | None = None
    unavailable_value: str | None = UNAVAILABLE

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("keys: found none, expected the columns that identify a row")
        _refuse_both("column_list", self.column_list, "except_column_list", self.except_column_list)
        tracked = ("track_history_column_list", self.track_history_column_list)
        untracked = ("track_history_except_column_list", self.track_history_except_column_list)
        _refuse_both(*tracked, *untracked)
        for name, columns in (tracked, untracked):
            if columns and not self.keeps_history:
                raise ValueError(f"{name}: expected stored_as_scd_type=2 beside it")
        lost = [key for key in self.keys if not self.has_column(key)]
        if lost:
            raise ValueError(f"keys: {lost} are not among the columns of the table")

    @property
    def needs_rows(self) -> bool:
        """Whether each batch needs the rows that the table has."""
        return self.keeps_history or self.ignore_null_updates or self.sequence_by is not None

    @property
    def tracks_some(self) -> bool:
        """Whether only changes in some columns make versions."""
        return self.track_history_column_list is not None or bool(self.track_history_except_column_list)

    def has_column(self, name: str) -> bool:
        """Whether the table has a column of the rows."""
        if self.column_list is not None:
            return name in self.column_list
        return name not in self.except_column_list

    def tracks(self, name: str) -> bool:
        """Whether a change of a column makes a version."""
        if self.track_history_column_list is not None:
            return name in self.track_history_column_list
        return name not in self.track_history_except_column_list


def scd_type(given: int | str) -> int:
    """Return 1 or 2. Raises ValueError for other types of slowly changing dimensions."""
    if str(given) not in ("1", "2"):
        raise ValueError(f"stored_as_scd_type: found {given!r}, expected 1 or 2")
    return int(given)


def names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return names of columns, given as one name or several."""
    return (given,) if isinstance(given, str) else tuple(given)


def _refuse_both(one: str, columns: Sequence[str] | None, other: str, others: Sequence[str] | None) -> None:
    if columns is not None and others:
        raise ValueError(f"found both {one} and {other}: expected one of them")
