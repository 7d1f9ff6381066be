"""Parse all JSON documents of a column at once with Arrow's parser, for `reading`.

The parser takes a text of consecutive documents, and if a row is bad it only fails. So each document is
wrapped as ``{"v":…}``: then no damaged document can swallow its neighbour or count as two rows, because
``}{`` stands between the wrappers, which is valid between documents and nowhere else. One error could still
pass: a document followed by members of its own, ``1,"w":2``. It would fail as ``{"v":[…]}``, so documents
that may have this form are parsed once more in that wrapper.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from penstock.arrow.json.times import timestamps
from penstock.client.settings import ConfigError

_OPEN: Final = b'{"v":'
_MARK: Final = b'{"v":true,"w":'  # the document itself is parsed and ignored
_AFTER_AN_OBJECT: Final = r"\}\s*,\s*\""
# Texts that only Arrow's parser accepts as numbers: first where they may be, then their exact form outside
# strings. There are two patterns of the first kind, as those that begin with letters match three times as
# fast.
_MAY_BE_NO_NUMBER: Final = (r"Inf(?:[\s,\]}]|$)", r"-NaN")
_NO_NUMBER: Final = re.compile(rb"Inf(?!inity)|-NaN")
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')


def refuse_unreadable(kind: pa.DataType, path: str = "") -> None:
    """Raise ConfigError for types that have no unique form in JSON."""
    if pa.types.is_struct(kind):
        for field in kind:
            refuse_unreadable(field.type, f"{path}.{field.name}".lstrip("."))
    elif pa.types.is_list(kind):
        refuse_unreadable(kind.value_type, f"{path}[]")
    else:
        try:
            pj.read_json(
                pa.BufferReader(b'{"v":null}'),
                parse_options=pj.ParseOptions(explicit_schema=pa.schema([("v", parsed_type(kind))])),
            )
            readable = not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
        except pa.ArrowNotImplementedError:
            readable = False
        if not readable:
            raise ConfigError(
                f"field {path!r} of the JSON schema is of type {kind}, which can't be read from JSON: "
                "expected booleans, numbers, strings, dates, timestamps, arrays and structs"
            )


def parsed_type(kind: pa.DataType, *, with_times: bool = False) -> pa.DataType:
    """Return the type to parse a column as.

    The parser reads dates as numbers and accepts no time finer than its column's unit, so both are parsed as
    texts and converted afterwards. With ``with_times`` only dates are.
    """
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and not with_times):
        return pa.string()
    if pa.types.is_struct(kind):
        parts = [field.with_type(parsed_type(field.type, with_times=with_times)) for field in kind]
        return pa.struct(parts)
    if pa.types.is_list(kind):
        element = parsed_type(kind.value_type, with_times=with_times)
        return pa.list_(kind.value_field.with_type(element))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, parsed_type(kind.item_type, with_times=with_times))
    return kind


def parse(documents: pa.BinaryArray, kind: pa.StructType | None) -> pa.Array:
    """Parse documents of which none may be null or invalid. Raises ArrowInvalid.

    They become values of the type, or marks if it is None. A document ``null`` becomes null.
    """
    if not len(documents):
        return pa.array([], pa.bool_() if kind is None else kind)
    documents.cast(pa.string())  # the parser does not check for valid UTF-8
    if kind is None:
        _parse_wrapped(documents, _MARK, b"}", pa.bool_())
        parsed = _parse_wrapped(documents, _MARK + b"[", b"]}", pa.bool_())
    else:
        parsed = _parse_typed(documents, kind)
        doubtful = documents.filter(pc.match_substring_regex(documents, _AFTER_AN_OBJECT))
        if len(doubtful):
            _parse_wrapped(doubtful, _MARK + b"[", b"]}", pa.bool_())
    _refuse_what_is_no_number(documents)
    return parsed


def _parse_typed(documents: pa.BinaryArray, kind: pa.StructType) -> pa.Array:
    """Parse documents as the type, with times by the parser if it accepts all of them. Raises ArrowInvalid.

    The parser is faster at times than the conversion from texts.
    """
    texts, times = parsed_type(kind), parsed_type(kind, with_times=True)
    if times != texts:
        with suppress(pa.ArrowInvalid):
            return typed(_parse_wrapped(documents, _OPEN, b"}", times), kind)
    return typed(_parse_wrapped(documents, _OPEN, b"}", texts), kind)


def typed(parsed: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert an array that was parsed as `parsed_type` to its own type. Raises ArrowInvalid."""
    if parsed.type == kind:
        return parsed
    if pa.types.is_struct(kind):
        # After flattening, the fields of a null are null.
        parts = [typed(part, field.type) for part, field in zip(parsed.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=parsed.is_null())
    if pa.types.is_list(kind):
        values = typed(parsed.values, kind.value_type)
        return pa.ListArray.from_arrays(parsed.offsets, values, type=kind, mask=parsed.is_null())
    if pa.types.is_map(kind):
        values = typed(parsed.items, kind.item_type)
        return pa.MapArray.from_arrays(parsed.offsets, parsed.keys, values, type=kind, mask=parsed.is_null())
    return timestamps(parsed, kind) if pa.types.is_timestamp(kind) else parsed.cast(kind)


def _refuse_what_is_no_number(documents: pa.BinaryArray) -> None:
    """Raise ArrowInvalid if a document has a number that only Arrow's parser accepts."""
    inf, nan = (pc.match_substring_regex(documents, pattern) for pattern in _MAY_BE_NO_NUMBER)
    for document in documents.filter(pc.or_(inf, nan)):
        found = _NO_NUMBER.search(_STRING.sub(b'""', document.as_py()))
        if found:
            raise pa.ArrowInvalid(f"Invalid value {found.group().decode()}.")


def _parse_wrapped(documents: pa.BinaryArray, opening: bytes, closing: bytes, kind: pa.DataType) -> pa.Array:
    """Parse the documents in wrappers and return the first members as ``kind``. Raises ArrowInvalid."""
    together = pa.ListArray.from_arrays(pa.array([0, len(documents)], pa.int32()), documents)
    body = pc.binary_join(together, closing + b"\n" + opening)[0].as_buffer()
    text = b"".join((opening, body, closing))
    table = pj.read_json(
        pa.BufferReader(text),
        # One block, because several would be cut at line ends, which documents may contain.
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema([("v", kind)]), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(documents):
        raise pa.ArrowInvalid(f"JSON parse error: {table.num_rows} documents instead of {len(documents)}")
    return table.column(0).combine_chunks()
