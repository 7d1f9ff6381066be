"""Read columns of Protobuf messages into structs, all rows at once, and odd rows by Google's parser.

Google's parser has the reader's message: fields that a later writer added are left out, and fields that an
earlier one lacked get their defaults, as usual in Protobuf. If reader and writer disagree about a field's
type, or data does not have the wire type of its field, the parser would leave it out too; here that is an
error. Numbers are parsed as wide as they may have been written (`parsing`), so that none is cut to the
reader's size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from penstock.arrow.decoded import Decoded, shown
from penstock.arrow.framed import NoProjection, cut
from penstock.arrow.protobuf.columns import MessageColumns, NotByColumns
from penstock.arrow.protobuf.mapping import (
    DATE,
    DECIMAL,
    SCALARS,
    TIMESTAMP,
    WRAPPERS,
    Decimals,
    arrow_type,
    descriptor_of,
    field_type,
    is_map,
    type_name,
)
from penstock.arrow.protobuf.parsing import WrittenTypes, are_alike, parsing_descriptor

F = FieldDescriptor
_SECONDS_MAX: Final = (2**63 - 1) // 1_000_000 - 1
_SPECIAL: Final = {TIMESTAMP, DATE, DECIMAL, *WRAPPERS}
_EXACT: Final = Context(prec=60)
# Limits on a decimal, far more than a column holds but cheap to compute; a scale could ask for a billion
# digits.
_DECIMAL_BITS: Final = 190
_SCALE_MAX: Final = 100
# With fewer messages, reading them one by one is faster.
_ROWS_MIN: Final = 100
_Column = Callable[[Sequence[Any]], pa.Array]


class MessageReader:
    """A reader of columns of a ``message`` of ``files`` (a FileDescriptorSet).

    ``writer`` describes what was written; None means the same message. Raises NoProjection if they disagree,
    and ConfigError if there is no such message or it has no column type.
    """

    def __init__(
        self, files: bytes, message: str, decimals: Decimals, writer: Descriptor | None = None
    ) -> None:
        reader = descriptor_of(files, message)
        self.type = arrow_type(reader, decimals)
        wrote: WrittenTypes = {}
        if writer is not None:
            _compare(reader, writer, "", wrote, set())
        parsed = parsing_descriptor(files, message, wrote)
        self._parse = message_factory.GetMessageClass(parsed).FromString
        self._has_required = _has_required(reader, set())
        self._column = _message_column(reader, decimals)
        self._by_columns: MessageColumns | None = None
        with suppress(NotByColumns):
            self._by_columns = MessageColumns(reader, parsed, decimals)

    def read(self, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Decoded:
        """Read a message at each start; starts are ascending."""
        if self._by_columns is None or len(starts) < _ROWS_MIN:
            return self._by_google(data, starts, lengths)
        found, is_odd = self._by_columns.read(data, starts, lengths)
        odd = np.flatnonzero(is_odd)
        if not len(odd):
            return Decoded(found, {})
        others = self._by_google(data, starts[odd], lengths[odd])
        places = np.arange(len(starts))
        places[odd] = len(starts) + np.arange(len(odd))
        together = pa.concat_arrays([found, others.array]).take(pa.array(places))
        return Decoded(together, {int(odd[row]): why for row, why in others.bad.items()})

    def _by_google(self, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Decoded:
        bad: dict[int, str] = {}
        messages: list[Any] = []
        for row, value in enumerate(cut(data, starts, lengths).to_pylist()):
            try:
                message = self._parse(value)
            except DecodeError as problem:
                bad[row] = f"expected a message of the schema, found {shown(value)} ({problem})"
                message = None
            if self._has_required and message is not None and not message.IsInitialized():
                missing = ", ".join(message.FindInitializationErrors())
                bad[row] = f"expected a message with all required fields, found no {missing}"
                message = None
            messages.append(message)
        pieces: list[pa.Array] = [pa.nulls(0, self.type)]
        self._by_halves(messages, 0, pieces, bad)
        return Decoded(pieces[-1] if len(pieces) == 2 else pa.concat_arrays(pieces), bad)

    def _by_halves(
        self, messages: Sequence[Any], first: int, pieces: list[pa.Array], bad: dict[int, str]
    ) -> None:
        """Append the column of the messages, with null for those that have a value out of range."""
        try:
            pieces.append(self._column(messages))
        except _OutOfRange as problem:
            if len(messages) > 1:
                middle = len(messages) // 2
                self._by_halves(messages[:middle], first, pieces, bad)
                self._by_halves(messages[middle:], first + middle, pieces, bad)
                return
            bad[first] = str(problem)
            pieces.append(pa.nulls(1, self.type))


class _OutOfRange(ValueError):
    """A value that does not fit its column's type."""


