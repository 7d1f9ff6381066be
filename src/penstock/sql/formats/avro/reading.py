"""Deserialization of Avro data to columns. A reader is compiled for each writer's schema.

The conversions are ksqlDB's: numbers are widened but never narrowed, and a STRING column accepts booleans and
numbers too. A field is matched to a column by its name, or else by its name in upper case. A column without
a field is null, and a field without a column is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from penstock.registry.formats.avro.types import Type
from penstock.sql.formats import numbers
from penstock.sql.formats.avro import binary
from penstock.sql.formats.avro.binary import Read
from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.settings import Fields
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

EMPTY_ELEMENTS_MAX: Final = 1_000_000
"""Limits array elements that are encoded in no bytes, as a huge array of them costs its writer nothing."""
_READS: Final[dict[str, Read]] = {
    "null": binary.read_nothing,
    "boolean": binary.read_boolean,
    "int": binary.read_long,
    "long": binary.read_long,
    "float": binary.read_float,
    "double": binary.read_double,
    "bytes": binary.read_bytes,
    "string": binary.read_text,
}
_TAKEN: Final[dict[SqlType, tuple[str, ...]]] = {
    types.BOOLEAN: ("boolean",),
    types.INTEGER: ("int",),
    types.BIGINT: ("int", "long"),
    types.DOUBLE: ("float", "double"),
    types.STRING: ("string", "enum", "boolean", "int", "long", "float", "double"),
    types.TIME: ("int",),
    types.DATE: ("int",),
    types.TIMESTAMP: ("int", "long"),
}
"""The Avro types that a column accepts."""


def row_reader(writer: Type, fields: Fields, is_alone: bool) -> Callable[[bytes, int], tuple[Any, ...]]:
    """Compile a reader of rows, which takes the bytes and the offset of the row."""
    if is_alone:
        name, type_ = fields[0]
        read_one = _at(name, reader(writer, type_))

        def read_alone(data: bytes, at: int) -> tuple[Any, ...]:
            return (read_one(data, at)[0],)

        return read_alone
    read_struct = reader(writer, Struct(fields))
    names = [name for name, _ in fields]

    def read_row(data: bytes, at: int) -> tuple[Any, ...]:
        found = read_struct(data, at)[0]
        if found is None:
            raise FormatError("found null, expected a record")
        return tuple([found[name] for name in names])

    return read_row


def _at(step: str, read: Read) -> Read:
    def located(data: bytes, at: int) -> tuple[Any, int]:
        try:
            return read(data, at)
        except FormatError as error:
            raise error.within(step) from None

    return located


def reader(writer: Type, type_: SqlType) -> Read:
    """Compile a reader that reads data of schema ``writer`` as a value of ``type_``."""
    if writer.kind == "union":
        return _union(writer, type_)
    match type_:
        case Array(element) if writer.kind == "array" and not is_map(writer):
            inner = reader(writer.items[0], element)
            return blocks(_no_key(_at("[]", inner)), lambda entries: [value for _, value in entries])
        case Map(key, value) if writer.kind == "map":
            entry = pair(binary.read_text, _at("{}", reader(writer.items[0], value)))
            return blocks(entry, dict)
        case Map(key, value) if is_map(writer):
            of_key, of_value = (each.type for each in writer.items[0].fields)
            entry = pair(_at("key", reader(of_key, key)), _at("value", reader(of_value, value)))
            return blocks(entry, dict)
        case Struct() if writer.kind == "record":
            return _record(writer, type_)
        case types.Decimal() if _is_decimal(writer):
            return _decimal(writer, type_)
        case types.BYTES if writer.kind in ("bytes", "fixed") and not _is_decimal(writer):
            return plain(writer)
    if writer.kind in _TAKEN.get(type_, ()):
        return _simple(writer, type_)
    return _refusing(writer, type_)


def _refusing(writer: Type, type_: SqlType) -> Read:
    """Build a reader that raises an error, as a schema may allow unsupported values that never occur."""
    found = writer.full_name if writer.name is not None else writer.kind
    if "logicalType" in writer.properties:
        found = f"{found} ({writer.properties['logicalType']})"

    def refuse(data: bytes, at: int) -> tuple[Any, int]:
        raise FormatError(f"found {found} of Avro, expected {type_}")

    return refuse


def is_map(writer: Type) -> bool:
    """Whether an array represents a map. Connect writes maps this way unless their keys are plain strings."""
    if writer.kind != "array" or writer.items[0].kind != "record":
        return False
    entry = writer.items[0]
    marked = entry.properties.get("connect.internal.type") == "MapEntry" or entry.full_name == (
        "io.confluent.connect.avro.MapEntry"
    )
    return marked and [each.name for each in entry.fields] == ["key", "value"]


def _is_decimal(writer: Type) -> bool:
    logical = writer.properties.get("logicalType") == "decimal"
    return writer.kind in ("bytes", "fixed") and (
        logical or writer.properties.get("connect.name") == "org.apache.kafka.connect.data.Decimal"
    )


def plain(writer: Type) -> Read:
    """A reader for a simple type, without any conversion."""
    if writer.kind == "fixed":
        return binary.fixed(writer.size)
    if writer.kind == "enum":
        symbols = writer.symbols

        def read_symbol(data: bytes, at: int) -> tuple[str, int]:
            index, at = binary.read_long(data, at)
            if not 0 <= index < len(symbols):
                raise FormatError(f"found symbol {index}, expected one of {len(symbols)}")
            return symbols[index], at

        return read_symbol
    return _READS[writer.kind]


def _simple(writer: Type, type_: SqlType) -> Read:
    read = plain(writer)
    if type_ != types.STRING or writer.kind in ("string", "enum"):
        return read
    show: Callable[[Any], str] = {
        "boolean": lambda value: "true" if value else "false",
        "float": numbers.float_text,
        "double": numbers.real_text,
    }.get(writer.kind, str)

    def read_as_text(data: bytes, at: int) -> tuple[str, int]:
        value, at = read(data, at)
        return show(value), at

    return read_as_text


def _decimal(writer: Type, type_: types.Decimal) -> Read:
    read = plain(writer)
    fit = numbers.fitting(type_)
    scale = int(writer.properties.get("scale", 0))

    def read_decimal(data: bytes, at: int) -> tuple[Decimal, int]:
        found, at = read(data, at)
        unscaled = int.from_bytes(found, "big", signed=True)
        return fit(numbers.scaled(unscaled, scale)), at

    return read_decimal


def _union(writer: Type, type_: SqlType) -> Read:
    others = [each for each in writer.items if each.kind != "null"]
    if len(others) == 1:
        readers = [
            binary.read_nothing if each.kind == "null" else reader(each, type_) for each in writer.items
        ]
    elif isinstance(type_, Struct):
        # Connect represents a union as a struct, in which only the field named like the branch is set.
        readers = [_branch(each, type_) for each in writer.items]
    else:
        return _refusing(writer, type_)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = binary.read_long(data, at)
        if not 0 <= index < len(readers):
            raise FormatError(f"found branch {index} of a union, expected one of {len(readers)}")
        return readers[index](data, at)

    return read


def _branch(writer: Type, type_: Struct) -> Read:
    if writer.kind == "null":
        return binary.read_nothing
    name = writer.name.name if writer.name is not None else writer.kind
    wanted = dict(type_.fields)
    field = name if name in wanted else name.upper()
    empty = dict.fromkeys(wanted)
    read = reader(writer, wanted[field]) if field in wanted else skipper(writer)

    def read_branch(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        value, at = read(data, at)
        return ({**empty, field: value} if field in wanted else dict(empty)), at

    return read_branch


def _record(writer: Type, type_: Struct) -> Read:
    wanted = dict(type_.fields)
    empty = dict.fromkeys(wanted)
    steps: list[tuple[str | None, Read]] = []
    for field in writer.fields:
        name = field.name if field.name in wanted else field.name.upper()
        if name in wanted:
            steps.append((name, reader(field.type, wanted[name])))
        else:
            steps.append((None, skipper(field.type)))

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        made = empty.copy()
        name = None
        try:
            for name, step in steps:
                value, at = step(data, at)
                if name is not None:
                    made[name] = value
        except FormatError as error:
            raise (error if name is None else error.within(name)) from None
        return made, at

    return read


def _no_key(read: Read) -> Read:
    def read_element(data: bytes, at: int) -> tuple[tuple[None, Any], int]:
        value, at = read(data, at)
        return (None, value), at

    return read_element


def pair(read_key: Read, read_value: Read) -> Read:
    def read_entry(data: bytes, at: int) -> tuple[tuple[Any, Any], int]:
        key, at = read_key(data, at)
        value, at = read_value(data, at)
        return (key, value), at

    return read_entry


def blocks(read: Read, together: Callable[[list[Any]], Any]) -> Read:
    """A reader for an array or map, which is encoded as blocks of entries up to an empty block."""

    def read_all(data: bytes, at: int) -> tuple[Any, int]:
        entries: list[Any] = []
        while True:
            count, at = binary.read_long(data, at)
            if count == 0:
                return together(entries), at
            if count < 0:
                count = -count
                _, at = binary.read_long(data, at)  # the block's size in bytes, needed only to skip it
            begin = at
            for number in range(count):
                entry, at = read(data, at)
                if at == begin and number >= EMPTY_ELEMENTS_MAX:
                    raise FormatError(f"found {count} elements of no bytes, expected fewer")
                entries.append(entry)

    return read_all


def skipper(writer: Type, known: dict[int, Read] | None = None) -> Read:
    """Compile a reader that skips a value. A recursive type is skipped by a recursive reader."""
    known = {} if known is None else known
    if id(writer) in known:
        again = id(writer)
        return lambda data, at: known[again](data, at)
    known[id(writer)] = binary.read_nothing  # a placeholder until the reader is compiled
    known[id(writer)] = made = _skipping(writer, known)
    return made


def _skipping(writer: Type, known: dict[int, Read]) -> Read:
    match writer.kind:
        case "record":
            steps = [skipper(each.type, known) for each in writer.fields]

            def skip_record(data: bytes, at: int) -> tuple[None, int]:
                for step in steps:
                    _, at = step(data, at)
                return None, at

            return skip_record
        case "union":
            branches = [skipper(each, known) for each in writer.items]

            def skip_union(data: bytes, at: int) -> tuple[Any, int]:
                index, at = binary.read_long(data, at)
                if not 0 <= index < len(branches):
                    raise FormatError(f"found branch {index} of a union, expected one of {len(branches)}")
                return branches[index](data, at)

            return skip_union
        case "array":
            return blocks(skipper(writer.items[0], known), lambda entries: None)
        case "map":
            return blocks(pair(binary.read_bytes, skipper(writer.items[0], known)), lambda entries: None)
    return plain(writer)
