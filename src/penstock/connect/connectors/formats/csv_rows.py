"""Rows of CSV files as structs; the first row may name the columns."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connect.connectors.formats.csv_types import TEXT, ColumnType
from penstock.connect.connectors.formats.delimited import Decoded, DelimitedReader
from penstock.connect.connectors.formats.items import Item, Stream
from penstock.connect.connectors.formats.text import text_in
from penstock.connect.data.schema import Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

_BYTE_ORDER_MARK: Final = "\ufeff"
csv.field_size_limit((1 << 31) - 1)  # of the process; the size of a record limits a field


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvSettings:
    """How rows are written, and the types of their columns."""

    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    has_header: bool = False
    skip_lines: int = 0
    null_value: str | None = None
    """The text of a field without a value, besides empty ones of columns that are no text."""
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    """The types of columns by name; the others are text."""
    charset: str = "utf-8"


class CsvReader:
    """Reads the rows of a file."""

    def __init__(self, stream: Stream, position: int, settings: CsvSettings, *, max_bytes: int) -> None:
        self._settings = settings
        self._max_bytes = max_bytes
        self._records = DelimitedReader(stream, 0, self._decode, max_bytes=max_bytes, is_whole=self._is_whole)
        self._start = position
        self._lines_to_skip = settings.skip_lines
        self._is_after_header = not settings.has_header and not settings.skip_lines
        self._names: list[str] | None = None if settings.has_header else list(settings.types) or None
        if self._is_after_header and position:
            self._records.skip_to(position)
        self._columns: Sequence[ColumnType] = ()
        self._schema: Schema | None = None
        self._quote = settings.quote.encode(settings.charset)
        self._escape = settings.escape.encode(settings.charset) if settings.escape else b""

    def read(self, limit: int, *, is_complete: bool) -> list[Item]:
        """Return the next rows, at most `limit`."""
        if not self._is_after_header and not self._read_header(is_complete=is_complete):
            return []
        return self._records.read(limit, is_complete=is_complete)

    def _read_header(self, *, is_complete: bool) -> bool:
        """Read the lines before the first row; return whether they are all there."""
        while self._lines_to_skip or (self._settings.has_header and self._names is None):
            raw = self._records.take(is_complete=is_complete)
            if raw is None:
                return False
            if self._lines_to_skip:
                self._lines_to_skip -= 1
            elif raw.strip():
                self._names = self._header(raw)
        if self._start:
            self._records.skip_to(self._start)
        self._is_after_header = True
        return True

    def _header(self, raw: bytes) -> list[str]:
        if len(raw) > self._max_bytes:
            raise DataError(f"the header of a CSV file has more than {self._max_bytes} bytes")
        names = [name.strip() for name in self._fields(raw.rstrip(b"\r\n"))]
        if len(set(names)) < len(names) or "" in names:
            raise DataError(f"Invalid header of a CSV file: {names}, expected names that differ")
        if unknown := self._settings.types.keys() - set(names):
            raise DataError(f"the header {names} lacks columns that have a type: {sorted(unknown)}")
        return names

    def _is_whole(self, line: bytes) -> bool:
        """Whether each quote of a line has its end there: a quote in a quoted field is doubled."""
        if self._escape:
            line = line.replace(self._escape * 2, b"").replace(self._escape + self._quote, b"")
        return line.count(self._quote) % 2 == 0

    def _decode(self, row: bytes) -> Decoded | None:
        if not row:
            return None
        fields = self._fields(row)
        schema = self._schema or self._make_schema(len(fields))
        columns = self._columns
        if len(fields) != len(columns):
            raise DataError(f"the row has {len(fields)} fields, expected {len(columns)}")
        null = self._settings.null_value
        values: list[Any] = []
        for text, column, each in zip(fields, columns, schema.fields, strict=True):
            if text == null or (not text and column is not TEXT):
                values.append(None)
            elif column is TEXT:
                values.append(text)
            else:
                values.append(_value(text, column, each.name))
        return Decoded(Struct.of_values(schema, values), schema)

    def _fields(self, row: bytes) -> list[str]:
        settings = self._settings
        try:
            found = list(
                csv.reader(
                    [text_in(row, settings.charset).removeprefix(_BYTE_ORDER_MARK)],
                    delimiter=settings.separator,
                    quotechar=settings.quote,
                    escapechar=settings.escape,
                    strict=True,
                )
            )
        except csv.Error as error:
            raise DataError(f"Invalid row of CSV: {error}") from error
        if len(found) != 1:
            raise DataError(f"Invalid row of CSV: found {len(found)} rows, expected one")
        return found[0]

    def _make_schema(self, count: int) -> Schema:
        """Make the schema, at the first row: without a header, that row has as many fields as all."""
        names = self._names or [f"column{number:02}" for number in range(1, count + 1)]
        self._columns = [self._settings.types.get(name, TEXT) for name in names]
        fields = {name: column.schema for name, column in zip(names, self._columns, strict=True)}
        self._schema = Schema.struct(fields)
        return self._schema


def _value(text: str, column: ColumnType, name: str) -> Any:
    try:
        return column.read(text)
    except ValueError as error:
        raise DataError(f"Invalid value {text[:200]!r} of the column {name}: {error}") from error
