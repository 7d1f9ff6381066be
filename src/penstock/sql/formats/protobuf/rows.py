"""The formats PROTOBUF and PROTOBUF_NOSR, which use Google's own library.

A field that was not set is null if the schema tracks its presence (a message, a oneof, `optional`). Otherwise
a number is 0 and a string is empty, as in ksqlDB. Arrays and maps are never null, because a missing and an
empty one have the same bytes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from penstock.registry.formats import SchemaError
from penstock.registry.formats.protobuf.indexes import indexes_bytes, indexes_of, message_at, read_indexes
from penstock.registry.formats.protobuf.schema import ProtobufSchema
from penstock.sql.formats import numbers
from penstock.sql.formats.errors import FormatError, mismatch
from penstock.sql.formats.kafka import Pair
from penstock.sql.formats.protobuf.schema import DATE, DECIMAL, TIME, TIMESTAMP, alone_text, schema_text
from penstock.sql.formats.registry_schemas import Reader, Writer, own_schema
from penstock.sql.formats.settings import SideFormat
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

F = FieldDescriptor
Get = Callable[[Any], Any]  # takes a message, or a field's value, and returns the column's value
Set = Callable[[Any, Any], None]  # takes a message and a value, and sets a field

WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
"""Messages that wrap a nullable value."""
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_NARROW: Final = (F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32)
_WHOLE: Final = (
    *_NARROW,
    *(F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64),
    *(F.TYPE_UINT32, F.TYPE_FIXED32, F.TYPE_UINT64, F.TYPE_FIXED64),
)
_REAL: Final = (F.TYPE_DOUBLE, F.TYPE_FLOAT)
_TAKEN: Final[dict[SqlType, tuple[int, ...]]] = {
    types.BOOLEAN: (F.TYPE_BOOL,),
    types.INTEGER: _NARROW,
    types.BIGINT: _WHOLE,
    types.DOUBLE: _REAL,
    types.STRING: (F.TYPE_STRING, F.TYPE_ENUM, F.TYPE_BOOL, *_WHOLE, *_REAL),
    types.BYTES: (F.TYPE_BYTES,),
    types.TIME: _NARROW,
    types.DATE: _NARROW,
    types.TIMESTAMP: _WHOLE,
}
_TYPE_NAMES: Final = {getattr(F, name): name[5:].lower() for name in dir(F) if name.startswith("TYPE_")}
_LOGICAL: Final[dict[SqlType, str]] = {types.DATE: DATE, types.TIME: TIME, types.TIMESTAMP: TIMESTAMP}


def descriptor_of(schema: ProtobufSchema, indexes: Sequence[int]) -> Descriptor:
    """Find a message of the schema's own file by its indexes, one per nesting level. Raises FormatError."""
    files = schema.file_set()
    name = message_at(files, indexes)
    if name is None:
        raise FormatError(f"found the message {list(indexes)}, expected one of the schema's")
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(files).file:
        pool.Add(file)
    return pool.FindMessageTypeByName(name)


def reader(schema: ProtobufSchema, chosen: SideFormat) -> Reader:
    """Build a reader of a schema's messages. Each is prefixed by indexes that identify its message type."""
    known: dict[tuple[int, ...], Callable[[bytes], tuple[Any, ...]]] = {}

    def read(data: bytes, at: int) -> tuple[Any, ...]:
        indexes, at = indexes_in(data, at)
        read_message = known.get(indexes)
        if read_message is None:
            read_message = known[indexes] = _row_reader(descriptor_of(schema, indexes), chosen)
        return read_message(data[at:])

    return read