def _message_column(of: Descriptor, decimals: Decimals) -> _Column:
    """Return a function that builds a column of messages, which may include None."""
    make = _column_of_fields(of, decimals)

    def checked(messages: Sequence[Any]) -> pa.Array:
        for message in messages:
            if message is not None:
                _refuse_passed_over(of, message)
        return make(messages)

    return checked


def _refuse_passed_over(of: Descriptor, message: Any) -> None:
    """Raise _OutOfRange if the parser skipped a field whose data has another wire type than the field's."""
    for each in UnknownFieldSet(message):
        field = of.fields_by_number.get(each.field_number)
        if field is not None:
            raise _OutOfRange(
                f"field '{field.name}' (number {field.number}) has the wire type {each.wire_type} in a form "
                f"that {_described(field)} does not have"
            )


def _column_of_fields(of: Descriptor, decimals: Decimals) -> _Column:
    if of.full_name == TIMESTAMP:
        return _timestamps
    if of.full_name == DATE:
        return _dates
    if of.full_name in WRAPPERS:
        one = _one_column(of.fields_by_name["value"], decimals)
        return lambda messages: one([None if m is None else m.value for m in messages])
    fields = [(field.name, _field_column(field, decimals)) for field in of.fields]
    schema = [pa.field(field.name, field_type(field, decimals)) for field in of.fields]

    def make(messages: Sequence[Any]) -> pa.Array:
        absent = np.fromiter((m is None for m in messages), bool, len(messages))
        arrays = [column(messages) for _, column in fields]
        return pa.StructArray.from_arrays(arrays, fields=schema, mask=pa.array(absent))

    return make


