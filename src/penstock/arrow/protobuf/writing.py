"""Write columns as Protobuf messages field by field: encode each field of all rows, then join the bytes.

The result is the same as that of Google's library: fields in the order of their numbers, defaults left out if
the schema can't distinguish them from absent fields, and numbers packed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from penstock.arrow.byte_columns import (
    constant,
    grouped,
    joined,
    lengths,
    list_items,
    little_endian,
    placed,
    reals,
    trimmed,
    varint,
    varints,
    zigzag,
)
from penstock.arrow.decoded import valid_rows
from penstock.arrow.encoding import Unwritable, at_path
from penstock.arrow.protobuf.mapping import (
    DATE,
    DECIMAL,
    SCALARS,
    TIMESTAMP,
    WRAPPERS,
    Decimals,
    is_map,
    type_name,
)
from penstock.client.settings import ConfigError

F = FieldDescriptor
_Encode = Callable[[pa.Array], pa.BinaryArray]
_VARINT, _FIXED64, _LENGTH, _START, _END, _FIXED32 = range(6)
_WIRE_TYPES: Final = {
    F.TYPE_DOUBLE: _FIXED64,
    F.TYPE_FIXED64: _FIXED64,
    F.TYPE_SFIXED64: _FIXED64,
    F.TYPE_FLOAT: _FIXED32,
    F.TYPE_FIXED32: _FIXED32,
    F.TYPE_SFIXED32: _FIXED32,
    F.TYPE_STRING: _LENGTH,
    F.TYPE_BYTES: _LENGTH,
    F.TYPE_MESSAGE: _LENGTH,
    F.TYPE_GROUP: _START,
}
_DEFAULTS: Final = {_VARINT: b"\0", _FIXED64: bytes(8), _FIXED32: bytes(4), _LENGTH: b"\0"}
# The smallest and largest number of each type, and its encoder.
_WHOLE: Final = {
    F.TYPE_INT32: (-(2**31), 2**31 - 1, varints),
    F.TYPE_INT64: (-(2**63), 2**63 - 1, varints),
    F.TYPE_UINT32: (0, 2**32 - 1, varints),
    F.TYPE_UINT64: (0, 2**64 - 1, varints),
    F.TYPE_SINT32: (-(2**31), 2**31 - 1, lambda numbers: varints(zigzag(numbers))),
    F.TYPE_SINT64: (-(2**63), 2**63 - 1, lambda numbers: varints(zigzag(numbers))),
    F.TYPE_FIXED32: (0, 2**32 - 1, lambda numbers: little_endian(numbers.astype(np.uint32))),
    F.TYPE_FIXED64: (0, 2**64 - 1, lambda numbers: little_endian(numbers.astype(np.uint64))),
    F.TYPE_SFIXED32: (-(2**31), 2**31 - 1, lambda numbers: little_endian(numbers.astype(np.int32))),
    F.TYPE_SFIXED64: (-(2**63), 2**63 - 1, lambda numbers: little_endian(numbers.astype(np.int64))),
}
_NUMBER_TEXT: Final = r"^-?[0-9]{1,10}$"
_DECIMAL_BYTES: Final = 16


class MessageWriter:
    """A writer of columns of ``kind`` as messages of ``of``. Raises ConfigError if they don't fit."""

    def __init__(self, of: Descriptor, kind: pa.DataType, decimals: Decimals) -> None:
        self._encode = _Fields(decimals).message(of, kind, "")

    def write(self, column: pa.Array) -> pa.BinaryArray:
        """Encode all rows, none of which may be null, as messages. Raises Unwritable."""
        return self._encode(column)


