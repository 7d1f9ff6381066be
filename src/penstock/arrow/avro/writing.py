"""Columns to Avro data, all rows of a batch field by field: the bytes of each field, then joined row by row.

`schema_of` says which schema a column has that nobody gave one; `Writer` writes columns as a schema says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.avro.mapping import arrow_type, decimal_of, is_spread, logical
from penstock.arrow.encoding import Unwritable
from penstock.client.settings import ConfigError
from penstock.registry.formats.avro.types import Type

_Encode = Callable[[pa.Array], pa.BinaryArray]
_SIMPLE: Final = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "binary": "bytes",
    "large_binary": "bytes",
}
_VARINT_BYTES_MAX: Final = 10


def schema_of(kind: pa.DataType, name: str) -> Any:
    """The Avro schema of a column, every field nullable: what Spark's own types say. Raises ConfigError."""
    return _schema(kind, name, "")


def _schema(kind: pa.DataType, name: str, path: str) -> Any:
    if pa.types.is_struct(kind):
        fields = [
            {
                "name": f.name,
                "type": ["null", _schema(f.type, f"{name}_{f.name}", f"{path}.{f.name}")],
                "default": None,
            }
            for f in kind
        ]
        return {"type": "record", "name": name, "fields": fields}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _schema(kind.value_type, f"{name}_item", f"{path}[]")]}
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _schema(kind.item_type, f"{name}_value", f"{path}{{}}")]}
    if pa.types.is_decimal128(kind):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if pa.types.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        return {
            "type": "long",
            "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros",
        }
    if str(kind) not in _SIMPLE:
        raise ConfigError(f"{_at(path)} is of type {kind}, which has no form in Avro")
    return _SIMPLE[str(kind)]


class Writer:
    """Writes columns of ``kind`` as ``schema`` says. Raises ConfigError where they don't fit."""

    def __init__(self, schema: Type, kind: pa.DataType) -> None:
        arrow_type(schema)  # refuses what contains itself
        self._encode = _encoder(schema, kind, "")

    def write(self, column: pa.Array) -> pa.BinaryArray:
        """Every row, none of them null, as Avro data. Raises Unwritable."""
        return self._encode(column)


def _encoder(schema: Type, kind: pa.DataType, path: str) -> _Encode:
    if schema.kind == "union":
        return _nullable(schema, kind, path)
    encode = _encoder_of_values(schema, kind, path)

    def checked(column: pa.Array) -> pa.BinaryArray:
        if column.null_count:
            raise Unwritable(f"{_at(path)} is null in a row, which the schema does not allow")
        return encode(column)

    return checked


def _nullable(schema: Type, kind: pa.DataType, path: str) -> _Encode:
    """A union with null: which branch, then the value."""
    if is_spread(schema):
        raise ConfigError(f"{_at(path)} is a union of several types: such a schema is read, but not written")
    others = [at for at, each in enumerate(schema.items) if each.kind != "null"]
    place = others[-1]  # of int and long the wider one
    for at in others:
        if schema.items[at].kind in ("long", "double"):
            place = at
    nulls = [at for at, each in enumerate(schema.items) if each.kind == "null"]
    encode = _encoder(schema.items[place], kind, path)
    some = pa.scalar(_varint_bytes(place), pa.binary())

    def encoded(column: pa.Array) -> pa.BinaryArray:
        if not column.null_count:
            return _joined([pa.repeat(some, len(column)), encode(column)])
        if not nulls:
            raise Unwritable(f"{_at(path)} is null in a row, which the schema does not allow")
        there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        values = _joined([pa.repeat(some, len(there)), encode(column.take(pa.array(there)))])
        places = np.full(len(column), len(there), np.int64)
        places[there] = np.arange(len(there))
        none = pa.array([_varint_bytes(nulls[0])], pa.binary())
        return pa.concat_arrays([values, none]).take(pa.array(places))

    return encoded


