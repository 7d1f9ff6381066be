"""One batch of changes on the driver, in order, and the rows it is applied to, as columns side by side.

A row of the result is mostly the row of one change. Only where a change keeps some cells of the row before it
(values that Debezium did not have, or nulls that are to be ignored) do its cells come from several rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from penstock.arrow.table_rows import Identity, identities

MISSING: Final = -1
"""The index of a cell that no row has: it is null."""

Row = int | tuple[int, ...]
"""A row: the index of all its cells, or one index for each column."""


class Kind(IntEnum):
    """The effect of a change on its row, or on all rows."""

    PUT = 0
    DELETE = 1
    TRUNCATE = 2


@dataclass(frozen=True, slots=True)
class Events:
    """The changes of a batch, in order, and the cells of their rows and of the table's rows they may touch.

    ``cells`` has the table's rows first, then one row for each change; ``first`` is the index of the first
    change there. ``sequences`` has the changes' values of `sequence_by`. ``kept`` has, for the changes that
    keep cells of the row before, the numbers of these columns. ``old_keys`` has, for the changes that changed
    their row's key, the key before.
    """

    kinds: Sequence[int]
    keys: Sequence[Identity | None]
    sequences: Sequence[Any]
    cells: pa.Table
    first: int
    kept: Mapping[int, frozenset[int]]
    old_keys: Mapping[int, Identity] = field(default_factory=dict)

    def row(self, number: int, before: Row | None) -> Row:
        """Return the row that a change makes of the row before it."""
        index = self.first + number
        kept = self.kept.get(number)
        if not kept:
            return index
        return tuple(
            self.cell(before, column) if column in kept else index for column in range(self.cells.num_columns)
        )

    @staticmethod
    def cell(row: Row | None, column: int) -> int:
        if row is None:
            return MISSING
        return row if isinstance(row, int) else row[column]

    def table_of(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows as a table with the columns of ``cells``."""
        if all(isinstance(row, int) for row in rows):
            return self.cells.take(pa.array(rows, pa.int64()))
        columns = []
        for number, column in enumerate(self.cells.columns):
            found = [self.cell(row, number) for row in rows]
            places = pa.array((None if place == MISSING else place for place in found), pa.int64())
            columns.append(column.take(places))
        return pa.table(columns, schema=self.cells.schema)

    def existing_keys(self, names: Iterable[str]) -> list[Identity]:
        """Return the keys of the table's rows, which are the first in ``cells``."""
        return identities(self.cells.slice(0, self.first), list(names))
