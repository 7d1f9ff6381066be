"""Columns of JSON documents to columns of structs, by Arrow's own parser, all documents of a column at once.

The parser takes a text of documents one after the other and tells which row is bad only by failing. So each
document is wrapped as ``{"v":…}``: no damaged document can then swallow its neighbour or count for two rows,
since between the wrappers stands ``}{``, which is valid between documents and nowhere else. What could still
pass is a document followed by members of its own, ``1,"w":2``: that would be an error as ``{"v":[…]}``, so
those that may be such are parsed once more so. Bad rows are found by halves, and only where there are some.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from penstock.arrow.decoded import Decoded, spread, valid_rows
from penstock.client.settings import ConfigError

_OPEN: Final = b'{"v":'
_MARK: Final = b'{"v":true,"w":'  # the document itself is parsed and left out
_AFTER_AN_OBJECT: Final = r"\}\s*,\s*\""
# What Arrow's parser alone takes for numbers: where it may be, then what it is outside strings. (Two
# patterns, as those that begin with letters are found three times as fast.)
_MAY_BE_NO_NUMBER: Final = (r"Inf(?:[\s,\]}]|$)", r"-NaN")
_NO_NUMBER: Final = re.compile(rb"Inf(?!inity)|-NaN")
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_SHOWN_LETTERS: Final = 80
# What the parser says of rows and columns refers to the wrapped text.
_ROW_NUMBER: Final = re.compile(r" in row \d+$")
_COLUMN: Final = re.compile(r"Column\(/v/?([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Json:
    """One JSON object a value, read into a struct: fields without a value are null, unknown ones left out."""

    type: pa.StructType
    name: str = "json"
    is_slow: bool = True

    def __post_init__(self) -> None:
        if not pa.types.is_struct(self.type) or not self.type.num_fields:
            raise ConfigError(f"a schema for JSON has at least one field, found {self.type}")
        _refuse_unreadable(self.type, "")

    def decode(self, column: pa.BinaryArray) -> Decoded:
        return _decode(column, self.type)


@dataclass(frozen=True, slots=True)
class JsonText:
    """One JSON document of any kind a value, checked and left as text."""

    name: str = "json"
    is_slow: bool = True

    @property
    def type(self) -> pa.DataType:
        return pa.string()

    def decode(self, column: pa.BinaryArray) -> Decoded:
        checked = _decode(column, None)
        return Decoded(pc.if_else(checked.array.is_valid(), column, None).cast(pa.string()), checked.bad)


def _refuse_unreadable(kind: pa.DataType, path: str) -> None:
    """Types that JSON has no one form for."""
    if pa.types.is_struct(kind):
        for field in kind:
            _refuse_unreadable(field.type, f"{path}.{field.name}".lstrip("."))
    elif pa.types.is_list(kind):
        _refuse_unreadable(kind.value_type, f"{path}[]")
    else:
        try:
            pj.read_json(
                pa.BufferReader(b'{"v":null}'),
                parse_options=pj.ParseOptions(explicit_schema=pa.schema([("v", _parsed_type(kind))])),
            )
            readable = not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
        except pa.ArrowNotImplementedError:
            readable = False
        if not readable:
            raise ConfigError(
                f"field {path!r} of the JSON schema is of type {kind}, which is not read from JSON: expected "
                "booleans, numbers, strings, dates, timestamps, arrays and structs"
            )


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    """The type to parse as: the parser takes dates for numbers, so they are cast from text afterwards."""
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_parsed_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_parsed_type(kind.value_type)))
    return kind


def _decode(column: pa.BinaryArray, kind: pa.StructType | None) -> Decoded:
    """Structs, or with no type a mark for each document that is one; null for nulls and bad documents."""
    documents = column.drop_null()
    bad: dict[int, str] = {}
    try:
        rows = _parse(documents, kind)
    except pa.ArrowInvalid:
        rows, bad = _parse_one_by_one(documents, kind)
    if rows.null_count > len(bad):
        expected = "expected a JSON object of the schema, found null"
        bad |= {int(row): expected for row in np.flatnonzero(~valid_rows(rows)) if int(row) not in bad}
    if not column.null_count:
        return Decoded(rows, bad)
    places = np.flatnonzero(valid_rows(column))
    return Decoded(spread(rows, places, len(column)), {int(places[row]): text for row, text in bad.items()})


def _parse(documents: pa.BinaryArray, kind: pa.StructType | None) -> pa.Array:
    """All documents, each one valid. Raises ArrowInvalid."""
    if not len(documents):
        return pa.array([], pa.bool_() if kind is None else kind)
    documents.cast(pa.string())  # the parser does not look whether it is UTF-8
    if kind is None:
        _parse_wrapped(documents, _MARK, b"}", pa.bool_())
        parsed = _parse_wrapped(documents, _MARK + b"[", b"]}", pa.bool_())
    else:
        parsed = _parse_wrapped(documents, _OPEN, b"}", _parsed_type(kind))
        doubtful = documents.filter(pc.match_substring_regex(documents, _AFTER_AN_OBJECT))
        if len(doubtful):
            _parse_wrapped(doubtful, _MARK + b"[", b"]}", pa.bool_())
        parsed = parsed if parsed.type == kind else parsed.cast(kind)
    _refuse_what_is_no_number(documents)
    return parsed


def _refuse_what_is_no_number(documents: pa.BinaryArray) -> None:
    """Of documents that were parsed. Raises ArrowInvalid."""
    inf, nan = (pc.match_substring_regex(documents, pattern) for pattern in _MAY_BE_NO_NUMBER)
    for document in documents.filter(pc.or_(inf, nan)):
        found = _NO_NUMBER.search(_STRING.sub(b'""', document.as_py()))
        if found:
            raise pa.ArrowInvalid(f"Invalid value {found.group().decode()}.")


def _parse_wrapped(documents: pa.BinaryArray, opening: bytes, closing: bytes, kind: pa.DataType) -> pa.Array:
    """The first member of each wrapper, as ``kind``. Raises ArrowInvalid."""
    together = pa.ListArray.from_arrays(pa.array([0, len(documents)], pa.int32()), documents)
    body = pc.binary_join(together, closing + b"\n" + opening)[0].as_buffer()
    text = b"".join((opening, body, closing))
    table = pj.read_json(
        pa.BufferReader(text),
        # One block: between blocks it would be cut at line ends, which documents may have inside.
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema([("v", kind)]), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(documents):
        raise pa.ArrowInvalid(f"JSON parse error: {table.num_rows} documents instead of {len(documents)}")
    return table.column(0).combine_chunks()


def _parse_one_by_one(
    documents: pa.BinaryArray, kind: pa.StructType | None
) -> tuple[pa.Array, dict[int, str]]:
    """Where some are bad: the good ones in as few steps as there can be, the bad ones each by itself."""
    suspects = np.fromiter(
        (not _looks_good(document.as_py()) for document in documents), bool, len(documents)
    )
    pieces: list[pa.Array] = []
    order: list[np.ndarray] = []
    bad: dict[int, str] = {}
    for rows in (np.flatnonzero(~suspects), *np.flatnonzero(suspects)[:, None]):
        _parse_by_halves(documents, rows, kind, pieces, order, bad)
    places = np.empty(len(documents), np.int64)
    places[np.concatenate(order)] = np.arange(len(documents))
    return pa.concat_arrays(pieces).take(pa.array(places)), bad


def _looks_good(document: bytes) -> bool:
    """A guess that saves steps; Arrow's parser decides."""
    try:
        json.loads(document.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _parse_by_halves(
    documents: pa.BinaryArray,
    rows: np.ndarray,
    kind: pa.StructType | None,
    pieces: list[pa.Array],
    order: list[np.ndarray],
    bad: dict[int, str],
) -> None:
    """Append the parsed ``rows`` to ``pieces`` and their numbers to ``order``; null for those in ``bad``."""
    if not len(rows):
        return
    chosen = documents.take(pa.array(rows))
    try:
        piece = _parse(chosen, kind)
    except pa.ArrowInvalid as problem:
        if len(rows) > 1:
            middle = len(rows) // 2
            _parse_by_halves(documents, rows[:middle], kind, pieces, order, bad)
            _parse_by_halves(documents, rows[middle:], kind, pieces, order, bad)
            return
        bad[int(rows[0])] = _reason(problem, chosen[0].as_py(), kind)
        piece = pa.nulls(1, pa.bool_() if kind is None else kind)
    pieces.append(piece)
    order.append(rows)


def _reason(problem: pa.ArrowInvalid, document: bytes, kind: pa.StructType | None) -> str:
    said = _COLUMN.sub(lambda found: f"field '{found[1]}'" if found[1] else "it", str(problem))
    said = _ROW_NUMBER.sub("", said.removeprefix("JSON parse error: "))
    shown = document[:_SHOWN_LETTERS].decode(errors="backslashreplace")
    cut = "…" if len(document) > _SHOWN_LETTERS else ""
    expected = "JSON" if kind is None else "a JSON object of the schema"
    return f"expected {expected}, found {len(document)} bytes {shown!r}{cut} ({said})"
