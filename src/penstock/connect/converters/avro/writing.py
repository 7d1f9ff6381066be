"""Writes values as Avro's binary data: each pair of schemas becomes a function that adds bytes."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from penstock.connect.converters.avro.settings import AvroSettings, is_fixed, is_union
from penstock.connect.data import logical
from penstock.connect.data.schema import Schema
from penstock.connect.data.schema import Type as ConnectType
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError
from penstock.java.numbers import float32
from penstock.registry.formats.avro.types import Type

Write: TypeAlias = Callable[[Any, bytearray], None]

_BITS: Final = {ConnectType.INT8: 8, ConnectType.INT16: 16, ConnectType.INT32: 32, ConnectType.INT64: 64}
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_INT64: Final = range(-(1 << 63), 1 << 63)
_ANYTHING: Final = ("boolean", "bytes", "double", "float", "int", "long", "string", "array", "map")


def add_long(number: int, out: bytearray) -> None:
    """Add an integer of up to 64 bits as Avro writes it: few bytes for those near 0."""
    rest = (number << 1) ^ (number >> 63)
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)


def _varint(number: int) -> bytes:
    out = bytearray()
    add_long(number, out)
    return bytes(out)


@dataclass(frozen=True, slots=True)
class Writing:
    """Makes the functions that write values."""

    settings: AvroSettings

    def writer(self, schema: Schema | None, of: Type) -> Write:
        """Make the function that writes values of a schema, whose translation is ``of``.

        It raises DataError for values that don't fit.
        """
        if schema is None:
            return add_anything
        if schema.type is ConnectType.STRUCT and is_union(schema):
            return self._union(schema, of)
        if of.kind != "union":
            return self._value(schema, of)
        at = next(at for at, each in enumerate(of.items) if each.kind != "null")
        write_value = self._value(schema, of.items[at])
        branch, null = _varint(at), _varint(1 - at)

        def write(value: Any, out: bytearray) -> None:
            if value is None:
                out += null
            else:
                out += branch
                write_value(value, out)

        return write

    def _value(self, schema: Schema, of: Type) -> Write:
        match schema.name:
            case logical.DECIMAL_NAME:
                return _decimal_writer(schema, of)
            case logical.DATE_NAME:
                return _number_writer(schema, datetime.date, logical.days_of)
            case logical.TIME_NAME:
                return _number_writer(schema, datetime.time, logical.millis_of_day)
            case logical.TIMESTAMP_NAME:
                return _number_writer(schema, datetime.datetime, logical.epoch_millis)
        match schema.type:
            case ConnectType.STRUCT:
                return self._struct(schema, of)
            case ConnectType.ARRAY:
                return self._array(schema, of)
            case ConnectType.MAP:
                return self._map(schema, of)
            case ConnectType.FLOAT32 | ConnectType.FLOAT64:
                return _float_writer(schema)
            case ConnectType.BOOLEAN:
                return _boolean_writer(schema)
            case ConnectType.STRING:
                return _enum_writer(schema, of) if of.kind == "enum" else _string_writer(schema)
            case ConnectType.BYTES:
                return _bytes_writer(schema, of)
        return _integer_writer(schema)

    def _struct(self, schema: Schema, of: Type) -> Write:
        pairs = zip(schema.fields, of.fields, strict=True)
        fields = [self._field(each.schema, other.type) for each, other in pairs]
        equal = schema  # the last that was found to be equal, since a comparison takes long

        def write(value: Any, out: bytearray) -> None:
            nonlocal equal
            equal = _checked_struct(value, schema, equal)
            for write_field, each in zip(fields, value.own_values, strict=True):
                write_field(each, out)

        return write

    def _field(self, schema: Schema, of: Type) -> Write:
        """Make the function that writes a field, or its default in place of null."""
        write_value = self.writer(schema, of)
        default = schema.default
        if default is None or (self.settings.ignores_defaults and schema.optional):
            return write_value

        def write(value: Any, out: bytearray) -> None:
            write_value(default if value is None else value, out)

        return write

    def _union(self, schema: Schema, of: Type) -> Write:
        """Make the function that writes the only value of a struct as the member of a union."""
        has_null = schema.optional
        members = []
        for at, each in enumerate(schema.fields, start=int(has_null)):
            write_member = self._value(each.schema, of.items[at])
            members.append(
                (_varint(at), write_member, None if self.settings.ignores_defaults else each.schema.default)
            )
        equal = schema

        def write(value: Any, out: bytearray) -> None:
            nonlocal equal
            if value is None and has_null:
                out.append(0)
                return
            equal = _checked_struct(value, schema, equal)
            for (branch, write_member, default), each in zip(members, value.own_values, strict=True):
                found = default if each is None else each
                if found is not None:
                    out += branch
                    write_member(found, out)
                    return
            if not has_null:
                raise DataError(
                    "Found null value for non-optional schema: no member of the union has a value"
                )
            out.append(0)

        return write

    def _array(self, schema: Schema, of: Type) -> Write:
        write_element = self.writer(schema.value_schema, of.items[0])

        def write(value: Any, out: bytearray) -> None:
            if not isinstance(value, list | tuple):
                raise misfit(schema, value)
            if value:
                add_long(len(value), out)
                for each in value:
                    write_element(each, out)
            out.append(0)

        return write

    def _map(self, schema: Schema, of: Type) -> Write:
        if of.kind == "map":
            write_key: Write = _string_writer(schema)
            write_value = self.writer(schema.value_schema, of.items[0])
        else:
            key, entry = of.items[0].fields
            write_key = self.writer(schema.key_schema, key.type)
            write_value = self.writer(schema.value_schema, entry.type)

        def write(value: Any, out: bytearray) -> None:
            if not isinstance(value, dict):
                raise misfit(schema, value)
            if value:
                add_long(len(value), out)
                for name, each in value.items():
                    write_key(name, out)
                    write_value(each, out)
            out.append(0)

        return write


def _checked_struct(value: Any, schema: Schema, equal: Schema) -> Schema:
    """Return the schema of a struct, which must be this one or one that is equal."""
    if not isinstance(value, Struct):
        raise misfit(schema, value)
    found = value.schema
    if found is not schema and found is not equal and found != schema:
        raise DataError(f"Mismatching struct schema: found {found}, expected {schema}")
    return found


def _integer_writer(schema: Schema) -> Write:
    bits = _BITS[schema.type]
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def write(value: Any, out: bytearray) -> None:
        if value.__class__ is not int or not low <= value <= high:
            raise misfit(schema, value)
        if -64 <= value < 64:
            out.append((value << 1) ^ (value >> 63))
        else:
            add_long(value, out)

    return write


def _float_writer(schema: Schema) -> Write:
    is_short = schema.type is ConnectType.FLOAT32

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, float):
            raise misfit(schema, value)
        out += _FLOAT.pack(float32(value)) if is_short else _DOUBLE.pack(value)

    return write


def _boolean_writer(schema: Schema) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if value.__class__ is not bool:
            raise misfit(schema, value)
        out.append(value)

    return write


def _string_writer(schema: Schema) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, str):
            raise misfit(schema, value)
        data = value.encode(errors="replace")
        add_long(len(data), out)
        out += data

    return write


def _enum_writer(schema: Schema, of: Type) -> Write:
    places = {symbol: _varint(at) for at, symbol in enumerate(of.symbols)}

    def write(value: Any, out: bytearray) -> None:
        place = places.get(value) if isinstance(value, str) else None
        if place is None:
            raise misfit(schema, value)
        out += place

    return write


def _bytes_writer(schema: Schema, of: Type) -> Write:
    size = of.size if of.kind == "fixed" else None

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise misfit(schema, value)
        if size is None:
            add_long(len(value), out)
        elif len(value) != size:
            raise misfit(schema, value)
        out += value

    return write


def _decimal_writer(schema: Schema, of: Type) -> Write:
    scale = logical.scale_parameter(schema)
    size = of.size if is_fixed(schema) else None

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, Decimal) or not value.is_finite():
            raise misfit(schema, value)
        data = logical.unscaled_bytes(value, scale)
        if size is None:
            add_long(len(data), out)
        elif len(data) > size:
            raise DataError(f"Unscaled value has {len(data)} bytes, which is greater than fixed size {size}")
        else:
            data = (b"\xff" if data[0] & 0x80 else b"\0") * (size - len(data)) + data
        out += data

    return write


def _number_writer(schema: Schema, class_: type, number: Callable[[Any], int]) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, class_) or (
            class_ is datetime.date and isinstance(value, datetime.datetime)
        ):
            raise misfit(schema, value)
        add_long(number(value), out)

    return write


def add_anything(value: Any, out: bytearray) -> None:
    """Add a value without a schema: a record with a field for each type, of which one has a value."""
    if value is None:
        out += bytes(len(_ANYTHING))
        return
    kind, data = _anything(value)
    at = _ANYTHING.index(kind)
    out += bytes(at) + b"\x02" + data + bytes(len(_ANYTHING) - 1 - at)


def _anything(value: Any) -> tuple[str, bytes]:
    data = bytearray()
    match value:
        case bool():
            return "boolean", bytes([value])
        case int() if value in _INT64:
            return "long", _varint(value)
        case float():
            return "double", _DOUBLE.pack(value)
        case str():
            text = value.encode(errors="replace")
            return "string", _varint(len(text)) + text
        case list() | tuple() | dict():
            if value:
                add_long(len(value), data)
            parts = [part for entry in value.items() for part in entry] if isinstance(value, dict) else value
            for each in parts:
                add_anything(each, data)
            return "map" if isinstance(value, dict) else "array", bytes(data) + b"\0"
    raise DataError(f"Unknown type for schemaless data: {type(value).__name__}")


def misfit(schema: Schema, value: Any) -> DataError:
    """Return the error for a value that does not fit its schema."""
    if value is None:
        return DataError(f"Found null value for non-optional schema {schema}")
    return DataError(f"Invalid type for {schema}: {value!r} ({type(value).__name__})")