class _Fields:
    def __init__(self, decimals: Decimals) -> None:
        self._decimals = decimals

    def message(self, of: Descriptor, kind: pa.DataType, path: str) -> _Encode:
        """Return an encoder of a message without its length."""
        if of.full_name == TIMESTAMP and pa.types.is_timestamp(kind) and kind.tz:
            return self._by_way_of(of, _seconds_and_nanos)
        if of.full_name == DATE and pa.types.is_date32(kind):
            return self._by_way_of(of, _year_month_day)
        if of.full_name == DECIMAL and pa.types.is_decimal128(kind):
            return self._by_way_of(of, _unscaled)
        if of.full_name in WRAPPERS:
            return self._field(of.fields_by_name["value"], kind, path)
        if not pa.types.is_struct(kind):
            raise _unfit(of.full_name, kind, _expected(of), path)
        return self._struct(of, kind, path)

    def _by_way_of(self, of: Descriptor, as_struct: Callable[[pa.Array], pa.StructArray]) -> _Encode:
        encode = self._struct(of, _STRUCTS[of.full_name], "")
        return lambda column: encode(as_struct(column))

    def _struct(self, of: Descriptor, kind: pa.StructType, path: str) -> _Encode:
        """Return an encoder of fields by name; a field that the column lacks is not set."""
        given = {field.name: at for at, field in enumerate(kind)}
        if unknown := sorted(given.keys() - {field.name for field in of.fields}):
            raise ConfigError(f"{at_path(f'{path}.{unknown[0]}')} is in the column, but not in the schema")
        missing = [field.name for field in of.fields if field.is_required and field.name not in given]
        if missing:
            where = at_path(f"{path}.{missing[0]}")
            raise ConfigError(f"{where} is required by the schema, but not in the column")
        fields = [
            (at, self._field(field, kind.field(at).type, f"{path}.{field.name}"))
            for field in sorted(of.fields, key=lambda each: each.number)
            if (at := given.get(field.name)) is not None
        ]
        if not fields:
            raise ConfigError(f"{at_path(path)} is a struct without fields, expected some of the schema's")
        choices = [
            {each.name: given[each.name] for each in oneof.fields if each.name in given}
            for oneof in of.oneofs
        ]
        choices = [each for each in choices if len(each) > 1]

        def encode(column: pa.StructArray) -> pa.BinaryArray:
            parts = column.flatten()
            for choice in choices:
                _refuse_two(choice, parts, path)
            return joined(*(each(parts[at]) for at, each in fields))

        return encode

    def _field(self, field: FieldDescriptor, kind: pa.DataType, path: str) -> _Encode:
        """Return an encoder of a field with its tag; it writes no bytes if the field is not set."""
        if is_map(field):
            return self._map(field, kind, path)
        if field.is_repeated:
            return self._repeated(field, kind, path)
        encode = _tagged(field, self._value(field, kind, path))
        may_be_null = field.has_presence and not field.is_required
        default = None if field.has_presence else pa.scalar(_default(field), pa.binary())

        def encoded(column: pa.Array) -> pa.BinaryArray:
            if not column.null_count:
                rows, values = np.arange(len(column)), encode(column)
            elif may_be_null:
                rows, values = np.flatnonzero(valid_rows(column)), encode(column.drop_null())
            else:
                raise _null(path)
            if default is not None:
                is_told = pc.not_equal(values, default)
                rows, values = rows[np.asarray(is_told)], values.filter(is_told)
            return placed(values, rows, len(column))

        return encoded

    def _repeated(self, field: FieldDescriptor, kind: pa.DataType, path: str) -> _Encode:
        if not pa.types.is_list(kind):
            raise _unfit(f"repeated {type_name(field)}", kind, "an array", path)
        encode = self._value(field, kind.value_type, f"{path}[]")
        if not field.is_packed:
            encode = _tagged(field, encode)
        tag = constant(varint(field.number << 3 | _LENGTH))

        def encoded(column: pa.ListArray) -> pa.BinaryArray:
            if column.null_count:
                raise _null(path)
            offsets, items = list_items(column, column.values)
            if items.null_count:
                raise _null(f"{path}[]")
            lists = grouped(encode(items), offsets)
            if not field.is_packed:
                return lists
            rows = np.flatnonzero(np.diff(offsets))
            return placed(joined(tag, _with_length(lists.take(pa.array(rows)))), rows, len(column))

        return encoded

    def _map(self, field: FieldDescriptor, kind: pa.DataType, path: str) -> _Encode:
        if not pa.types.is_map(kind):
            raise _unfit("map", kind, "a map", path)
        entry = field.message_type.fields_by_name
        key = _tagged(entry["key"], self._value(entry["key"], kind.key_type, f"{path}{{}} (key)"))
        value = _tagged(entry["value"], self._value(entry["value"], kind.item_type, f"{path}{{}}"))
        tag = constant(varint(field.number << 3 | _LENGTH))

        def encoded(column: pa.MapArray) -> pa.BinaryArray:
            if column.null_count:
                raise _null(path)
            offsets, keys = list_items(column, column.keys)
            _, values = list_items(column, column.items)
            if values.null_count:
                raise _null(f"{path}{{}}")
            return grouped(joined(tag, _with_length(joined(key(keys), value(values)))), offsets)

        return encoded

    def _value(self, field: FieldDescriptor, kind: pa.DataType, path: str) -> _Encode:
        """Return an encoder of a field's value without its tag."""
        match field.type:
            case F.TYPE_MESSAGE:
                self._check_decimal(field, kind, path)
                body = self.message(field.message_type, kind, path)
                return lambda column: _with_length(body(column))
            case F.TYPE_GROUP:
                body = self.message(field.message_type, kind, path)
                end = constant(varint(field.number << 3 | _END))
                return lambda column: joined(body(column), end)
            case F.TYPE_BOOL if pa.types.is_boolean(kind):
                return lambda column: varints(column.cast(pa.uint8()).to_numpy(zero_copy_only=False))
            case F.TYPE_STRING if pa.types.is_string(kind):
                return lambda column: _with_length(column.cast(pa.binary()))
            case F.TYPE_BYTES if pa.types.is_string(kind) or pa.types.is_binary(kind):
                return lambda column: _with_length(column.cast(pa.binary()))
            case F.TYPE_FLOAT if kind == pa.float32():
                return lambda column: little_endian(column.to_numpy(zero_copy_only=False))
            case F.TYPE_DOUBLE if pa.types.is_floating(kind) or pa.types.is_integer(kind):
                return lambda column: little_endian(reals(column, path))
            case F.TYPE_ENUM if pa.types.is_string(kind):
                return _enum(field, path)
            case number if number in _WHOLE and _may_hold(kind, number):
                return _whole(number, path)
        raise _unfit(type_name(field), kind, str(SCALARS[field.type]), path)

    def _check_decimal(self, field: FieldDescriptor, kind: pa.DataType, path: str) -> None:
        known = self._decimals.get(field.full_name)
        if known is None or not pa.types.is_decimal128(kind):
            return
        precision, scale = known
        if kind.scale != scale or kind.precision > precision:
            raise _unfit(DECIMAL, kind, str(pa.decimal128(precision, scale)), path)


