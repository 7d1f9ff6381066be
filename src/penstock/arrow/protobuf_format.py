"""Columns of Protobuf messages to columns of structs, by Google's own parser.

The parser knows the reader's message: fields that a later writer has added are left out, those that an
earlier one did not have get their defaults, as Protobuf has it. Where reader and writer disagree about a
field's type the parser would leave it out too, which here is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from penstock.arrow.decoded import Decoded, shown
from penstock.arrow.framed import NoProjection, cut
from penstock.client.settings import ConfigError

F = FieldDescriptor
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_SECONDS_MAX: Final = (2**63 - 1) // 1_000_000 - 1
_WRAPPERS: Final = tuple(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_SCALARS: Final = {
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
# Types that may stand for each other on the wire, so that the parser reads one as the other.
_ALIKE: Final = (
    {F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT32, F.TYPE_UINT64, F.TYPE_BOOL, F.TYPE_ENUM},
    {F.TYPE_SINT32, F.TYPE_SINT64},
    {F.TYPE_STRING, F.TYPE_BYTES},
    {F.TYPE_FIXED32, F.TYPE_SFIXED32},
    {F.TYPE_FIXED64, F.TYPE_SFIXED64},
)


def descriptor_of(files: bytes, message: str) -> Descriptor:
    """A message of serialized files (a FileDescriptorSet). Raises ConfigError where it is not there."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(files).file:
        pool.Add(file)
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        raise ConfigError(f"the Protobuf schema has no message {message!r}") from None


def arrow_type(of: Descriptor, path: str = "", inside: tuple[str, ...] = ()) -> pa.DataType:
    """The column of a message. Raises ConfigError for what no column is, with the path to it."""
    where = f"field '{path.lstrip('.')}' of the Protobuf schema" if path else "the Protobuf schema"
    if of.full_name in inside:
        raise ConfigError(
            f"{where} is of the type {of.full_name}, which contains itself: a column has no such type. Give "
            "a reader schema that leaves the field out, or read the bytes"
        )
    if of.full_name == _TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if of.full_name in _WRAPPERS:
        return _SCALARS[of.fields_by_name["value"].type]
    if not of.fields:
        raise ConfigError(f"{where} is the message {of.full_name} without fields: no column")
    inside = (*inside, of.full_name)
    return pa.struct([pa.field(f.name, _field_type(f, f"{path}.{f.name}", inside)) for f in of.fields])


def _field_type(field: FieldDescriptor, path: str, inside: tuple[str, ...]) -> pa.DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        key, value = (_one_type(entry[name], path, inside) for name in ("key", "value"))
        return pa.map_(key, value)
    one = _one_type(field, path, inside)
    return pa.list_(pa.field("element", one)) if field.is_repeated else one


def _one_type(field: FieldDescriptor, path: str, inside: tuple[str, ...]) -> pa.DataType:
    if field.message_type is not None:
        return arrow_type(field.message_type, path, inside)
    return _SCALARS[field.type]


