"""Layouts of a table's records for a converter of JSON, for the kernels. Pure.

The converter writes a sample of each envelope, in which numbers stand that no other field has; the pieces
between them are constant. Fields of rows are written by the kernel if their kind is simple, and by the
converter's functions if not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from penstock.connect.cdc.postgres.kernels import Cell, EnvelopeLayout, RowLayout, Scalar, Slot
from penstock.connect.cdc.postgres.pgoutput import Column, Unchanged
from penstock.connect.cdc.postgres.scalars import ScaledDecimal
from penstock.connect.cdc.postgres.schemas import TableColumn, TableSchema
from penstock.connect.cdc.postgres.temporal import days_of_date
from penstock.connect.cdc.postgres.times import ZonedText, micros_to_int64, millis_of_timestamp
from penstock.connect.cdc.postgres.value_types import is_true
from penstock.connect.data.encodable import JsonWriting
from penstock.connect.data.json_text import encoded, quoted
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

SAMPLES: Final = {
    Slot.LSN: 7_310_000_000_000_000_001,
    Slot.COMMITTED: 7_310_000_000_000_000_002,
    Slot.XID: 7_310_000_000_000_000_003,
    Slot.COMMIT_MS: 7_310_000_000_000_000_004,
    Slot.COMMIT_US: 7_310_000_000_000_000_005,
    Slot.COMMIT_NS: 7_310_000_000_000_000_006,
    Slot.NOW_MS: 7_310_000_000_000_000_007,
    Slot.NOW_US: 7_310_000_000_000_000_008,
    Slot.NOW_NS: 7_310_000_000_000_000_009,
}
"""The numbers of a sample, by the slots that they mark."""
_SAMPLE: Final = re.compile(rb"731000000000000000([1-9])(?!\d)")
_DIGITS: Final = {Type.INT16: 4, Type.INT32: 9, Type.INT64: 18}
"""Digits of an integer that surely fits its type."""
_SIMPLE: Final[dict[Callable[..., Any], int]] = {
    is_true: Scalar.BOOLEAN,
    str: Scalar.TEXT,
    micros_to_int64: Scalar.MICROS,
    millis_of_timestamp: Scalar.MILLIS,
    days_of_date: Scalar.DATE,
}
"""Functions that the kernel has as well."""

SourceSample = Callable[[str | None, bool, bool], Struct]
"""Makes a source block of `SAMPLES`: its marker of a snapshot, and whether the last commit and the
transaction are known."""


class _Kind(NamedTuple):
    """The kind of an envelope: what its constant parts depend on."""

    operation: str
    snapshot: str | None
    has_commit: bool
    has_xid: bool


class TableLayouts:
    """A table's layouts for one converter."""

    def __init__(self, table: TableSchema, writing: JsonWriting, source: SourceSample) -> None:
        self._table = table
        self._writing = writing
        self._source = source
        self._envelopes: dict[_Kind, EnvelopeLayout] = {}
        self._key: RowLayout | None = None
        self._row: RowLayout | None = None

    @property
    def key(self) -> RowLayout:
        """The layout of keys. Raises DataError."""
        schema = self._table.key_schema
        assert schema is not None, "a table without a key has no keys to write"
        if self._key is None:
            begin, end = self._writing.frame(schema)
            self._key = _row_layout(self._writing, schema, self._table.keys, begin, end)
        return self._key

    @property
    def row(self) -> RowLayout:
        """The layout of rows within envelopes."""
        if self._row is None:
            self._row = _row_layout(self._writing, self._table.value_schema, self._table.columns)
        return self._row

    def envelope(
        self, operation: str, snapshot: str | None, has_commit: bool, has_xid: bool
    ) -> EnvelopeLayout:
        """The layout of envelopes of a kind. Raises DataError; the record's Struct can be written then."""
        kind = _Kind(operation, snapshot, has_commit, has_xid)
        found = self._envelopes.get(kind)
        if found is None:
            found = self._envelopes[kind] = self._made_envelope(kind)
        return found

    def _made_envelope(self, kind: _Kind) -> EnvelopeLayout:
        schema = self._table.envelope
        source = self._source(kind.snapshot, kind.has_commit, kind.has_xid)
        if _has_sample(source):
            raise DataError(f"a name in the source block of {schema.name} has a number that marks a slot")
        times = [SAMPLES[Slot.NOW_MS], SAMPLES[Slot.NOW_US], SAMPLES[Slot.NOW_NS]]
        sample = Struct.of_values(schema, [None, None, source, None, kind.operation, *times])
        text = encoded(self._writing.text_writer(schema)(sample))
        begin, end = self._writing.frame(schema)
        head, middle, null = b'{"before":', b',"after":', b"null"
        opening = head + null + middle + null
        assert text.startswith(opening), "an envelope begins with both rows, which may be null"
        pieces = _SAMPLE.split(text[len(opening) :])
        slots = [*map(int, pieces[1::2]), Slot.NOTHING]
        parts = list(zip(pieces[::2], slots, strict=True))
        parts[-1] = (parts[-1][0] + end, Slot.NOTHING)
        return EnvelopeLayout(begin + head, middle, null, parts)


def _has_sample(source: Struct) -> bool:
    """Whether a name has a sample's number, so that it cannot be told from a slot."""
    values = (source[field.name] for field in source.schema.fields if field.name != "sequence")
    return any(isinstance(each, str) and _SAMPLE.search(each.encode()) for each in values)


def _row_layout(
    writing: JsonWriting, schema: Schema, columns: Sequence[TableColumn], begin: bytes = b"", end: bytes = b""
) -> RowLayout:
    cells = [
        _cell(writing, field.schema, column, f"{',' if field.index else '{'}{quoted(field.name)}:")
        for field, column in zip(schema.fields, columns, strict=True)
    ]
    return RowLayout(begin, cells, (b"}" if cells else b"{}") + end)


def _cell(writing: JsonWriting, schema: Schema, column: TableColumn, lead: str) -> Cell:
    write_value, value_of = writing.text_writer(schema), column.value

    def write(text: Column) -> bytes:
        return encoded(write_value(value_of(text)))

    scalar, limit = _scalar(writing, column)
    may_be_null = column.value(None) is not None or schema.optional
    may_be_unchanged = column.value(Unchanged.TOAST) is not None or schema.optional
    return Cell(
        *(encoded(lead), column.index, scalar, limit),
        write(None) if may_be_null else None,
        write(Unchanged.TOAST) if may_be_unchanged else None,
        write,
    )


def _scalar(writing: JsonWriting, column: TableColumn) -> tuple[int, int]:
    """The kind of a column's values for the kernel, and its limit."""
    convert, kind = column.type.convert, column.type.schema.type
    if convert is int and kind in _DIGITS:
        return Scalar.INTEGER, _DIGITS[kind]
    if isinstance(convert, ZonedText):
        return Scalar.ZONED, convert.digits
    if isinstance(convert, ScaledDecimal) and not writing.decimals_are_numbers:
        return Scalar.DECIMAL, convert.scale
    return _SIMPLE.get(convert, Scalar.CALL), 0