def _tagged(field: FieldDescriptor, encode: _Encode) -> _Encode:
    tag = constant(varint(field.number << 3 | _WIRE_TYPES.get(field.type, _VARINT)))
    return lambda column: joined(tag, encode(column))


def _default(field: FieldDescriptor) -> bytes:
    """Return the encoded form of a field with its default value."""
    wire_type = _WIRE_TYPES.get(field.type, _VARINT)
    return varint(field.number << 3 | wire_type) + _DEFAULTS[wire_type]


def _with_length(values: pa.BinaryArray) -> pa.BinaryArray:
    return joined(varints(lengths(values).astype(np.uint64)), values)


def _may_hold(kind: pa.DataType, number: int) -> bool:
    """Whether a column's type can hold numbers of the type; single values may still be out of range."""
    low, high, _ = _WHOLE[number]
    if pa.types.is_decimal128(kind):
        return bool(high > 2**63 and kind.scale == 0)
    return bool(pa.types.is_signed_integer(kind) and (low == 0 or 2 ** (kind.bit_width - 1) <= high + 1))


def _whole(number: int, path: str) -> _Encode:
    low, high, made = _WHOLE[number]

    def encode(column: pa.Array) -> pa.BinaryArray:
        if low == 0 and len(column):
            bounds = pc.min_max(column).as_py()
            for found in (bounds["min"], bounds["max"]):
                if not low <= found <= high:
                    raise Unwritable(f"{at_path(path)} is {found}, expected {low} to {high}")
        if pa.types.is_decimal128(column.type):
            return made(_words(column)[:, 0])
        return made(column.cast(pa.int64()).to_numpy(zero_copy_only=False))

    return encode


def _words(column: pa.Array) -> np.ndarray:
    """Return decimals as two unsigned numbers each, the lower first."""
    return np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)[
        column.offset : column.offset + len(column)
    ]


