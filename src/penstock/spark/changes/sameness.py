"""Whether two rows are equal in some columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.spark.changes.events import MISSING, Events, Row


class Sameness:
    """Compares rows of ``cells`` in columns by their numbers: equal cells have equal codes."""

    def __init__(self, cells: pa.Table, columns: Sequence[int]) -> None:
        self._codes = [(number, _codes(cells.column(number))) for number in columns]

    def __call__(self, one: Row, other: Row) -> bool:
        return one == other or all(
            self._code(codes, one, number) == self._code(codes, other, number)
            for number, codes in self._codes
        )

    @staticmethod
    def _code(codes: list[Any], row: Row, number: int) -> Any:
        place = Events.cell(row, number)
        return None if place == MISSING else codes[place]


def never_same(_one: Row, _other: Row) -> bool:
    """Let each change make a version, even if it changes nothing: a late one may have to come in between."""
    return False


def _codes(column: pa.ChunkedArray) -> list[Any]:
    """Return a number for each cell, the same for equal cells; None for null."""
    array = column.combine_chunks()
    if pa.types.is_nested(array.type):
        array = pa.array([None if value is None else repr(value) for value in array.to_pylist()], pa.string())
    indices: list[Any] = array.dictionary_encode().indices.to_pylist()
    return indices
