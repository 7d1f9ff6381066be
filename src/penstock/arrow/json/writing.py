"""Write columns as JSON documents, all rows field by field, and derive the JSON Schema of a column.

Times are written as ISO 8601, decimals as texts, binary as base64.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.byte_columns import grouped, list_items
from penstock.arrow.encoding import Unwritable, at_path
from penstock.client.settings import ConfigError

_Encode = Callable[[pa.Array], pa.StringArray]
_JSON_TYPES: Final = {
    "bool": "boolean",
    "float": "number",
    "double": "number",
    "string": "string",
    "date32[day]": "string",
}
_NULL: Final = pa.scalar("null")
_ESCAPED: Final = r'["\\\x00-\x1f]'


def documents_of(kind: pa.DataType) -> Callable[[pa.Array], pa.BinaryArray]:
    """Return an encoder of columns, with one document for each value.

    Raises ConfigError for unsupported types.
    """
    encode = _encoder(kind, "")
    return lambda column: encode(column).cast(pa.binary())


def _encoder(kind: pa.DataType, path: str) -> _Encode:
    """Return an encoder of all values, including null. Raises ConfigError; the encoder raises Unwritable."""
    encode = _encoder_of_values(kind, path)

    def encoded(column: pa.Array) -> pa.StringArray:
        found = encode(column)
        return pc.if_else(column.is_valid(), found, _NULL) if column.null_count else found

    return encoded


def _encoder_of_values(kind: pa.DataType, path: str) -> _Encode:
    """Return an encoder whose results for nulls are ignored."""
    if pa.types.is_struct(kind):
        return _struct(kind, path)
    if pa.types.is_list(kind):
        return _list(_encoder(kind.value_type, f"{path}[]"))
    if pa.types.is_map(kind):
        return _map(kind, path)
    if pa.types.is_string(kind):
        return _quoted
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return lambda column: column.cast(pa.string())
    if pa.types.is_floating(kind):
        return _real(path)
    if pa.types.is_decimal128(kind) or pa.types.is_date32(kind):
        return lambda column: _in_quotes(column.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        made = pa.timestamp("us", "UTC" if kind.tz else None)
        return lambda column: _in_quotes(
            pc.replace_substring(column.cast(made).cast(pa.string()), " ", "T", max_replacements=1)
        )
    if pa.types.is_binary(kind):
        return _base64
    if pa.types.is_null(kind):
        return lambda column: pa.repeat(_NULL, len(column))
    raise ConfigError(f"{at_path(path)} is of type {kind}, which has no form in JSON")


def _struct(kind: pa.StructType, path: str) -> _Encode:
    fields = [_encoder(field.type, f"{path}.{field.name}") for field in kind]
    names = [f"{'{' if at == 0 else ','}{_text(field.name)}:" for at, field in enumerate(kind)]
    if not fields:
        return lambda column: pa.repeat(pa.scalar("{}"), len(column))

    def encode(column: pa.StructArray) -> pa.StringArray:
        parts: list[Any] = []
        for name, field, part in zip(names, fields, column.flatten(), strict=True):
            parts += [name, field(part)]
        return _joined(*parts, "}")

    return encode


def _list(encode: _Encode) -> _Encode:
    def encoded(column: pa.ListArray) -> pa.StringArray:
        offsets, items = list_items(column, column.values)
        return _joined("[", _with_commas(encode(items), offsets), "]")

    return encoded


def _map(kind: pa.MapType, path: str) -> _Encode:
    is_text = pa.types.is_string(kind.key_type)
    if not is_text and not pa.types.is_integer(kind.key_type):
        raise ConfigError(f"{at_path(path)} is of type {kind}, which has no form in JSON: keys must be texts")
    value = _encoder(kind.item_type, f"{path}{{}}")

    def encode(column: pa.MapArray) -> pa.StringArray:
        offsets, keys = list_items(column, column.keys)
        _, values = list_items(column, column.items)
        names = _quoted(keys) if is_text else _in_quotes(keys.cast(pa.string()))
        return _joined("{", _with_commas(_joined(names, ":", value(values)), offsets), "}")

    return encode


def _with_commas(items: pa.StringArray, offsets: np.ndarray) -> pa.StringArray:
    """Join the items of each list with commas."""
    is_first = np.zeros(len(items), bool)
    is_first[(offsets[:-1] - offsets[0])[np.diff(offsets) > 0]] = True
    separated = _joined(pc.if_else(pa.array(is_first), "", ","), items)
    return grouped(separated.cast(pa.binary()), offsets).cast(pa.string())


def _real(path: str) -> _Encode:
    def encode(column: pa.Array) -> pa.StringArray:
        if not pc.all(pc.is_finite(column)).as_py() and pc.any(pc.invert(pc.is_finite(column))).as_py():
            found = column.filter(pc.invert(pc.is_finite(column)))[0]
            raise Unwritable(f"{at_path(path)} is {found} in a row, which has no form in JSON")
        return column.cast(pa.string())

    return encode


def _quoted(column: pa.StringArray) -> pa.StringArray:
    found = _in_quotes(column)
    is_escaped = pc.match_substring_regex(column, _ESCAPED).fill_null(False)
    if pc.any(is_escaped).as_py():
        others = [_text(value) for value in column.filter(is_escaped).to_pylist()]
        return pc.replace_with_mask(found, is_escaped, pa.array(others, pa.string()))
    return found


def _base64(column: pa.BinaryArray) -> pa.StringArray:
    values = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
    return _in_quotes(pa.array(values, pa.string()))


def _in_quotes(column: pa.StringArray) -> pa.StringArray:
    return _joined('"', column, '"')


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()


def _joined(*parts: pa.Array | str) -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, "")


def schema_of(kind: pa.DataType, name: str) -> dict[str, Any]:
    """Derive the JSON Schema of the documents that `documents_of` writes."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": name, **_json_type(kind)}


def _json_type(kind: pa.DataType) -> dict[str, Any]:
    """Derive the schema of a type. Everything below the root may be null."""
    if pa.types.is_struct(kind):
        return {"type": "object", "properties": {f.name: _or_null(_json_type(f.type)) for f in kind}}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": _or_null(_json_type(kind.item_type))}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _or_null(_json_type(kind.value_type))}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    made: dict[str, Any] = {"type": _JSON_TYPES.get(str(kind), "string")}
    if pa.types.is_date32(kind):
        made["format"] = "date"
    elif pa.types.is_timestamp(kind) and kind.tz:
        made["format"] = "date-time"
    return made


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, dict(schema)]}
