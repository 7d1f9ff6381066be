"""Read messages as columns, all rows at once: each step reads the next field of every row, whichever it is.

This reads what serializers write. Anything else marks a row as odd: damaged data, a message field that occurs
twice and would be merged, a number that its column can't hold. The values read from an odd row are discarded,
and Google's parser reads the row instead or reports the problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from penstock.arrow.decoded import spread
from penstock.arrow.framed import cut
from penstock.arrow.protobuf.mapping import (
    DATE,
    DECIMAL,
    SCALARS,
    TIMESTAMP,
    WRAPPERS,
    Decimals,
    field_type,
    is_map,
)
from penstock.arrow.varint_reading import numbers_at, read_varints, unzigzag

F = FieldDescriptor
_VARINT, _FIXED64, _LENGTH, _START, _END, _FIXED32 = range(6)
_TAG_MIN, _TAG_END = 1 << 3, 1 << 32  # field numbers have 29 bits
_PADDING: Final = 16
# Limit on the fields of a message. A step costs the same for one row as for a thousand, so longer messages
# are faster to read alone.
_STEPS_MAX: Final = 1_000
_FIXED: Final = {
    F.TYPE_DOUBLE: (_FIXED64, "<f8"),
    F.TYPE_FIXED64: (_FIXED64, "<u8"),
    F.TYPE_SFIXED64: (_FIXED64, "<i8"),
    F.TYPE_FLOAT: (_FIXED32, "<f4"),
    F.TYPE_FIXED32: (_FIXED32, "<u4"),
    F.TYPE_SFIXED32: (_FIXED32, "<i4"),
}
_WITH_LENGTH: Final = (F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_MESSAGE)
_ZIGZAG: Final = (F.TYPE_SINT32, F.TYPE_SINT64)
_SECONDS_MAX: Final = (2**63 - 1) // 1_000_000 - 1


class NotByColumns(Exception):
    """The message has features that are left to Google's parser."""


class _Values(NamedTuple):
    """Values of one field: the row of each; its number, or the start of its bytes; and its size in bytes."""

    rows: np.ndarray
    found: np.ndarray
    sizes: np.ndarray

    def take(self, which: np.ndarray) -> _Values:
        return _Values(self.rows[which], self.found[which], self.sizes[which])


