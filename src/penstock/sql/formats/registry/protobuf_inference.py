"""Inference of columns from a Protobuf message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from penstock.registry.formats.protobuf.meta import field_parameters
from penstock.registry.formats.protobuf.schema import ProtobufSchema
from penstock.sql.formats.protobuf.rows import WRAPPERS, choice_name, choice_of, is_map
from penstock.sql.formats.protobuf.schema import DATE, DECIMAL, TIME, TIMESTAMP
from penstock.sql.formats.registry.inference import NameOf, Unsupported, struct_of
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

F = FieldDescriptor
_SCALARS: Final[dict[int, SqlType]] = {
    F.TYPE_BOOL: types.BOOLEAN,
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), types.INTEGER),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64), types.BIGINT),
    **dict.fromkeys((F.TYPE_UINT32, F.TYPE_FIXED32, F.TYPE_UINT64, F.TYPE_FIXED64), types.BIGINT),
    **dict.fromkeys((F.TYPE_FLOAT, F.TYPE_DOUBLE), types.DOUBLE),
    F.TYPE_STRING: types.STRING,
    F.TYPE_ENUM: types.STRING,
    F.TYPE_BYTES: types.BYTES,
}
_LOGICAL: Final[dict[str, SqlType]] = {DATE: types.DATE, TIME: types.TIME, TIMESTAMP: types.TIMESTAMP}


class _Shape(NamedTuple):
    """The parameters for converting fields, the same for all messages of a schema."""

    name_of: NameOf
    parameters: Mapping[str, Mapping[str, str]]  # by the field's full name


def of_message(schema: ProtobufSchema, of: Descriptor, name_of: NameOf) -> Struct:
    """Convert a message to a STRUCT. Raises Unsupported."""
    return _of_message(of, _Shape(name_of, field_parameters(schema)), ())


def _of_message(of: Descriptor, shape: _Shape, inside: tuple[str, ...]) -> Struct:
    if of.full_name in inside:
        raise Unsupported(f"{of.full_name}, which contains itself")
    inside = (*inside, of.full_name)
    fields: dict[str, Callable[[], SqlType]] = {}
    for choice in of.oneofs:
        if choice_of(choice.fields[0]) is not None:
            members = {each.name: partial(_of_field, each, shape, inside) for each in choice.fields}
            fields[choice_name(choice)] = partial(struct_of, members, shape.name_of)
    for field in of.fields:
        if choice_of(field) is None:
            fields[field.name] = partial(_of_field, field, shape, inside)
    return struct_of(fields, shape.name_of)


def _of_field(field: FieldDescriptor, shape: _Shape, inside: tuple[str, ...]) -> SqlType:
    if is_map(field):
        value = field.message_type.fields_by_name["value"]
        return Map(types.STRING, _of_field(value, shape, inside))
    found = _of_one(field, shape, inside)
    return Array(found) if field.is_repeated else found


def _of_one(field: FieldDescriptor, shape: _Shape, inside: tuple[str, ...]) -> SqlType:
    of = field.message_type
    if of is None:
        if field.type not in _SCALARS:
            raise Unsupported(f"the type of {field.full_name}")
        return _SCALARS[field.type]
    if of.full_name == DECIMAL:
        return _decimal(field, shape)
    if of.full_name in _LOGICAL:
        return _LOGICAL[of.full_name]
    if of.full_name in WRAPPERS:
        return _SCALARS[of.fields_by_name["value"].type]
    return _of_message(of, shape, inside)


def _decimal(field: FieldDescriptor, shape: _Shape) -> SqlType:
    found = shape.parameters.get(field.full_name, {})
    try:
        return types.decimal(int(found["precision"]), int(found.get("scale", 0)))
    except (KeyError, ValueError):  # a SqlError is one of these too
        raise Unsupported(
            f"the decimal {field.full_name}, which has no precision that ksqlDB supports"
        ) from None
