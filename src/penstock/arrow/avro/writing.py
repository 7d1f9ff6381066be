"""Write columns as Avro data field by field: encode each field of all rows, then join the bytes row by row.

`schema_of` derives the schema of a column that was given none; `Writer` writes columns with a schema.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.avro.mapping import arrow_type, decimal_of, is_spread, logical, member
from penstock.arrow.byte_columns import (
    constant,
    grouped,
    joined,
    lengths,
    list_items,
    little_endian,
    of_rows,
    placed,
    reals,
    varint,
    varints,
    zigzag,
)
from penstock.arrow.decoded import valid_rows
from penstock.arrow.encoding import Unwritable, at_path
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
# Kinds of branches that can hold the values of the other branches, if a union becomes one column type.
_WIDE: Final = ("long", "double", "string", "bytes")
_END: Final = constant(b"\0")


def schema_of(kind: pa.DataType, name: str) -> Any:
    """Derive an Avro schema from a type; all fields are nullable, as in Spark. Raises ConfigError."""
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
        raise ConfigError(f"{at_path(path)} is of type {kind}, which has no form in Avro")
    return _SIMPLE[str(kind)]


class Writer:
    """A writer of columns of ``kind`` with ``schema``. Raises ConfigError if they don't fit."""

    def __init__(self, schema: Type, kind: pa.DataType) -> None:
        arrow_type(schema)  # refuses recursive types
        self._encode = _encoder(schema, kind, "")

    def write(self, column: pa.Array) -> pa.BinaryArray:
        """Encode all rows, none of which may be null, as Avro data. Raises Unwritable."""
        return self._encode(column)


def _encoder(schema: Type, kind: pa.DataType, path: str) -> _Encode:
    if schema.kind == "union":
        return _union(schema, kind, path)
    encode = _encoder_of_values(schema, kind, path)

    def checked(column: pa.Array) -> pa.BinaryArray:
        if column.null_count:
            raise Unwritable(f"{at_path(path)} is null in a row, which the schema does not allow")
        return encode(column)

    return checked


def _union(schema: Type, kind: pa.DataType, path: str) -> _Encode:
    """Encode the index of the branch, then the value."""
    encode = _members(schema, kind, path) if is_spread(schema) else _widest(schema, kind, path)
    nulls = [at for at, each in enumerate(schema.items) if each.kind == "null"]

    def encoded(column: pa.Array) -> pa.BinaryArray:
        if not column.null_count:
            return encode(column)
        if not nulls:
            raise Unwritable(f"{at_path(path)} is null in a row, which the schema does not allow")
        there = np.flatnonzero(valid_rows(column))
        places = np.full(len(column), len(there), np.int64)
        places[there] = np.arange(len(there))
        none = pa.array([_long_bytes(nulls[0])], pa.binary())
        return pa.concat_arrays([encode(column.take(pa.array(there))), none]).take(pa.array(places))

    return encoded


def _widest(schema: Type, kind: pa.DataType, path: str) -> _Encode:
    """Encode with the widest branch, as all branches are read as one type."""
    others = [at for at, each in enumerate(schema.items) if each.kind != "null"]
    place = next((at for at in others if schema.items[at].kind in _WIDE), others[-1])
    encode = _encoder(schema.items[place], kind, path)
    branch = constant(_long_bytes(place))
    return lambda column: joined(branch, encode(column))


def _members(schema: Type, kind: pa.DataType, path: str) -> _Encode:
    """Encode a struct with one field for each branch of the union, of which exactly one is not null."""
    others = [(at, each) for at, each in enumerate(schema.items) if each.kind != "null"]
    named = {member(number): (place, of) for number, (place, of) in enumerate(others)}
    if not pa.types.is_struct(kind) or not {field.name for field in kind} <= named.keys():
        branches = ", ".join(f"{name} ({of.full_name})" for name, (_, of) in named.items())
        raise ConfigError(
            f"{at_path(path)} is of type {kind}, which the schema's union can't hold: expected a "
            f"struct of {branches}, or of some of these"
        )
    encoders = []
    for field in kind:
        place, of = named[field.name]
        encoders.append((constant(_long_bytes(place)), _encoder(of, field.type, f"{path}.{field.name}")))

    def encode(column: pa.StructArray) -> pa.BinaryArray:
        parts = column.flatten()
        is_set = [valid_rows(part) for part in parts]
        counts = np.sum(is_set, axis=0)
        if (wrong := counts[counts != 1]).size:
            raise Unwritable(
                f"{at_path(path)} has {wrong[0]} members in a row that are not null, expected one because it "
                "is a union"
            )
        values = []
        for part, rows, (branch, encode_one) in zip(parts, is_set, encoders, strict=True):
            found = joined(branch, encode_one(part.filter(pa.array(rows))))
            values.append(placed(found, np.flatnonzero(rows), len(column)))
        return joined(*values)

    return encode


