"""Collects records until they become Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from penstock.connect.connectors.lake.columns.arrays import table_of
from penstock.connect.connectors.lake.columns.arrow_types import ArrowTypes
from penstock.connect.connectors.lake.columns.inference import inferred
from penstock.connect.data.records import SinkRecord
from penstock.connect.data.schema import Schema
from penstock.connect.errors import DataError

ROWS_PER_CHUNK: Final = 2048
"""Records that are kept as objects at most: as columns they take a fraction of the memory."""
FIRST_ROWS: Final = 64
"""Records of the first chunk, which shows how large they are."""
CHUNK_BYTES: Final = 4 * 1024 * 1024
"""The size of a chunk, about, so that few large records are kept as objects."""

Report = Callable[[SinkRecord, Exception], None]
"""Takes a record that has no row. It raises if such errors are not tolerated."""
Accept = Callable[[pa.Table], None]
"""Accepts rows, or raises DataError if they do not fit where they are going."""
DELETED: Final = "__penstock_deleted"
"""The column that says whether a row is deleted. It is in all tables with keys, and never stored."""


class Row(NamedTuple):
    """A record, and the struct or map that becomes its row."""

    record: SinkRecord
    schema: Schema | None
    value: Any
    is_deleted: bool


class RowBuffer:
    """Rows in the order in which they were added; those that are next to each other share a schema.

    Values without a schema get the schema that fits all of a chunk.
    """

    def __init__(
        self, types: ArrowTypes, report: Report, accept: Accept, *, marks_deleted: bool = False
    ) -> None:
        self._types = types
        self._report = report
        self._accept = accept
        self._marks_deleted = marks_deleted
        self._rows: list[Row] = []
        self._schema: Schema | None = None
        self._chunks: list[pa.Table] = []
        self._chunk_rows = FIRST_ROWS
        self.nbytes = 0
        """The bytes of the rows that are columns already."""

    def add(self, record: SinkRecord, schema: Schema | None, value: Any, is_deleted: bool = False) -> None:
        """Add a record's row. Raises what `report` raises, for this record or for one before it."""
        if self._rows and schema is not self._schema and schema != self._schema:
            self._finish_chunk()
        self._schema = schema
        self._rows.append(Row(record, schema, value, is_deleted))
        if len(self._rows) >= self._chunk_rows:
            self._finish_chunk()

    def take(self) -> list[pa.Table]:
        """Return all rows, in one table for each run of rows with one schema, and forget them."""
        self._finish_chunk()
        taken, self._chunks, self.nbytes = self._chunks, [], 0
        return taken

    def _finish_chunk(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        for chunk in self._tables(rows):
            self._chunks.append(chunk)
            self.nbytes += chunk.nbytes
            per_row = chunk.nbytes // max(1, chunk.num_rows)
            self._chunk_rows = max(1, min(ROWS_PER_CHUNK, CHUNK_BYTES // max(1, per_row)))

    def _tables(self, rows: Sequence[Row]) -> list[pa.Table]:
        """Convert rows together, or if one is bad in halves, so that only bad ones are reported."""
        schema, values = rows[0].schema, [row.value for row in rows]
        try:
            table = table_of(inferred(values) if schema is None else schema, values, self._types)
            self._accept(table)
        except DataError as error:
            if len(rows) == 1:
                self._report(rows[0].record, error)
                return []
        else:
            if self._marks_deleted:
                table = table.append_column(DELETED, pa.array([row.is_deleted for row in rows], pa.bool_()))
            return [table]
        middle = len(rows) // 2
        return [*self._tables(rows[:middle]), *self._tables(rows[middle:])]