def indexes_in(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes of a message that begin at ``at``, and where they end. Raises FormatError."""
    try:
        return read_indexes(data, at)
    except ValueError as error:
        raise FormatError(str(error)) from None


def named_indexes(schema: ProtobufSchema, full_name: str | None) -> tuple[int, ...]:
    """Return the indexes of a message, or of the schema's first if None. Raises FormatError."""
    try:
        return indexes_of(schema.file_set(), full_name)[0]
    except SchemaError as error:
        raise FormatError(str(error)) from None


def message_of(schema: ProtobufSchema, full_name: str | None) -> Descriptor:
    """The message of the columns: the schema's first, or the one that *_SCHEMA_FULL_NAME names."""
    return descriptor_of(schema, named_indexes(schema, full_name))


def writer(schema: ProtobufSchema, chosen: SideFormat) -> Writer:
    """Build a writer of messages, each prefixed by the indexes of its message type in the schema."""
    indexes = named_indexes(schema, chosen.full_name)
    prefix = indexes_bytes(indexes)
    write = _row_writer(descriptor_of(schema, indexes), chosen)
    return lambda row: prefix + write(row)


def without_registry(chosen: SideFormat) -> Pair:
    """The functions of PROTOBUF_NOSR, which writes messages of the columns' own schema without a prefix."""
    text = alone_text(chosen) if chosen.is_alone else schema_text(chosen)
    descriptor = descriptor_of(own_schema(chosen, text), [0])
    write = _row_writer(descriptor, chosen)
    if not chosen.is_alone:
        return write, _row_reader(descriptor, chosen)
    return lambda row: None if row[0] is None else write(row), _row_reader(descriptor, chosen)


def _row_reader(descriptor: Descriptor, chosen: SideFormat) -> Callable[[bytes], tuple[Any, ...]]:
    parse = message_factory.GetMessageClass(descriptor).FromString
    fields, is_whole = _fields_of(chosen)
    get = _message_reader(descriptor, Struct(fields))
    names = [name for name, _ in fields]

    def read(data: bytes) -> tuple[Any, ...]:
        try:
            message = parse(data)
        except DecodeError:
            raise FormatError(f"found bytes that are not a message, expected {descriptor.name}") from None
        found = get(message)
        return (found,) if is_whole else tuple([found[name] for name in names])

    return read


def _row_writer(descriptor: Descriptor, chosen: SideFormat) -> Callable[[Sequence[Any]], bytes]:
    make = message_factory.GetMessageClass(descriptor)
    fields, is_whole = _fields_of(chosen)
    for name, _ in fields:
        if name not in descriptor.fields_by_name:
            raise FormatError("found no such field in the schema of the registry, expected one", name)
    fill = _message_writer(descriptor, Struct(fields))
    names = [name for name, _ in fields]

    def write(row: Sequence[Any]) -> bytes:
        message = make()
        fill(message, row[0] if is_whole else dict(zip(names, row, strict=True)))
        data: bytes = message.SerializeToString()
        return data

    return write


def _fields_of(chosen: SideFormat) -> tuple[tuple[tuple[str, SqlType], ...], bool]:
    """The message's fields, and whether the message is one column's struct."""
    if not chosen.is_alone:
        return chosen.fields, False
    type_ = chosen.fields[0][1]
    if isinstance(type_, Struct):
        return type_.fields, True
    return (("value", type_),), False


def _full_name(field: FieldDescriptor) -> str | None:
    return field.message_type.full_name if field.message_type is not None else None


def is_map(field: FieldDescriptor) -> bool:
    of = field.message_type
    if not field.is_repeated or of is None or not of.name.endswith("Entry"):
        return False
    return [each.name for each in of.fields] == ["key", "value"]


def _message_reader(descriptor: Descriptor, type_: Struct) -> Get:
    """Build a reader of a message as a struct. Fields match by name, or else by name in upper case."""
    wanted = dict(type_.fields)
    empty = dict.fromkeys(wanted)
    steps: list[tuple[str, str, bool, Get]] = []
    for field in descriptor.fields:
        name = field.name if field.name in wanted else field.name.upper()
        if name in wanted and choice_of(field) is None:
            steps.append((name, field.name, field.has_presence, _reader(field, wanted[name])))

    choices: list[tuple[str, Get]] = []
    for choice in descriptor.oneofs:
        name = choice_name(choice)
        name = name if name in wanted else name.upper()
        of_choice = wanted.get(name)
        if isinstance(of_choice, Struct) and choice_of(choice.fields[0]) is not None:
            choices.append((name, _choice_reader(choice, of_choice)))

    def get(message: Any) -> dict[str, Any]:
        made = empty.copy()
        name = ""
        try:
            for name, read in choices:
                made[name] = read(message)
            for name, field, has_presence, read in steps:
                if not has_presence or message.HasField(field):
                    made[name] = read(getattr(message, field))
        except FormatError as error:
            raise error.within(name) from None
        return made

    return get


def choice_of(field: FieldDescriptor) -> OneofDescriptor | None:
    """The oneof of a field, or None. The implicit oneof of an `optional` field doesn't count."""
    found = field.containing_oneof
    return None if found is None or found.name == f"_{field.name}" else found


def choice_name(choice: OneofDescriptor) -> str:
    """The name that Connect gives to the struct of a oneof."""
    return f"{choice.name}_{choice.index}"


def _choice_reader(choice: OneofDescriptor, type_: Struct) -> Get:
    """Build a reader of a oneof as a struct in which only the set field is not null.

    The reader takes the message, and returns None if no field is set.
    """
    wanted = dict(type_.fields)
    empty = dict.fromkeys(wanted)
    readers: dict[str, tuple[str, Get]] = {}
    for field in choice.fields:
        name = field.name if field.name in wanted else field.name.upper()
        if name in wanted:
            readers[field.name] = name, _reader(field, wanted[name])

    def get(message: Any) -> dict[str, Any] | None:
        found = message.WhichOneof(choice.name)
        if found is None:
            return None
        made = empty.copy()
        if found in readers:
            name, read = readers[found]
            made[name] = read(getattr(message, found))
        return made

    return get


def _reader(field: FieldDescriptor, type_: SqlType) -> Get:
    if isinstance(type_, Map) and is_map(field):
        return _map_reader(field.message_type, type_)
    if field.is_repeated:
        if not isinstance(type_, Array):
            return _refusing(field, type_)
        read_one = _one_reader(field, type_.element)
        return lambda values: [read_one(each) for each in values]
    return _one_reader(field, type_)


def _map_reader(entry: Descriptor, type_: Map) -> Get:
    of_key, of_value = entry.fields
    read_key = _reader(of_key, type_.key)
    read_value = _reader(of_value, type_.value)

    def read(entries: Any) -> dict[Any, Any]:
        if hasattr(entries, "items"):  # a Protobuf map, rather than repeated entry messages
            return {read_key(key): read_value(entries[key]) for key in entries}
        return {
            read_key(each.key): read_value(each.value)
            if not of_value.has_presence or each.HasField("value")
            else None
            for each in entries
        }

    return read


def _one_reader(field: FieldDescriptor, type_: SqlType) -> Get:
    name = _full_name(field)
    if name is not None:
        if isinstance(type_, types.Decimal) and name == DECIMAL:
            return _decimal_reader(type_)
        if _LOGICAL.get(type_) == name:
            return _LOGICAL_READERS[name]
        if isinstance(type_, Struct):
            return _message_reader(field.message_type, type_)
        if name in WRAPPERS:
            read = _one_reader(field.message_type.fields_by_name["value"], type_)
            return lambda message: read(message.value)
        return _refusing(field, type_)
    if field.type not in _TAKEN.get(type_, ()):
        return _refusing(field, type_)
    if type_ == types.STRING and field.type != F.TYPE_STRING:
        return _text_reader(field)
    if field.type in (F.TYPE_UINT64, F.TYPE_FIXED64):
        return lambda value: numbers.truncated(value, 64)
    return lambda value: value


def _text_reader(field: FieldDescriptor) -> Get:
    if field.type == F.TYPE_ENUM:
        names = {value.number: value.name for value in field.enum_type.values}
        return lambda value: names.get(value, f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_{value}")
    if field.type == F.TYPE_BOOL:
        return lambda value: "true" if value else "false"
    if field.type == F.TYPE_FLOAT:
        return numbers.float_text
    return numbers.real_text if field.type == F.TYPE_DOUBLE else str


def _refusing(field: FieldDescriptor, type_: SqlType) -> Get:
    label = "repeated " if field.is_repeated else ""
    kind = _full_name(field) or _TYPE_NAMES[field.type]

    def refuse(value: Any) -> Any:
        raise FormatError(f"found {label}{kind} of Protobuf, expected {type_}")

    return refuse


def _decimal_reader(type_: types.Decimal) -> Get:
    fit = numbers.fitting(type_)

    def read(message: Any) -> Decimal:
        if not message.value:
            raise FormatError(f"found a Decimal without a value, expected {type_}")
        unscaled = int.from_bytes(message.value, "big", signed=True)
        return fit(numbers.scaled(unscaled, message.scale))

    return read


def _read_date(message: Any) -> int:
    try:
        return datetime.date(message.year, message.month, message.day).toordinal() - _EPOCH_DAY
    except (ValueError, OverflowError):
        found = f"{message.year}-{message.month}-{message.day}"
        raise FormatError(f"found the date {found}, expected a day of the calendar") from None


def _read_time(message: Any) -> int:
    if not (
        0 <= message.hours < 24
        and 0 <= message.minutes < 60
        and 0 <= message.seconds < 60
        and 0 <= message.nanos < 1_000_000_000
    ):
        found = f"{message.hours}:{message.minutes}:{message.seconds}"
        raise FormatError(f"found the time {found}, expected a time of the day")
    seconds = (message.hours * 60 + message.minutes) * 60 + message.seconds
    return int(seconds * 1000 + message.nanos // 1_000_000)


def _read_timestamp(message: Any) -> int:
    return int(message.seconds * 1000 + message.nanos // 1_000_000)


_LOGICAL_READERS: Final[dict[str, Get]] = {
    DATE: _read_date,
    TIME: _read_time,
    TIMESTAMP: _read_timestamp,
}


def _message_writer(descriptor: Descriptor, type_: Struct) -> Set:
    steps: list[tuple[str, SqlType, Set]] = []
    for name, of_field in type_.fields:
        field = descriptor.fields_by_name.get(name)
        if field is None:
            raise FormatError("found no such field in the message of the schema, expected one", name)
        try:
            steps.append((name, of_field, _writer(field, of_field)))
        except FormatError as error:
            raise error.within(name) from None

    def fill(message: Any, value: Any) -> None:
        for name, of_field, write in steps:
            each = value[name]
            if each is None:
                continue
            try:
                write(message, each)
            except FormatError as error:
                raise error.within(name) from None
            except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
                raise mismatch(each, of_field).within(name) from None

    return fill


def _writer(field: FieldDescriptor, type_: SqlType) -> Set:
    """Build a function that sets a field of a message to a non-null value."""
    name = field.name
    if isinstance(type_, Map) and field.is_repeated and field.message_type is not None:
        return _map_writer(field, type_)
    if isinstance(type_, Array) and field.is_repeated:
        return _array_writer(field, type_)
    if field.message_type is not None:
        fill = _filler(field, type_)

        def set_message(message: Any, value: Any) -> None:
            part = getattr(message, name)
            part.SetInParent()  # marks the message as present even if no field of it is set
            fill(part, value)

        return set_message
    if field.is_repeated or field.type not in _TAKEN.get(type_, ()):
        raise FormatError(f"found {field.name} as another type in the schema, expected {type_}")
    return lambda message, value: setattr(message, name, value)


def _array_writer(field: FieldDescriptor, type_: Array) -> Set:
    name = field.name
    fill = _filler(field, type_.element) if field.message_type is not None else None

    def write(message: Any, values: Any) -> None:
        repeated = getattr(message, name)
        for index, each in enumerate(values):
            if each is None:
                raise FormatError(
                    f"found null in an array, expected {type_.element}: Protobuf has no nulls there"
                ).within(f"[{index}]")
            if fill is None:
                repeated.append(each)
            else:
                fill(repeated.add(), each)

    return write


def _map_writer(field: FieldDescriptor, type_: Map) -> Set:
    name, entry = field.name, field.message_type
    set_key = _writer(entry.fields_by_name["key"], type_.key)
    set_value = _writer(entry.fields_by_name["value"], type_.value)
    is_real_map = bool(entry.GetOptions().map_entry)
    make = message_factory.GetMessageClass(entry)

    def write(message: Any, values: Any) -> None:
        target = getattr(message, name)
        for key, value in values.items():
            part = make() if is_real_map else target.add()
            if key is not None:
                set_key(part, key)
            if value is not None:
                set_value(part, value)
            if is_real_map:
                message.MergeFromString(_as_field(field.number, part.SerializeToString()))

    return write


def _as_field(number: int, data: bytes) -> bytes:
    """Encode a message as a field of another one."""
    out = bytearray()
    for value in (number << 3 | 2, len(data)):
        while value > 0x7F:
            out.append((value & 0x7F) | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out) + data


def _filler(field: FieldDescriptor, type_: SqlType) -> Set:
    """Build a function that fills a message with a value."""
    name = _full_name(field)
    assert name is not None
    if isinstance(type_, types.Decimal) and name == DECIMAL:
        return _fill_decimal
    if _LOGICAL.get(type_) == name:
        return _LOGICAL_FILLERS[name]
    if isinstance(type_, Struct):
        return _message_writer(field.message_type, type_)
    if name in WRAPPERS:
        return lambda message, value: setattr(message, "value", value)
    raise FormatError(f"found {name} in the schema, expected {type_}")


def _fill_decimal(message: Any, value: Decimal) -> None:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise mismatch(value, "DECIMAL")
    unscaled = int(value.scaleb(-exponent, numbers.EXACT))
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    message.value = unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
    message.precision = len(digits)
    message.scale = -exponent


def _fill_date(message: Any, value: int) -> None:
    day = datetime.date.fromordinal(value + _EPOCH_DAY)
    message.year, message.month, message.day = day.year, day.month, day.day


def _fill_time(message: Any, value: int) -> None:
    # Java's calendar treats the end of a day (24:00) as its start.
    seconds, millis = divmod(numbers.time_of_day(value) % numbers.DAY_MS, 1000)
    message.hours, message.minutes, message.seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    message.nanos = millis * 1_000_000


def _fill_timestamp(message: Any, value: int) -> None:
    message.seconds, millis = divmod(value, 1000)
    message.nanos = millis * 1_000_000


_LOGICAL_FILLERS: Final[dict[str, Set]] = {
    DATE: _fill_date,
    TIME: _fill_time,
    TIMESTAMP: _fill_timestamp,
}
