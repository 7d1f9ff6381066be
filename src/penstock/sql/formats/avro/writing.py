"""Serialization of rows to Avro, with the schema generated from their columns or the one of *_SCHEMA_ID."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from penstock.registry.formats.avro.types import ABSENT, Field, Type
from penstock.sql.formats import numbers
from penstock.sql.formats.avro import binary
from penstock.sql.formats.errors import FormatError, mismatch
from penstock.sql.formats.settings import Fields
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct
from penstock.sql.language.utf8 import utf8

Write = Callable[[Any], bytes]
_INT: Final = range(-(1 << 31), 1 << 31)
_LONG: Final = range(-(1 << 63), 1 << 63)
_KINDS: Final[dict[SqlType, tuple[str, ...]]] = {
    types.BOOLEAN: ("boolean",),
    types.INTEGER: ("int", "long"),
    types.BIGINT: ("long",),
    types.DOUBLE: ("double", "float"),
    types.STRING: ("string",),
    types.BYTES: ("bytes",),
    types.TIME: ("int",),
    types.DATE: ("int",),
    types.TIMESTAMP: ("long",),
}


def row_writer(reader: Type, fields: Fields, is_alone: bool) -> Callable[[Sequence[Any]], bytes]:
    """Compile a writer of rows.

    Raises FormatError if the schema does not fit the columns, and the writer does so for an invalid row.
    """
    if is_alone:
        name, type_ = fields[0]
        write_one = _at(name, writer(reader, type_))
        return lambda row: write_one(row[0])
    if reader.kind != "record":
        raise FormatError(f"found {reader.kind} of Avro as the schema, expected a record of the columns")
    names = {each.name for each in reader.fields}
    for name, _ in fields:
        if name.replace(".", "_") not in names:
            raise FormatError("found no such field in the schema of the registry, expected one", name)
    write = _record(reader, Struct(fields))
    columns = [name for name, _ in fields]
    return lambda row: write(dict(zip(columns, row, strict=True)))


def _at(step: str, write: Write) -> Write:
    def located(value: Any) -> bytes:
        try:
            return write(value)
        except FormatError as error:
            raise error.within(step) from None

    return located


def writer(reader: Type, type_: SqlType) -> Write:
    """Compile a writer of values of ``type_``, which accepts None if the schema allows null."""
    if reader.kind == "union":
        return _union(reader, type_)
    write = _not_null(reader, type_)

    def write_value(value: Any) -> bytes:
        if value is None:
            raise FormatError(f"found null, expected {type_}")
        try:
            return write(value)
        except (TypeError, ValueError, OverflowError, KeyError, AttributeError) as error:
            raise (error if isinstance(error, FormatError) else mismatch(value, type_)) from None

    return write_value


def _union(reader: Type, type_: SqlType) -> Write:
    null: bytes | None = None
    for index, branch in enumerate(reader.items):
        if branch.kind == "null":
            null = binary.long_bytes(index)
    for index, branch in enumerate(reader.items):
        if branch.kind == "null":
            continue
        try:
            write = writer(branch, type_)
        except FormatError:
            if len(reader.items) <= 2:
                raise
            continue
        begin = binary.long_bytes(index)

        def write_either(value: Any, write: Write = write, begin: bytes = begin) -> bytes:
            if value is None and null is not None:
                return null
            return begin + write(value)

        return write_either
    raise FormatError(f"found a union of Avro without {type_}, expected one with it")


def _not_null(reader: Type, type_: SqlType) -> Write:
    match type_:
        case Array(element) if reader.kind == "array":
            inner = _at("[]", writer(reader.items[0], element))
            return lambda value: _block([inner(each) for each in value])
        case Map(_, of_value) if reader.kind == "map":
            inner = _at("{}", writer(reader.items[0], of_value))
            return lambda value: _block([_text(k) + inner(v) for k, v in value.items()])
        case Map(of_key, of_value) if reader.kind == "array" and reader.items[0].kind == "record":
            entry = _record(reader.items[0], Struct((("key", of_key), ("value", of_value))))
            return lambda value: _block([entry({"key": k, "value": v}) for k, v in value.items()])
        case Struct() if reader.kind == "record":
            return _record(reader, type_)
        case types.Decimal() if reader.kind in ("bytes", "fixed"):
            return _decimal(reader, type_)
    if reader.kind not in _KINDS.get(type_, ()):
        raise FormatError(f"found {reader.full_name} of Avro, expected {type_}")
    return _SIMPLE[reader.kind]


def _block(entries: list[bytes]) -> bytes:
    if not entries:
        return b"\0"
    return b"".join((binary.long_bytes(len(entries)), *entries, b"\0"))


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise mismatch(value, types.STRING)
    return binary.sized(utf8(value))


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise mismatch(value, types.BYTES)
    return binary.sized(value)


def _whole(span: range, expected: SqlType) -> Write:
    def write(value: Any) -> bytes:
        if not isinstance(value, int) or value not in span:
            raise mismatch(value, expected)
        return binary.long_bytes(value)

    return write


_SIMPLE: Final[dict[str, Write]] = {
    "boolean": lambda value: b"\1" if value else b"\0",
    "int": _whole(_INT, types.INTEGER),
    "long": _whole(_LONG, types.BIGINT),
    "float": binary.float_bytes,
    "double": binary.double_bytes,
    "string": _text,
    "bytes": _bytes,
}


def _decimal(reader: Type, type_: types.Decimal) -> Write:
    scale = int(reader.properties.get("scale", 0))
    size = reader.size

    def write(value: Any) -> bytes:
        if not isinstance(value, Decimal):
            raise mismatch(value, type_)
        shifted = value.scaleb(scale, numbers.EXACT)
        unscaled = int(shifted)
        if unscaled != shifted:
            raise FormatError(f"found {value}, expected a number of at most {scale} decimals")
        if reader.kind == "fixed":
            return unscaled.to_bytes(size, "big", signed=True)
        # As in Java's BigInteger, there are enough bytes for a sign bit.
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
        return binary.sized(unscaled.to_bytes(bits // 8 + 1, "big", signed=True))

    return write


def _record(reader: Type, type_: Struct) -> Write:
    known = {name.replace(".", "_"): (name, each) for name, each in type_.fields}
    steps: list[tuple[str | None, Write]] = []
    for field in reader.fields:
        if field.name in known:
            name, of_field = known[field.name]
            steps.append((name, _at(name, _or_default(writer(field.type, of_field), field))))
        else:
            steps.append((None, _default(field)))

    def write(value: dict[str, Any]) -> bytes:
        return b"".join([step(None if name is None else value[name]) for name, step in steps])

    return write


def _or_default(write: Write, field: Field) -> Write:
    """Write the field's default for null if the field is not nullable."""
    if field.default is ABSENT or any(each.kind == "null" for each in (field.type, *field.type.items)):
        return write
    default = _default(field)
    return lambda value: default(None) if value is None else write(value)


def _default(field: Field) -> Write:
    """A writer of the default of a field without a column. Raises FormatError if it has no default."""
    if field.default is ABSENT:
        raise FormatError(
            "found no column and no default for a field of the schema, expected one", field.name
        )
    made = _default_bytes(field.type, field.default, field.name)
    return lambda _: made


def _default_bytes(of: Type, value: Any, name: str) -> bytes:
    if of.kind == "union":
        return binary.long_bytes(0) + _default_bytes(of.items[0], value, name)
    match of.kind:
        case "null":
            return b""
        case "bytes":
            return binary.sized(value.encode("latin-1"))
        case "fixed":
            return bytes(value.encode("latin-1"))
        case "enum":
            return binary.long_bytes(of.symbols.index(value))
        case "array":
            return _block([_default_bytes(of.items[0], each, name) for each in value])
        case "map":
            return _block([_text(k) + _default_bytes(of.items[0], v, name) for k, v in value.items()])
        case "record":
            return b"".join(
                _default_bytes(each.type, value.get(each.name, each.default), name) for each in of.fields
            )
    try:
        return _SIMPLE[of.kind](value)
    except (TypeError, ValueError):
        raise FormatError(f"found the default {json.dumps(value)}, expected {of.kind}", name) from None