def _enum(field: FieldDescriptor, path: str) -> _Encode:
    """Return an encoder by name, or by a number as text if the schema allows numbers without a name."""
    enum = field.enum_type
    names = pa.array(list(enum.values_by_name), pa.string())
    numbers = np.array([each.number for each in enum.values_by_name.values()], np.int64)

    def encode(column: pa.Array) -> pa.BinaryArray:
        places = pc.index_in(column, names)
        if not places.null_count:
            return varints(numbers[places.to_numpy(zero_copy_only=False)])
        found = np.zeros(len(column), np.int64)
        is_named = valid_rows(places)
        found[is_named] = numbers[places.drop_null().to_numpy(zero_copy_only=False)]
        others = column.filter(pa.array(~is_named))
        is_number = pc.match_substring_regex(others, _NUMBER_TEXT)
        if enum.is_closed or not pc.all(is_number).as_py():
            shown = (others if enum.is_closed else others.filter(pc.invert(is_number)))[0].as_py()
            told = ", ".join(enum.values_by_name)
            raise Unwritable(f"{at_path(path)} is {shown!r}, expected one of {told}")
        found[~is_named] = others.cast(pa.int64()).to_numpy(zero_copy_only=False)
        if (wide := found[(found < -(2**31)) | (found >= 2**31)]).size:
            raise Unwritable(f"{at_path(path)} is {wide[0]}, expected a number of 32 bits")
        return varints(found)

    return encode


def _refuse_two(choice: dict[str, int], parts: list[pa.Array], path: str) -> None:
    """Refuse rows that set more than one field of a oneof."""
    is_set = np.array([valid_rows(parts[at]) for at in choice.values()])
    rows = np.flatnonzero(is_set.sum(axis=0) > 1)
    if len(rows):
        names = [name for name, found in zip(choice, is_set[:, rows[0]], strict=True) if found]
        raise Unwritable(
            f"{at_path(f'{path}.{names[0]}')} and {at_path(f'{path}.{names[1]}')} both have a "
            "value in a row, but their oneof allows only one"
        )


# --- messages whose columns are not structs ----------------------------------------------------------------

_STRUCTS: Final = {
    TIMESTAMP: pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())]),
    DATE: pa.struct([("year", pa.int32()), ("month", pa.int32()), ("day", pa.int32())]),
    DECIMAL: pa.struct([("value", pa.binary()), ("precision", pa.int64()), ("scale", pa.int32())]),
}


def _seconds_and_nanos(column: pa.Array) -> pa.StructArray:
    micros = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    seconds, rest = np.divmod(micros, 1_000_000)
    parts = [pa.array(seconds), pa.array((rest * 1000).astype(np.int32))]
    return pa.StructArray.from_arrays(parts, fields=list(_STRUCTS[TIMESTAMP]))


def _year_month_day(column: pa.Array) -> pa.StructArray:
    parts = [part(column).cast(pa.int32()) for part in (pc.year, pc.month, pc.day)]
    return pa.StructArray.from_arrays(parts, fields=list(_STRUCTS[DATE]))


def _unscaled(column: pa.Array) -> pa.StructArray:
    """Split decimals into unscaled value, precision and scale.

    The value has as few bytes as it needs, as Java's BigInteger writes it.
    """
    kind = column.type
    big_endian = np.ascontiguousarray(_words(column).view(np.uint8)[:, ::-1])
    first, second = big_endian[:, :-1], big_endian[:, 1:]
    says_nothing = ((first == 0) & (second < 0x80)) | ((first == 0xFF) & (second >= 0x80))
    sizes = _DECIMAL_BYTES - np.cumprod(says_nothing, axis=1).sum(axis=1)
    shifted = np.take_along_axis(
        big_endian,
        np.minimum(np.arange(_DECIMAL_BYTES) + (_DECIMAL_BYTES - sizes)[:, None], _DECIMAL_BYTES - 1),
        axis=1,
    )
    parts = [
        trimmed(shifted, sizes),
        pa.repeat(pa.scalar(kind.precision, pa.int64()), len(column)),
        pa.repeat(pa.scalar(kind.scale, pa.int32()), len(column)),
    ]
    return pa.StructArray.from_arrays(parts, fields=list(_STRUCTS[DECIMAL]))


def _expected(of: Descriptor) -> str:
    special = {TIMESTAMP: "a timestamp (UTC)", DATE: "a date", DECIMAL: "a decimal"}
    return special.get(of.full_name, "a struct")


def _unfit(schema_type: str, kind: pa.DataType, expected: str, path: str) -> ConfigError:
    return ConfigError(
        f"{at_path(path)} is of type {kind}, which the schema's {schema_type} can't hold: expected {expected}"
    )


def _null(path: str) -> Unwritable:
    return Unwritable(f"{at_path(path)} is null in a row, which the schema does not allow")
