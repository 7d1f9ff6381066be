"""Parquet files: rows as structs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connect.connectors.formats.arrow_types import arrow_column, column_values
from penstock.connect.connectors.formats.items import Item, Stream
from penstock.connect.data.schema import Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

_DAMAGED: Final = (pa.ArrowException, OSError, ValueError, OverflowError)
"""Python has no date for some values, such as those behind the year 9999."""


class ParquetReader:
    """Reads the rows of a file; a position is the number of rows before it."""

    def __init__(self, stream: Stream, position: int, *, batch_rows: int) -> None:
        try:
            self._file = pq.ParquetFile(stream)
        except _DAMAGED as error:
            raise _as_data_error(error) from error
        fields = list(self._file.schema_arrow)
        self._columns = [arrow_column(each.type, each.nullable) for each in fields]
        names = [each.name for each in fields]
        if len(set(names)) < len(names):
            raise DataError(f"Invalid Parquet file: columns with the same name in {names}")
        schemas = [each.schema for each in self._columns]
        self._schema = Schema.struct(dict(zip(names, schemas, strict=True)))
        self._items = self._rows(position, batch_rows)

    def read(self, limit: int, *, is_complete: bool) -> list[Item]:
        """Return the next rows, at most `limit`."""
        try:
            return list(islice(self._items, limit))
        except _DAMAGED as error:
            raise _as_data_error(error) from error

    def _rows(self, position: int, batch_rows: int) -> Iterator[Item]:
        groups, before = self._groups_from(position)
        skipped = position - before
        at = before
        for batch in self._file.iter_batches(batch_rows, row_groups=groups):
            if skipped >= batch.num_rows:
                skipped -= batch.num_rows
                at += batch.num_rows
                continue
            at += skipped
            rows = batch.slice(skipped)
            skipped = 0
            values = [column_values(*each) for each in zip(rows.columns, self._columns, strict=True)]
            for row in zip(*values, strict=True):
                at += 1
                yield Item(at, Struct.of_values(self._schema, row), self._schema)

    def _groups_from(self, position: int) -> tuple[list[int], int]:
        """Return the row groups with rows behind a position, and the number of rows before them."""
        metadata = self._file.metadata
        before = 0
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            if before + rows > position:
                return list(range(group, metadata.num_row_groups)), before
            before += rows
        return [], before


def _as_data_error(error: Exception) -> DataError:
    """Return the error for a damaged file. Raises an OSError that the file system has raised.

    Arrow raises an OSError for damaged data too; it has no number.
    """
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return DataError(f"Invalid Parquet file: {error}")