class _Rows:
    """Messages in one buffer, and the marks of odd ones."""

    def __init__(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends
        self.is_odd = np.zeros(len(starts), bool)

    def __len__(self) -> int:
        return len(self.starts)

    def scan(self, tags: frozenset[int], *, others_are_odd: bool = False) -> dict[int, _Values]:
        """Return the values of all fields with these tags, in the order of each row."""
        at = self.starts.copy()
        found: dict[int, list[_Values]] = {}
        known = np.array(sorted(tags), np.uint64)
        numbers = np.unique(known >> np.uint64(3))
        rows = np.flatnonzero(at < self.ends)
        steps = 0
        while len(rows):
            steps += 1
            if steps > _STEPS_MAX:
                self._leave(rows, at)
                break
            seen = self._varints(rows, at)
            is_known = np.isin(seen, known)
            if not is_known.all():  # of a skipped field only the wire type matters
                others = ~is_known
                wrong = others & ((seen < _TAG_MIN) | (seen >= _TAG_END))
                # a known field with another wire type
                wrong |= others & np.isin(seen >> np.uint64(3), numbers)
                self._leave(rows[others if others_are_odd else wrong], at)
                seen[others] &= np.uint64(7)
            for tag in np.unique(seen).tolist():
                values = self._values(tag & 7, rows[seen == tag], at)
                if tag in tags:
                    found.setdefault(tag, []).append(values)
            rows = rows[at[rows] < self.ends[rows]]
        return {
            tag: _Values(*(np.concatenate(each) for each in zip(*parts, strict=True)))
            for tag, parts in found.items()
        }

    def _values(self, wire_type: int, rows: np.ndarray, at: np.ndarray) -> _Values:
        if wire_type in (_START, _END) or wire_type > _FIXED32:
            self._leave(rows, at)
            return _Values(rows[:0], at[:0], at[:0])
        if wire_type == _VARINT:
            numbers = self._varints(rows, at)
            return _Values(rows, numbers, np.zeros(len(rows), np.int64))
        if wire_type == _LENGTH:
            sizes = self._varints(rows, at).view(np.int64)
        else:
            sizes = np.full(len(rows), 8 if wire_type == _FIXED64 else 4, np.int64)
        starts = at[rows]
        over = (sizes < 0) | (sizes > self.ends[rows] - starts)
        if over.any():
            self._leave(rows[over], at)
            sizes = np.where(over, 0, sizes)
        at[rows] = np.where(over, self.ends[rows], starts + sizes)
        return _Values(rows, np.minimum(starts, self.ends[rows]), sizes)

    def _varints(self, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
        numbers, sizes, too_long = read_varints(self.data, at[rows])
        at[rows] += sizes
        over = at[rows] > self.ends[rows]
        over[too_long] = True
        if over.any():
            self._leave(rows[over], at)
        return numbers

    def _leave(self, rows: np.ndarray, at: np.ndarray) -> None:
        self.is_odd[rows] = True
        at[rows] = self.ends[rows]


_Leaf = Callable[[_Rows, _Values], pa.Array]
_Field = Callable[[_Rows, dict[int, _Values]], pa.Array]


class MessageColumns:
    """A reader of a message's columns.

    ``parsed`` is the message as `parsing` describes it, which determines how numbers are read. Raises
    NotByColumns.
    """

    def __init__(self, of: Descriptor, parsed: Descriptor, decimals: Decimals) -> None:
        self._read = _message(of, parsed, decimals)

    def read(self, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[pa.Array, np.ndarray]:
        """Return the column and the marks of odd rows; starts are ascending."""
        padded = np.concatenate([data, np.zeros(_PADDING, np.uint8)])  # allows reading a number at the end
        rows = _Rows(padded, starts.astype(np.int64), (starts + lengths).astype(np.int64))
        return self._read(rows), rows.is_odd


def _message(of: Descriptor, parsed: Descriptor, decimals: Decimals) -> Callable[[_Rows], pa.Array]:
    if of.full_name == DECIMAL or any(field.is_required for field in of.fields):
        raise NotByColumns
    fields = [_field(field, parsed.fields_by_number[field.number], decimals) for field in of.fields]
    tags = frozenset(tag for own, _ in fields for tag in own)
    choices = [
        [own for field, (own, _) in zip(of.fields, fields, strict=True) if field.name in names]
        for names in ({field.name for field in oneof.fields} for oneof in of.oneofs)
        if len(names) > 1
    ]
    made = _whole(of, decimals)

    def read(rows: _Rows) -> pa.Array:
        found = rows.scan(tags)
        for choice in choices:
            _refuse_two(rows, [found[tag].rows for own in choice for tag in own if tag in found])
        return made(rows, [column(rows, found) for _, column in fields])

    return read


def _whole(of: Descriptor, decimals: Decimals) -> Callable[[_Rows, list[pa.Array]], pa.Array]:
    """Return a function that combines the columns of a message's fields."""
    if of.full_name == TIMESTAMP:
        return _timestamps
    if of.full_name == DATE:
        return _dates
    if of.full_name in WRAPPERS:
        return lambda rows, columns: columns[0]
    fields = [pa.field(field.name, field_type(field, decimals)) for field in of.fields]
    return lambda rows, columns: pa.StructArray.from_arrays(columns, fields=fields)


def _timestamps(rows: _Rows, columns: list[pa.Array]) -> pa.Array:
    seconds, nanos = (column.to_numpy(zero_copy_only=False) for column in columns)
    over = (seconds > _SECONDS_MAX) | (seconds < -_SECONDS_MAX)
    rows.is_odd |= over
    micros = np.where(over, 0, seconds) * 1_000_000 + nanos // 1000
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))


def _dates(rows: _Rows, columns: list[pa.Array]) -> pa.Array:
    year, month, day = (column.to_numpy(zero_copy_only=False).astype(np.int64) for column in columns)
    wrong = (year < 1) | (year > 9999) | (month < 1) | (month > 12) | (day < 1) | (day > 31)
    months = np.where(wrong, 0, (year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + np.where(wrong, 0, day - 1)
    rows.is_odd |= wrong | (days.astype("datetime64[M]") != months)
    return pa.array(days.astype(np.int64).astype(np.int32)).cast(pa.date32())


def _refuse_two(rows: _Rows, members: Sequence[np.ndarray]) -> None:
    """Mark rows that set two fields of a oneof as odd; Google's parser lets the last one count."""
    if members:
        counts = np.bincount(np.concatenate(members), minlength=len(rows))
        rows.is_odd |= counts > 1


def _field(
    field: FieldDescriptor, parsed: FieldDescriptor, decimals: Decimals, *, is_entrys: bool = False
) -> tuple[tuple[int, ...], _Field]:
    """Return a field's tags and a function that builds its column.

    A field missing in a map's entry has its default.
    """
    if field.type == F.TYPE_GROUP:
        raise NotByColumns
    if is_map(field):
        return _map(field, parsed, decimals)
    tag = _tag(parsed)
    leaf = _leaf(field, parsed, decimals)
    if field.is_repeated:
        return _repeated(field, parsed, leaf, decimals)
    kind = field_type(field, decimals)
    is_message = field.message_type is not None
    is_absent_null = is_message or (field.has_presence and not is_entrys)
    default = None if is_absent_null else _default(field, kind)

    def column(rows: _Rows, found: dict[int, _Values]) -> pa.Array:
        values = found.get(tag)
        if values is None:
            return pa.nulls(len(rows), kind) if default is None else pa.repeat(default, len(rows))
        places = np.full(len(rows), -1, np.int64)
        places[values.rows] = np.arange(len(values.rows))  # the last one counts
        there = np.flatnonzero(places >= 0)
        if is_message and len(there) < len(values.rows):
            rows.is_odd |= np.bincount(values.rows, minlength=len(rows)) > 1
        array = spread(leaf(rows, values.take(places[there])), there, len(rows))
        return array if default is None or len(there) == len(rows) else array.fill_null(default)

    return (tag,), column


def _repeated(
    field: FieldDescriptor, parsed: FieldDescriptor, leaf: _Leaf, decimals: Decimals
) -> tuple[tuple[int, ...], _Field]:
    kind = field_type(field, decimals)
    tag = _tag(parsed)
    packed_tag = parsed.number << 3 | _LENGTH
    may_be_packed = packed_tag != tag

    def column(rows: _Rows, found: dict[int, _Values]) -> pa.Array:
        values = found.get(tag)
        packed = found.get(packed_tag) if may_be_packed else None
        if packed is not None:
            owners = [packed.rows] if values is None else [packed.rows, np.unique(values.rows)]
            rows.is_odd |= np.bincount(np.concatenate(owners), minlength=len(rows)) > 1
            parts = [_unpacked(rows, packed, parsed)] + ([] if values is None else [values])
            values = _Values(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        return _lists(rows, values, leaf, kind)

    return ((tag, packed_tag) if may_be_packed else (tag,)), column


def _lists(rows: _Rows, values: _Values | None, leaf: _Leaf, kind: pa.ListType) -> pa.Array:
    offsets, values = _grouped(rows, values)
    return pa.ListArray.from_arrays(offsets, leaf(rows, values), type=kind)


def _grouped(rows: _Rows, values: _Values | None) -> tuple[pa.Array, _Values]:
    """Group values by row, and return the bounds of each row's group."""
    bounds = np.zeros(len(rows) + 1, np.int32)
    if values is None:
        nothing = np.empty(0, np.int64)
        return pa.array(bounds), _Values(nothing, nothing.view(np.uint64), nothing)
    np.cumsum(np.bincount(values.rows, minlength=len(rows)), out=bounds[1:])
    return pa.array(bounds), values.take(np.argsort(values.rows, kind="stable"))


def _unpacked(rows: _Rows, packed: _Values, parsed: FieldDescriptor) -> _Values:
    """Split packed chunks into their numbers."""
    packed = packed.take(np.argsort(packed.rows, kind="stable"))
    if parsed.type in _FIXED:
        size = np.dtype(_FIXED[parsed.type][1]).itemsize
        rows.is_odd[packed.rows[packed.sizes % size != 0]] = True
        counts = packed.sizes // size
        first = np.repeat(packed.found - np.concatenate([[0], np.cumsum(counts)[:-1]]) * size, counts)
        starts = first + np.arange(counts.sum()) * size
        return _Values(np.repeat(packed.rows, counts), starts, np.full(len(starts), size, np.int64))
    first = np.repeat(packed.found - np.concatenate([[0], np.cumsum(packed.sizes)[:-1]]), packed.sizes)
    places = first + np.arange(packed.sizes.sum())
    owners = np.repeat(packed.rows, packed.sizes)
    is_last = rows.data[places] < 0x80
    chunk_ends = packed.found + packed.sizes - 1
    rows.is_odd[packed.rows[(packed.sizes > 0) & (rows.data[chunk_ends] >= 0x80)]] = True
    is_first = np.concatenate([[True], is_last[:-1] | (owners[1:] != owners[:-1])])[: len(places)]
    starts = places[is_first]
    numbers, _, too_long = read_varints(rows.data, starts)
    rows.is_odd[owners[is_first][too_long]] = True
    return _Values(owners[is_first], numbers, np.zeros(len(starts), np.int64))


def _map(
    field: FieldDescriptor, parsed: FieldDescriptor, decimals: Decimals
) -> tuple[tuple[int, ...], _Field]:
    entry, parsed_entry = field.message_type.fields_by_name, parsed.message_type.fields_by_name
    kind = field_type(field, decimals)
    (key_tags, key), (value_tags, value) = (
        _field(entry[name], parsed_entry[name], decimals, is_entrys=True) for name in ("key", "value")
    )
    if entry["value"].message_type is not None:
        value = _never_null(value, value_tags)
    tag = parsed.number << 3 | _LENGTH

    def column(rows: _Rows, found: dict[int, _Values]) -> pa.Array:
        offsets, entries = _grouped(rows, found.get(tag))
        inner = _Rows(rows.data, entries.found.view(np.int64), entries.found.view(np.int64) + entries.sizes)
        # Google's parser leaves out an entry that has more than key and value.
        fields = inner.scan(frozenset(key_tags + value_tags), others_are_odd=True)
        keys, values = key(inner, fields), value(inner, fields)
        rows.is_odd[entries.rows[inner.is_odd]] = True
        codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        pairs = np.stack([entries.rows, codes])
        if np.unique(pairs, axis=1).shape[1] < len(codes):  # the last of two entries with one key counts
            _, first, counts = np.unique(pairs, axis=1, return_index=True, return_counts=True)
            rows.is_odd[entries.rows[first[counts > 1]]] = True
        return pa.MapArray.from_arrays(offsets, keys, values, type=kind)

    return (tag,), column


def _never_null(column: _Field, tags: tuple[int, ...]) -> _Field:
    """Leave entries without a message to Google's parser, which gives them an empty one."""

    def read(rows: _Rows, found: dict[int, _Values]) -> pa.Array:
        is_there = np.zeros(len(rows), bool)
        for tag in tags:
            if tag in found:
                is_there[found[tag].rows] = True
        rows.is_odd |= ~is_there
        return column(rows, found)

    return read


def _leaf(field: FieldDescriptor, parsed: FieldDescriptor, decimals: Decimals) -> _Leaf:
    """Return a function that converts values to a column, one each."""
    if field.type == F.TYPE_MESSAGE:
        return _messages(_message(field.message_type, parsed.message_type, decimals))
    if field.type in (F.TYPE_STRING, F.TYPE_BYTES):
        return _texts if field.type == F.TYPE_STRING else _bytes
    if parsed.type in _FIXED:
        dtype = _FIXED[parsed.type][1]
        kind = SCALARS[field.type]
        return lambda rows, values: _numbers(rows, values, numbers_at(rows.data, dtype, values.found), kind)
    if field.type == F.TYPE_BOOL:
        return lambda rows, values: pa.array(values.found != 0)
    if field.type == F.TYPE_ENUM:
        return _enum(field, parsed)
    return lambda rows, values: _numbers(rows, values, _signed(values.found, parsed), SCALARS[field.type])


def _messages(read: Callable[[_Rows], pa.Array]) -> _Leaf:
    def leaf(rows: _Rows, values: _Values) -> pa.Array:
        starts = values.found.astype(np.int64)
        inner = _Rows(rows.data, starts, starts + values.sizes)
        column = read(inner)
        rows.is_odd[values.rows[inner.is_odd]] = True
        return column

    return leaf


def _bytes(rows: _Rows, values: _Values) -> pa.Array:
    return cut(rows.data, values.found.astype(np.int64), values.sizes)


def _texts(rows: _Rows, values: _Values) -> pa.Array:
    found = _bytes(rows, values)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        good = np.array([_is_utf8(each) for each in found.to_pylist()], bool)
        rows.is_odd[values.rows[~good]] = True
        return pc.if_else(pa.array(good), found, pa.scalar(b"", pa.binary())).cast(pa.string())


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _signed(found: np.ndarray, parsed: FieldDescriptor) -> np.ndarray:
    if parsed.type in _ZIGZAG:
        return unzigzag(found)
    return found if parsed.type == F.TYPE_UINT64 else found.view(np.int64)


def _numbers(rows: _Rows, values: _Values, found: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Convert numbers to a column; a row with a number that does not fit is odd."""
    if pa.types.is_decimal(kind):
        high = np.where(found < 0, -1, 0) if found.dtype.kind == "i" else np.zeros(len(found))
        words = np.stack([found.astype(np.int64), high.astype(np.int64)], axis=1)
        return pa.Array.from_buffers(kind, len(found), [None, pa.py_buffer(np.ascontiguousarray(words))])
    made = found.astype(kind.to_pandas_dtype())
    if found.dtype.kind != "f":
        wrong = (made != found) if found.dtype.kind == "i" else (found > np.iinfo(made.dtype).max)
        if wrong.any():
            rows.is_odd[values.rows[wrong]] = True
    return pa.Array.from_buffers(kind, len(made), [None, pa.py_buffer(np.ascontiguousarray(made))])


def _enum(field: FieldDescriptor, parsed: FieldDescriptor) -> _Leaf:
    by_number = field.enum_type.values_by_number
    known = np.array(sorted(by_number), np.int64)
    names = pa.array([by_number[number].name for number in known.tolist()], pa.string())

    def leaf(rows: _Rows, values: _Values) -> pa.Array:
        numbers = _signed(values.found, parsed)
        rows.is_odd[values.rows[numbers > np.iinfo(np.int64).max]] = True
        numbers = numbers.astype(np.int64)
        places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        is_named = known[places] == numbers
        found = names.take(pa.array(places))
        if is_named.all():
            return found
        return pc.if_else(pa.array(is_named), found, pa.array(numbers).cast(pa.string()))

    return leaf


def _default(field: FieldDescriptor, kind: pa.DataType) -> pa.Scalar:
    if field.type == F.TYPE_ENUM:
        return pa.scalar(field.enum_type.values_by_number[field.default_value].name, kind)
    return pa.scalar(field.default_value, kind)


def _tag(parsed: FieldDescriptor) -> int:
    wire_type = _LENGTH if parsed.type in _WITH_LENGTH else _FIXED.get(parsed.type, (_VARINT, ""))[0]
    number: int = parsed.number
    return number << 3 | wire_type