def _timestamps(messages: Sequence[Any]) -> pa.Array:
    found: list[int | None] = []
    for message in messages:
        if message is not None and abs(message.seconds) > _SECONDS_MAX:
            raise _OutOfRange("a timestamp is out of range for a column of microseconds")
        found.append(None if message is None else message.seconds * 1_000_000 + message.nanos // 1000)
    return pa.array(found, pa.int64()).cast(pa.timestamp("us", "UTC"))


def _dates(messages: Sequence[Any]) -> pa.Array:
    def day(message: Any) -> date:
        try:
            return date(message.year, message.month, message.day)
        except (ValueError, OverflowError):
            found = f"year {message.year}, month {message.month}, day {message.day}"
            raise _OutOfRange(f"expected a date, found {found}") from None

    return pa.array([None if each is None else day(each) for each in messages], pa.date32())


def _decimals(kind: pa.Decimal128Type) -> _Column:
    expected = f"expected a decimal({kind.precision}, {kind.scale})"

    def number(message: Any) -> Decimal:
        _refuse_passed_over(message.DESCRIPTOR, message)
        unscaled = int.from_bytes(message.value, "big", signed=True)
        if not message.value or unscaled.bit_length() > _DECIMAL_BITS or abs(message.scale) > _SCALE_MAX:
            found = f"{len(message.value)} bytes with a scale of {message.scale}"
            raise _OutOfRange(f"{expected}, found {found}")
        made = Decimal(unscaled).scaleb(-message.scale, _EXACT)
        try:
            pa.scalar(made, kind)
        except pa.ArrowInvalid:
            raise _OutOfRange(f"{expected}, found {made}") from None
        return made

    return lambda found: pa.array([None if each is None else number(each) for each in found], kind)


def _field_column(field: FieldDescriptor, decimals: Decimals) -> _Column:
    name = field.name
    if is_map(field):
        return _map_column(field, decimals)
    if field.is_repeated:
        return _list_column(field, decimals)
    one = _one_column(field, decimals)
    if field.has_presence:
        return lambda messages: one(
            [getattr(m, name) if m is not None and m.HasField(name) else None for m in messages]
        )
    return lambda messages: one([None if m is None else getattr(m, name) for m in messages])


def _list_column(field: FieldDescriptor, decimals: Decimals) -> _Column:
    name, one = field.name, _one_column(field, decimals)
    kind = field_type(field, decimals)

    def make(messages: Sequence[Any]) -> pa.Array:
        lists = [() if m is None else getattr(m, name) for m in messages]
        return pa.ListArray.from_arrays(_bounds(lists), one([v for each in lists for v in each]), type=kind)

    return make


def _map_column(field: FieldDescriptor, decimals: Decimals) -> _Column:
    entry = field.message_type.fields_by_name
    keys, values = _one_column(entry["key"], decimals), _one_column(entry["value"], decimals)
    name, kind = field.name, field_type(field, decimals)

    def make(messages: Sequence[Any]) -> pa.Array:
        maps = [{} if m is None else getattr(m, name) for m in messages]
        try:
            items = [list(each.items()) for each in maps]
        except UnicodeDecodeError as problem:  # in proto2 the parser does not check this
            raise _OutOfRange(f"field '{name}': a key is not UTF-8 ({problem.reason})") from None
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


def _one_column(field: FieldDescriptor, decimals: Decimals) -> _Column:
    if field.message_type is not None:
        if field.message_type.full_name == DECIMAL and field.full_name in decimals:
            return _decimals(pa.decimal128(*decimals[field.full_name]))
        return _message_column(field.message_type, decimals)
    kind = SCALARS[field.type]
    if field.type == F.TYPE_ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        # A number without a name in the reader's enum is kept as text.
        return lambda found: pa.array([None if n is None else names.get(n) or str(n) for n in found], kind)
    if pa.types.is_decimal(kind):
        return lambda found: pa.array([None if n is None else Decimal(n) for n in found], kind)

    def make(found: Sequence[Any]) -> pa.Array:
        try:
            return pa.array(found, kind)
        except (pa.ArrowInvalid, OverflowError) as problem:
            raise _OutOfRange(f"field '{field.name}': {problem}") from None

    return make


def _compare(
    reader: Descriptor, writer: Descriptor, path: str, wrote: WrittenTypes, seen: set[tuple[str, str]]
) -> None:
    """Collect the types with which fields were written. Raises NoProjection if the reader's don't match."""
    if (reader.full_name, writer.full_name) in seen:
        return
    seen.add((reader.full_name, writer.full_name))
    for number, field in reader.fields_by_number.items():
        written = writer.fields_by_number.get(number)
        if written is None:
            continue
        where = f"{path}.{field.name}".lstrip(".")
        key = (reader.full_name, number)
        is_as_before = wrote.setdefault(key, written.type) == written.type
        if not is_as_before or not _is_alike(field, written):
            raise NoProjection(
                f"field '{where}' (number {number}) was written as {_described(written)}, "
                f"expected {_described(field)}"
            )
        if field.message_type is not None:
            _compare(field.message_type, written.message_type, where, wrote, seen)


def _is_alike(field: FieldDescriptor, written: FieldDescriptor) -> bool:
    if field.is_repeated != written.is_repeated or not are_alike(field.type, written.type):
        return False
    if field.message_type is None or written.message_type is None:
        return True
    # A special message, whose column is not a struct, only looks like another message on the wire.
    names = {field.message_type.full_name, written.message_type.full_name}
    return len(names) == 1 or names.isdisjoint(_SPECIAL)


def _has_required(of: Descriptor, seen: set[str]) -> bool:
    seen.add(of.full_name)
    return any(
        field.is_required
        or (
            field.message_type is not None
            and field.message_type.full_name not in seen
            and _has_required(field.message_type, seen)
        )
        for field in of.fields
    )


def _described(field: FieldDescriptor) -> str:
    return f"repeated {type_name(field)}" if field.is_repeated else type_name(field)