def _encoder_of_values(schema: Type, kind: pa.DataType, path: str) -> _Encode:
    wrong = ConfigError(f"{_at(path)} is of type {kind}, which the schema's {schema.full_name} does not hold")
    match schema.kind:
        case "record":
            if not pa.types.is_struct(kind):
                raise wrong
            return _record(schema, kind, path)
        case "array":
            if not pa.types.is_list(kind):
                raise wrong
            return _repeated(_encoder(schema.items[0], kind.value_type, f"{path}[]"))
        case "map":
            if not pa.types.is_map(kind) or not pa.types.is_string(kind.key_type):
                raise wrong
            return _map(_encoder(schema.items[0], kind.item_type, f"{path}{{}}"))
    return _simple(schema, kind, path, wrong)


def _simple(schema: Type, kind: pa.DataType, path: str, wrong: ConfigError) -> _Encode:
    name = logical(schema)
    match schema.kind:
        case "boolean" if pa.types.is_boolean(kind):
            return lambda column: _fixed_bytes(column.cast(pa.uint8()).to_numpy(zero_copy_only=False), 1)
        case "int" if name == "date" and pa.types.is_date32(kind):
            return lambda column: _varints(column.cast(pa.int32()).to_numpy(zero_copy_only=False))
        case "long" if "timestamp" in name and pa.types.is_timestamp(kind):
            unit = "ms" if name.endswith("millis") else "us"
            made = pa.timestamp(unit, kind.tz)
            return lambda column: _varints(
                column.cast(made, safe=False).cast(pa.int64()).to_numpy(zero_copy_only=False)
            )
        case "int" | "long" if not name and pa.types.is_integer(kind):
            if kind.bit_width > (32 if schema.kind == "int" else 64):
                raise wrong
            return lambda column: _varints(column.to_numpy(zero_copy_only=False))
        case "float" | "double" if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            if schema.kind == "float" and kind != pa.float32():
                raise wrong
            made = pa.float32() if schema.kind == "float" else pa.float64()
            return lambda column: _fixed_bytes(
                column.cast(made).to_numpy(zero_copy_only=False), made.bit_width // 8
            )
        case "bytes" | "fixed" if name == "decimal" and pa.types.is_decimal128(kind):
            return _decimal(schema, kind, wrong)
        case "string" | "bytes" if _is_text(kind) and not name:
            if schema.kind == "string" and not pa.types.is_string(kind):
                raise wrong
            return _with_length
        case "enum" if pa.types.is_string(kind):
            return _enum(schema, path)
        case "fixed" if pa.types.is_binary(kind) and not name:
            return _of_size(schema.size, path)
    raise wrong


def _record(schema: Type, kind: pa.StructType, path: str) -> _Encode:
    """Fields by name; one that the column lacks is written as null."""
    given = {field.name: at for at, field in enumerate(kind)}
    if unknown := sorted(given.keys() - {field.name for field in schema.fields}):
        raise ConfigError(f"{_at(f'{path}.{unknown[0]}')} is in the column, but not in the schema")
    fields: list[tuple[int | None, _Encode]] = []
    for field in schema.fields:
        where = f"{path}.{field.name}"
        at = given.get(field.name)
        if at is None and not any(each.kind == "null" for each in field.type.items):
            raise ConfigError(f"{_at(where)} is in the schema, but not in the column, and can't be null")
        of = pa.null() if at is None else kind.field(at).type
        fields.append((at, _absent(field.type) if at is None else _encoder(field.type, of, where)))

    def encode(column: pa.StructArray) -> pa.BinaryArray:
        parts = column.flatten()
        return _joined([each(column if at is None else parts[at]) for at, each in fields])

    return encode


def _absent(schema: Type) -> _Encode:
    place = next(at for at, each in enumerate(schema.items) if each.kind == "null")
    none = pa.scalar(_varint_bytes(place), pa.binary())
    return lambda column: pa.repeat(none, len(column))


def _repeated(encode: _Encode) -> _Encode:
    def encoded(column: pa.ListArray) -> pa.BinaryArray:
        return _blocks(column.offsets.to_numpy(), encode, column.values)

    return encoded


def _map(encode: _Encode) -> _Encode:
    def encoded(column: pa.MapArray) -> pa.BinaryArray:
        entries = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"])

        def pairs(found: pa.StructArray) -> pa.BinaryArray:
            keys, values = found.flatten()
            return _joined([_with_length(keys), encode(values)])

        return _blocks(column.offsets.to_numpy(), pairs, entries)

    return encoded


