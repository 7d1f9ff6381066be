"""Map Protobuf messages to Arrow types that Spark has as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from penstock.client.settings import ConfigError
from penstock.registry.formats.protobuf.meta import field_parameters
from penstock.registry.formats.protobuf.schema import ProtobufSchema

F = FieldDescriptor
TIMESTAMP: Final = "google.protobuf.Timestamp"
DATE: Final = "google.type.Date"
DECIMAL: Final = "confluent.type.Decimal"
WRAPPERS: Final = tuple(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
SCALARS: Final = {
    F.TYPE_DOUBLE: pa.float64(),
    F.TYPE_FLOAT: pa.float32(),
    F.TYPE_INT64: pa.int64(),
    F.TYPE_SINT64: pa.int64(),
    F.TYPE_SFIXED64: pa.int64(),
    F.TYPE_INT32: pa.int32(),
    F.TYPE_SINT32: pa.int32(),
    F.TYPE_SFIXED32: pa.int32(),
    F.TYPE_UINT32: pa.int64(),
    F.TYPE_FIXED32: pa.int64(),
    F.TYPE_UINT64: pa.decimal128(20, 0),
    F.TYPE_FIXED64: pa.decimal128(20, 0),
    F.TYPE_BOOL: pa.bool_(),
    F.TYPE_STRING: pa.string(),
    F.TYPE_BYTES: pa.binary(),
    F.TYPE_ENUM: pa.string(),
}
_PRECISION_MAX: Final = 38

Decimals: TypeAlias = Mapping[str, tuple[int, int]]
"""Precision and scale of decimals by their field's full name.

They come from Confluent's option, which Google's library does not know.
"""


def descriptor_of(files: bytes, message: str) -> Descriptor:
    """Return a message of serialized files (a FileDescriptorSet). Raises ConfigError if it does not exist."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(files).file:
        pool.Add(file)
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        raise ConfigError(f"the Protobuf schema has no message {message!r}") from None


def decimals_of(schema: ProtobufSchema) -> dict[str, tuple[int, int]]:
    """Read precision and scale of the decimals that fit a column from Confluent's option."""
    found = {}
    for name, parameters in field_parameters(schema).items():
        try:
            precision, scale = int(parameters["precision"]), int(parameters.get("scale", 0))
        except (KeyError, ValueError):
            continue
        if 0 <= scale <= precision <= _PRECISION_MAX and precision:
            found[name] = precision, scale
    return found


def arrow_type(
    of: Descriptor, decimals: Decimals, path: str = "", inside: tuple[str, ...] = ()
) -> pa.DataType:
    """Return the column type of a message. Raises ConfigError with the path if there is none."""
    where = f"field '{path.lstrip('.')}' of the Protobuf schema" if path else "the Protobuf schema"
    if of.full_name in inside:
        raise ConfigError(
            f"{where} is of the type {of.full_name}, which contains itself: a column has no such type. Give "
            "a reader schema that leaves the field out, or read the bytes"
        )
    if of.full_name == TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if of.full_name == DATE:
        return pa.date32()
    if of.full_name in WRAPPERS:
        return SCALARS[of.fields_by_name["value"].type]
    if not of.fields:
        raise ConfigError(f"{where} is the message {of.full_name} without fields, which no column can hold")
    inside = (*inside, of.full_name)
    return pa.struct(
        [pa.field(f.name, field_type(f, decimals, f"{path}.{f.name}", inside)) for f in of.fields]
    )


def field_type(
    field: FieldDescriptor, decimals: Decimals, path: str = "", inside: tuple[str, ...] = ()
) -> pa.DataType:
    """Return the column type of a field, a list or a map if it is repeated. Raises ConfigError."""
    if is_map(field):
        entry = field.message_type.fields_by_name
        key, value = (value_type(entry[name], decimals, path, inside) for name in ("key", "value"))
        return pa.map_(key, value)
    one = value_type(field, decimals, path, inside)
    return pa.list_(pa.field("element", one)) if field.is_repeated else one


def value_type(
    field: FieldDescriptor, decimals: Decimals, path: str = "", inside: tuple[str, ...] = ()
) -> pa.DataType:
    """Return the column type of one of a field's values. Raises ConfigError."""
    if field.message_type is None:
        return SCALARS[field.type]
    if field.message_type.full_name == DECIMAL and field.full_name in decimals:
        return pa.decimal128(*decimals[field.full_name])
    return arrow_type(field.message_type, decimals, path, inside)


def is_map(field: FieldDescriptor) -> bool:
    of: Any = field.message_type
    return of is not None and bool(of.GetOptions().map_entry)


def type_name(field: FieldDescriptor) -> str:
    """Return a field's type as in a schema, for messages."""
    if field.message_type is not None:
        return str(field.message_type.full_name)
    if field.enum_type is not None:
        return str(field.enum_type.full_name)
    names: dict[int, str] = {value: name for name, value in vars(F).items() if name.startswith("TYPE_")}
    return names[field.type].removeprefix("TYPE_").lower()
