"""Decides whether rows fit a table, before they are collected with others that do."""

from __future__ import annotations

import pyarrow as pa

from penstock.arrow.table_rows import fitted
from penstock.connect.connectors.lake.columns.widening import paths, widened
from penstock.connect.errors import DataError


class AcceptedColumns:
    """The columns that a table will have after all rows that were accepted.

    ``evolves`` says whether it gets new columns, and ``widens`` whether existing ones get wider types.
    """

    def __init__(self, present: pa.Schema | None, *, evolves: bool, widens: bool) -> None:
        self._present = present
        self._all = present
        self._evolves = evolves
        self._widens = widens

    def accept(self, rows: pa.Table) -> None:
        """Note the columns of rows. Raises DataError if they do not fit."""
        if self._all is None:
            self._all = rows.schema
            return
        every = widened(self._all, rows.schema)
        if self._present is not None:
            self._check(self._present, rows)
        self._all = every

    def _check(self, present: pa.Schema, rows: pa.Table) -> None:
        if not self._evolves and (added := paths(rows.schema) - paths(present)):
            raise DataError(f"the table has no columns {', '.join(sorted(added))}, and may not get them")
        if not self._widens:
            shared = [name for name in rows.column_names if name in present.names]
            try:
                fitted(rows.select(shared), pa.schema([present.field(name) for name in shared]))
            except ValueError as error:
                raise DataError(str(error)) from error