def _blocks(offsets: np.ndarray, encode: _Encode, values: pa.Array) -> pa.BinaryArray:
    """One block for what a row has, and the end."""
    first, last = int(offsets[0]), int(offsets[-1])
    items = encode(values.slice(first, last - first))
    _, bounds, data = items.buffers()
    ends = np.frombuffer(bounds, np.int32, len(items) + 1, 4 * items.offset) if len(items) else np.zeros(1)
    together = pa.Array.from_buffers(
        pa.binary(),
        len(offsets) - 1,
        [None, pa.py_buffer(ends[offsets - first].astype(np.int32)), data or pa.py_buffer(b"")],
    )
    counts = np.diff(offsets).astype(np.int64)
    heads = _varints(counts)
    end = pa.repeat(pa.scalar(b"\0", pa.binary()), len(counts))
    whole = _joined([heads, together, end])
    return whole if counts.all() else pc.if_else(pa.array(counts > 0), whole, end)


def _with_length(column: pa.Array) -> pa.BinaryArray:
    values = column.cast(pa.binary())
    return _joined([_varints(pc.binary_length(values).to_numpy(zero_copy_only=False)), values])


def _enum(schema: Type, path: str) -> _Encode:
    symbols = pa.array(schema.symbols, pa.string())

    def encode(column: pa.Array) -> pa.BinaryArray:
        places = pc.index_in(column, symbols)
        if places.null_count:
            found = column.filter(places.is_null())[0].as_py()
            raise Unwritable(f"{_at(path)} is {found!r}, expected one of {', '.join(schema.symbols)}")
        return _varints(places.to_numpy(zero_copy_only=False))

    return encode


def _of_size(size: int, path: str) -> _Encode:
    def encode(column: pa.Array) -> pa.BinaryArray:
        if not pc.all(pc.equal(pc.binary_length(column), size)).as_py() and len(column):
            raise Unwritable(f"{_at(path)} has a value that is not {size} bytes, as its fixed is")
        return column

    return encode


def _decimal(schema: Type, kind: pa.Decimal128Type, wrong: ConfigError) -> _Encode:
    precision, scale = decimal_of(schema) or (0, 0)
    if kind.scale != scale or kind.precision > precision:
        raise wrong
    size = schema.size if schema.kind == "fixed" else 16
    if size > 16 or 10**precision > 1 << (8 * size - 1):
        raise wrong

    def encode(column: pa.Array) -> pa.BinaryArray:
        words = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, 16)
        rows = words[column.offset : column.offset + len(column), :size]
        found = _of_rows(np.ascontiguousarray(rows[:, ::-1]))
        if schema.kind == "fixed":
            return found
        return _joined([pa.repeat(pa.scalar(_varint_bytes(size), pa.binary()), len(column)), found])

    return encode


def _varints(numbers: np.ndarray) -> pa.BinaryArray:
    """Zigzag varints, one a row."""
    signed = numbers.astype(np.int64)
    left = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    data = np.empty((len(left), _VARINT_BYTES_MAX), np.uint8)
    sizes = np.ones(len(left), np.int64)
    width = 1
    for place in range(_VARINT_BYTES_MAX):
        rest = left >> np.uint64(7)
        more = rest > 0
        data[:, place] = (left & np.uint64(0x7F)) | (more.astype(np.uint64) << np.uint64(7))
        width = place + 1
        if not more.any():
            break
        sizes += more
        left = rest
    bounds = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    is_part = np.arange(width) < sizes[:, None]
    return pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(bounds), pa.py_buffer(data[:, :width][is_part])]
    )


def _varint_bytes(number: int) -> bytes:
    found: bytes = _varints(np.array([number]))[0].as_py()
    return found


def _fixed_bytes(numbers: np.ndarray, size: int) -> pa.BinaryArray:
    little = np.ascontiguousarray(numbers).astype(numbers.dtype.newbyteorder("<"))
    return _of_rows(little.view(np.uint8).reshape(-1, size))


def _of_rows(data: np.ndarray) -> pa.BinaryArray:
    rows, size = data.shape
    bounds = np.arange(rows + 1, dtype=np.int32) * size
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data.tobytes())]
    )


def _joined(parts: list[pa.Array]) -> pa.BinaryArray:
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _at(path: str) -> str:
    return f"field '{path.lstrip('.')}'" if path else "it"