class MessageReader:
    """Reads columns of messages that ``writer`` describes (None: the same) as ``reader`` sees them.

    Raises NoProjection where they disagree.
    """

    def __init__(self, reader: Descriptor, writer: Descriptor | None = None) -> None:
        self.type = arrow_type(reader)
        if writer is not None:
            _compare(reader, writer, "", set())
        self._parse = message_factory.GetMessageClass(reader).FromString
        self._column = _message_column(reader)

    def read(self, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Decoded:
        bad: dict[int, str] = {}
        messages: list[Any] = []
        for row, value in enumerate(cut(data, starts, lengths).to_pylist()):
            try:
                messages.append(self._parse(value))
            except DecodeError as problem:
                bad[row] = f"expected a message of the schema, found {shown(value)} ({problem})"
                messages.append(None)
        try:
            return Decoded(self._column(messages), bad)
        except _OutOfRange:
            return self._one_by_one(messages, bad)

    def _one_by_one(self, messages: Sequence[Any], bad: dict[int, str]) -> Decoded:
        pieces = []
        for row, message in enumerate(messages):
            try:
                pieces.append(self._column([message]))
            except _OutOfRange as problem:
                bad[row] = str(problem)
                pieces.append(pa.nulls(1, self.type))
        return Decoded(pa.concat_arrays(pieces), bad)


_Column = Callable[[Sequence[Any]], pa.Array]


class _OutOfRange(ValueError):
    """A time that no column of microseconds holds."""


def _message_column(of: Descriptor) -> _Column:
    """Makes a column of messages, None among them."""
    if of.full_name == _TIMESTAMP:
        return _timestamps
    if of.full_name in _WRAPPERS:
        kind = _SCALARS[of.fields_by_name["value"].type]
        return lambda messages: pa.array([None if m is None else m.value for m in messages], kind)
    fields = [(field.name, _field_column(field)) for field in of.fields]
    schema = list(arrow_type(of))

    def make(messages: Sequence[Any]) -> pa.Array:
        absent = np.fromiter((m is None for m in messages), bool, len(messages))
        arrays = [column(messages) for _, column in fields]
        return pa.StructArray.from_arrays(arrays, fields=schema, mask=pa.array(absent))

    return make


def _timestamps(messages: Sequence[Any]) -> pa.Array:
    found: list[int | None] = []
    for message in messages:
        if message is not None and abs(message.seconds) > _SECONDS_MAX:
            raise _OutOfRange("a timestamp lies further away than a column of microseconds says")
        found.append(None if message is None else message.seconds * 1_000_000 + message.nanos // 1000)
    return pa.array(found, pa.int64()).cast(pa.timestamp("us", "UTC"))


def _field_column(field: FieldDescriptor) -> _Column:
    name = field.name
    if _is_map(field):
        return _map_column(field)
    if field.is_repeated:
        return _list_column(field)
    one = _one_column(field)
    if field.has_presence:
        return lambda messages: one(
            [getattr(m, name) if m is not None and m.HasField(name) else None for m in messages]
        )
    return lambda messages: one([None if m is None else getattr(m, name) for m in messages])


def _list_column(field: FieldDescriptor) -> _Column:
    name, one = field.name, _one_column(field)
    kind = _field_type(field, "", ())

    def make(messages: Sequence[Any]) -> pa.Array:
        lists = [() if m is None else getattr(m, name) for m in messages]
        return pa.ListArray.from_arrays(_bounds(lists), one([v for each in lists for v in each]), type=kind)

    return make


def _map_column(field: FieldDescriptor) -> _Column:
    entry = field.message_type.fields_by_name
    name, keys, values = field.name, _one_column(entry["key"]), _one_column(entry["value"])
    kind = _field_type(field, "", ())

    def make(messages: Sequence[Any]) -> pa.Array:
        maps = [{} if m is None else getattr(m, name) for m in messages]
        items = [each.items() for each in maps]
        return pa.MapArray.from_arrays(
            _bounds(maps),
            keys([key for each in items for key, _ in each]),
            values([value for each in items for _, value in each]),
            type=kind,
        )

    return make


def _bounds(groups: Sequence[Any]) -> pa.Array:
    bounds = np.zeros(len(groups) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, groups), np.int32, len(groups)), out=bounds[1:])
    return pa.array(bounds)


def _one_column(field: FieldDescriptor) -> _Column:
    if field.message_type is not None:
        return _message_column(field.message_type)
    kind = _SCALARS[field.type]
    if field.type == F.TYPE_ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        # A number that the reader has no name for stays what it is.
        return lambda found: pa.array([None if n is None else names.get(n) or str(n) for n in found], kind)
    if pa.types.is_decimal(kind):
        return lambda found: pa.array([None if n is None else Decimal(n) for n in found], kind)
    return lambda found: pa.array(found, kind)


def _is_map(field: FieldDescriptor) -> bool:
    of = field.message_type
    return of is not None and of.GetOptions().map_entry


def _compare(reader: Descriptor, writer: Descriptor, path: str, seen: set[tuple[str, str]]) -> None:
    """Raises NoProjection where a field of one number is of types that can't be read as one another."""
    if (reader.full_name, writer.full_name) in seen:
        return
    seen.add((reader.full_name, writer.full_name))
    for number, field in reader.fields_by_number.items():
        wrote = writer.fields_by_number.get(number)
        if wrote is None:
            continue
        where = f"{path}.{field.name}".lstrip(".")
        is_alike = field.type == wrote.type or any({field.type, wrote.type} <= each for each in _ALIKE)
        if not is_alike or field.is_repeated != wrote.is_repeated:
            raise NoProjection(
                f"field '{where}' (number {number}) was written as {_told(wrote)}, expected {_told(field)}"
            )
        if field.message_type is not None:
            _compare(field.message_type, wrote.message_type, where, seen)


def _told(field: FieldDescriptor) -> str:
    names = {value: name for name, value in vars(F).items() if name.startswith("TYPE_")}
    kind = names[field.type].removeprefix("TYPE_").lower()
    return f"repeated {kind}" if field.is_repeated else kind