def _encoder_of_values(schema: Type, kind: pa.DataType, path: str) -> _Encode:
    wrong = ConfigError(
        f"{at_path(path)} is of type {kind}, which the schema's {schema.full_name} can't hold: expected "
        f"{arrow_type(schema)}"
    )
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
            return lambda column: little_endian(column.cast(pa.uint8()).to_numpy(zero_copy_only=False))
        case "int" if name == "date" and pa.types.is_date32(kind):
            return lambda column: _longs(column.cast(pa.int32()).to_numpy(zero_copy_only=False))
        case "long" if "timestamp" in name and pa.types.is_timestamp(kind):
            made = pa.timestamp("us", kind.tz)
            us_per_unit = 1000 if name.endswith("millis") else 1
            # Floor division keeps the right millisecond before 1970 too.
            return lambda column: _longs(
                column.cast(made).cast(pa.int64()).to_numpy(zero_copy_only=False) // us_per_unit
            )
        case "int" | "long" if not name and pa.types.is_integer(kind):
            if kind.bit_width > (32 if schema.kind == "int" else 64):
                raise wrong
            return lambda column: _longs(column.to_numpy(zero_copy_only=False))
        case "float" | "double" if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            if schema.kind == "float" and kind != pa.float32():
                raise wrong
            made = pa.float32() if schema.kind == "float" else pa.float64()
            return lambda column: little_endian(reals(column, path, made))
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
        case "fixed" if pa.types.is_string(kind) and name == "uuid":
            return _uuid(path)
    raise wrong


def _record(schema: Type, kind: pa.StructType, path: str) -> _Encode:
    """Encode fields by name; a field that the column lacks is written as null."""
    given = {field.name: at for at, field in enumerate(kind)}
    if unknown := sorted(given.keys() - {field.name for field in schema.fields}):
        raise ConfigError(f"{at_path(f'{path}.{unknown[0]}')} is in the column, but not in the schema")
    fields: list[tuple[int | None, _Encode]] = []
    for field in schema.fields:
        where = f"{path}.{field.name}"
        at = given.get(field.name)
        if at is None and not any(each.kind == "null" for each in field.type.items):
            raise ConfigError(f"{at_path(where)} is in the schema, but not in the column, and can't be null")
        of = pa.null() if at is None else kind.field(at).type
        fields.append((at, _absent(field.type) if at is None else _encoder(field.type, of, where)))

    def encode(column: pa.StructArray) -> pa.BinaryArray:
        parts = column.flatten()
        return joined(*(each(column if at is None else parts[at]) for at, each in fields))

    return encode


def _absent(schema: Type) -> _Encode:
    place = next(at for at, each in enumerate(schema.items) if each.kind == "null")
    none = constant(_long_bytes(place))
    return lambda column: pa.repeat(none, len(column))


def _repeated(encode: _Encode) -> _Encode:
    def encoded(column: pa.ListArray) -> pa.BinaryArray:
        return _blocks(column, encode, column.values)

    return encoded


def _map(encode: _Encode) -> _Encode:
    def encoded(column: pa.MapArray) -> pa.BinaryArray:
        entries = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"])

        def pairs(found: pa.StructArray) -> pa.BinaryArray:
            keys, values = found.flatten()
            return joined(_with_length(keys), encode(values))

        return _blocks(column, pairs, entries)

    return encoded


def _blocks(column: pa.ListArray | pa.MapArray, encode: _Encode, values: pa.Array) -> pa.BinaryArray:
    """Encode the items of each row as one block, followed by the end marker."""
    offsets, items = list_items(column, values)
    counts = np.diff(offsets)
    whole = joined(_longs(counts), grouped(encode(items), offsets), _END)
    return whole if counts.all() else pc.if_else(pa.array(counts > 0), whole, _END)


def _with_length(column: pa.Array) -> pa.BinaryArray:
    values = column.cast(pa.binary())
    return joined(_longs(lengths(values)), values)


def _enum(schema: Type, path: str) -> _Encode:
    symbols = pa.array(schema.symbols, pa.string())

    def encode(column: pa.Array) -> pa.BinaryArray:
        places = pc.index_in(column, symbols)
        if places.null_count:
            found = column.filter(places.is_null())[0].as_py()
            raise Unwritable(f"{at_path(path)} is {found!r}, expected one of {', '.join(schema.symbols)}")
        return _longs(places.to_numpy(zero_copy_only=False))

    return encode


def _of_size(size: int, path: str) -> _Encode:
    def encode(column: pa.Array) -> pa.BinaryArray:
        if not pc.all(pc.equal(pc.binary_length(column), size)).as_py() and len(column):
            raise Unwritable(
                f"{at_path(path)} has a value that is not {size} bytes, as its fixed type requires"
            )
        return column

    return encode


def _uuid(path: str) -> _Encode:
    def bytes_of(text: str) -> bytes:
        try:
            return uuid.UUID(text).bytes
        except ValueError:
            raise Unwritable(f"{at_path(path)} is {text!r}, expected a UUID") from None

    return lambda column: pa.array([bytes_of(each) for each in column.to_pylist()], pa.binary())


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
        found = of_rows(np.ascontiguousarray(rows[:, ::-1]))
        if schema.kind == "fixed":
            return found
        return joined(constant(_long_bytes(size)), found)

    return encode


def _longs(numbers: np.ndarray) -> pa.BinaryArray:
    return varints(zigzag(numbers))


def _long_bytes(number: int) -> bytes:
    return varint(int(zigzag(np.array([number]))[0]))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
