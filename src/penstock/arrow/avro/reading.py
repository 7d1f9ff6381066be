"""Read Avro data by columns: each row has a cursor, and nodes move all cursors at once.

A node reads one value in each of ``rows`` (ascending indexes of cursors) and returns an array of the same
length. If a row turns out to be bad, the reason is noted, its cursor moves to the row's end, and the values
read from it are discarded. No length is trusted: a row is bad if a value would exceed its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.framed import cut
from penstock.arrow.varint_reading import BYTES_MAX, numbers_at, read_varints, unzigzag

# Limit on array elements that take no bytes (nulls, empty records); otherwise a count could demand any
# number.
_EMPTY_ELEMENTS_MAX: Final = 1 << 16
_DEPTH_MAX: Final = 64
_PADDING: Final = 16
# A step that reads one element of all rows costs as much as reading several rows alone. So blocks with more
# elements than `_STEPS_MIN` are read whole if there are fewer than `_ROWS_PER_STEP` rows for each element.
_STEPS_MIN: Final = 64
_ROWS_PER_STEP: Final = 4
_US_PER_MS: Final = 1000
_MS_MAX: Final = (2**63 - 1) // _US_PER_MS


class Cursor:
    """The position and the end of each row in one buffer, which `padded` has extended."""

    def __init__(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self.data = data
        self.at = starts.astype(np.int64)
        self.end = ends.astype(np.int64)
        self.bad: dict[int, str] = {}
        self.is_bad = np.zeros(len(starts), bool)
        self.depth = 0

    def fail(self, rows: np.ndarray, reason: str) -> None:
        """Mark rows as bad; the first reason of a row is kept."""
        for row in rows.tolist():
            self.bad.setdefault(row, reason)
        self.is_bad[rows] = True
        self.at[rows] = self.end[rows]

    def move(self, rows: np.ndarray, at: np.ndarray, what: str) -> None:
        """Move rows to new positions; a row that has fewer bytes is bad."""
        over = at > self.end[rows]
        if over.any():
            self.at[rows] = np.minimum(at, self.end[rows])
            self.fail(rows[over], f"the data ends within {what}")
        else:
            self.at[rows] = at

    def skip(self, rows: np.ndarray, count: np.ndarray | int, what: str) -> np.ndarray:
        """Skip ``count`` bytes and return where they began.

        A row with an invalid length is bad, and reads zero bytes.
        """
        starts: np.ndarray = self.at[rows]
        if isinstance(count, np.ndarray):
            wrong = (count < 0) | (count > self.end[rows] - starts)
            if wrong.any():
                for row, size in zip(rows[wrong], count[wrong], strict=True):
                    self.fail(
                        np.array([row]),
                        f"the length {size} of {what} exceeds the remaining data"
                        if size > 0
                        else f"the length {size} of {what} is negative",
                    )
                count[wrong] = 0
                starts = self.at[rows]
        self.move(rows, starts + count, what)
        return starts

    def long(self, rows: np.ndarray, what: str) -> np.ndarray:
        """Read zigzag varints."""
        at = self.at[rows]
        found, sizes, too_long = read_varints(self.data, at)
        self.move(rows, at + sizes, what)
        if len(too_long):
            self.fail(rows[too_long], f"{what} is longer than {BYTES_MAX} bytes")
        return unzigzag(found)

    def fixed(self, rows: np.ndarray, dtype: str, what: str) -> np.ndarray:
        """Read little-endian numbers of the type's width."""
        return numbers_at(self.data, dtype, self.skip(rows, np.dtype(dtype).itemsize, what))

    def slices(self, starts: np.ndarray, lengths: np.ndarray) -> pa.BinaryArray:
        """Return the bytes at the given starts and lengths; starts are ascending."""
        return cut(self.data, starts, lengths)


def padded(data: np.ndarray) -> np.ndarray:
    """Append zeros, so that a number can be read where the data ends; readers check a row's end later."""
    return np.concatenate([data, np.zeros(_PADDING, np.uint8)])


class Node(Protocol):
    """A reader of one written Avro type into a column."""

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array: ...


@dataclass(frozen=True, slots=True)
class Nothing:
    """Null, read into a column of any type."""

    type: pa.DataType

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        return pa.nulls(len(rows), self.type)


@dataclass(frozen=True, slots=True)
class Boolean:
    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        starts = cursor.skip(rows, 1, "a boolean")
        found = cursor.data[starts]
        wrong = (found > 1) & (cursor.at[rows] > starts)
        if wrong.any():
            cursor.fail(rows[wrong], "a boolean is neither 0 nor 1")
        return pa.array(found == 1)


@dataclass(frozen=True, slots=True)
class Whole:
    """An int or a long, read as any number or time. ``factor`` converts milliseconds."""

    type: pa.DataType
    bits: int
    factor: int = 1

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        found = cursor.long(rows, "an int" if self.bits == 32 else "a long")
        if self.bits == 32:
            wrong = found != found.astype(np.int32)
            if wrong.any():
                cursor.fail(rows[wrong], "an int has more than 32 bits")
        if self.factor > 1:
            wrong = (found > _MS_MAX) | (found < -_MS_MAX)
            if wrong.any():
                cursor.fail(rows[wrong], "a timestamp is out of range for a column of microseconds")
                found[wrong] = 0
            found = found * self.factor
        if pa.types.is_floating(self.type):
            return pa.array(found.astype(self.type.to_pandas_dtype()))
        if self.type.bit_width == 32:
            found = found.astype(np.int32)
        return pa.Array.from_buffers(self.type, len(found), [None, pa.py_buffer(np.ascontiguousarray(found))])


@dataclass(frozen=True, slots=True)
class Float:
    type: pa.DataType
    dtype: str

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        return pa.array(cursor.fixed(rows, self.dtype, "a number")).cast(self.type)


@dataclass(frozen=True, slots=True)
class Text:
    """A string or bytes, read as either."""

    type: pa.DataType

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        lengths = cursor.long(rows, "a length")
        starts = cursor.skip(rows, lengths, "a text")
        found = cursor.slices(starts, lengths)
        if pa.types.is_binary(self.type):
            return found
        try:
            return found.cast(self.type)
        except pa.ArrowInvalid:
            return self._without_bad(found, cursor, rows)

    def _without_bad(self, found: pa.BinaryArray, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        texts: list[str | None] = []
        for at, value in enumerate(found.to_pylist()):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError as problem:
                cursor.fail(rows[at : at + 1], f"a string is not UTF-8 ({problem.reason})")
                texts.append(None)
        return pa.array(texts, self.type)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A value with a length prefix that the reader skips."""

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        cursor.skip(rows, cursor.long(rows, "a length"), "a text")
        return pa.nulls(len(rows))


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed value of ``size`` bytes, read as a UUID's text if ``is_uuid``."""

    size: int
    is_uuid: bool = False

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        starts = cursor.skip(rows, self.size, "a fixed")
        lengths = np.minimum(self.size, cursor.end[rows] - starts)
        found = cursor.slices(starts, lengths)
        if not self.is_uuid:
            return found
        digits = pa.array([each.hex() for each in found.to_pylist()], pa.string())
        ends = [8, 12, 16, 20, 32]
        parts = [pc.utf8_slice_codeunits(digits, a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        return pc.binary_join_element_wise(*parts, "-")


@dataclass(frozen=True, slots=True)
class DecimalNode:
    """A big-endian two's complement decimal, in a fixed of ``size`` bytes or with a length prefix.

    Reader and writer always have the same scale here.
    """

    type: pa.Decimal128Type
    size: int | None

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        if self.size is None:
            lengths = cursor.long(rows, "a length")
        else:
            lengths = np.full(len(rows), self.size, np.int64)
        starts = cursor.skip(rows, lengths, "a decimal")
        data = cursor.data
        negative = (data[starts] >= 0x80) & (lengths > 0)
        words = np.empty((len(rows), 16), np.uint8)
        fill = np.where(negative, 0xFF, 0).astype(np.uint8)
        for place in range(16):  # the last byte is the lowest
            there = place < lengths
            words[:, place] = np.where(there, data[np.where(there, starts + lengths - 1 - place, 0)], fill)
        found = pa.Array.from_buffers(self.type, len(rows), [None, pa.py_buffer(words)])
        try:
            found.validate(full=True)
            too_long = lengths > 16
        except pa.ArrowInvalid:
            too_long = np.ones(len(rows), bool)
        if too_long.any():
            # A longer value may be padded with bytes that only repeat the sign.
            self._check_each(cursor, rows, starts, lengths, np.flatnonzero(too_long), words)
        return found

    def _check_each(
        self,
        cursor: Cursor,
        rows: np.ndarray,
        starts: np.ndarray,
        lengths: np.ndarray,
        which: np.ndarray,
        words: np.ndarray,
    ) -> None:
        """Check the range of single values. ``words`` is the column's own memory."""
        highest = 10**self.type.precision
        for at in which:
            data = cursor.data[starts[at] : starts[at] + lengths[at]].tobytes()
            if abs(int.from_bytes(data, "big", signed=True)) >= highest:
                reason = f"a decimal has more digits than {self.type.precision}"
                cursor.fail(rows[at : at + 1], reason)
                words[at] = 0


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum. ``symbols`` maps the writer's numbers to the reader's symbols, None for an unknown one."""

    symbols: Sequence[str | None]
    names: Sequence[str]

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        found = cursor.long(rows, "an enum")
        wrong = (found < 0) | (found >= len(self.symbols))
        if wrong.any():
            cursor.fail(rows[wrong], f"an enum has a number beyond its {len(self.symbols)} symbols")
            found[wrong] = 0
        for at, symbol in enumerate(self.symbols):
            if symbol is None and (missing := (found == at) & ~wrong).any():
                cursor.fail(rows[missing], f"the symbol '{self.names[at]}' is not in the reader's enum")
        return pa.array(self.symbols, pa.string()).take(pa.array(found))


@dataclass(frozen=True, slots=True)
class Constant:
    """The default of a field that the writer's schema lacks; it takes no bytes."""

    value: pa.Scalar

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        return pa.repeat(self.value, len(rows))


@dataclass(frozen=True, slots=True)
class Refused:
    """A branch of the writer's union that the reader can't read; every row with it is bad."""

    type: pa.DataType
    reason: str

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        cursor.fail(rows, self.reason)
        return pa.nulls(len(rows), self.type)


@dataclass(frozen=True, slots=True)
class Record:
    """A record.

    ``written`` has the fields in the writer's order, each with its place in the reader's record or None.
    ``absent`` has the reader's other fields. ``type`` is None if the record is skipped.
    """

    type: pa.StructType | None
    written: Sequence[tuple[int | None, Node]]
    absent: Sequence[tuple[int, Constant]]

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        columns: dict[int, pa.Array] = {}
        for place, node in self.written:
            column = node.read(cursor, rows)
            if place is not None:
                columns[place] = column
        for place, constant in self.absent:
            columns[place] = constant.read(cursor, rows)
        if self.type is None:
            return pa.nulls(len(rows))
        arrays = [columns[place] for place in range(self.type.num_fields)]
        return pa.StructArray.from_arrays(arrays, fields=list(self.type))


@dataclass(frozen=True, slots=True)
class Member:
    """A value as one branch of a union that is read as a struct of its branches."""

    type: pa.StructType
    place: int
    node: Node

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        found = self.node.read(cursor, rows)
        arrays = [
            found if at == self.place else pa.nulls(len(rows), each.type) for at, each in enumerate(self.type)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(self.type))


@dataclass(frozen=True, slots=True)
class Union:
    """The writer's branches, each read into the reader's type; ``type`` is None if the union is skipped."""

    type: pa.DataType | None
    branches: Sequence[Node]

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        found = cursor.long(rows, "a union")
        wrong = (found < 0) | (found >= len(self.branches))
        if wrong.any():
            cursor.fail(rows[wrong], f"a union has a number beyond its {len(self.branches)} branches")
            found[wrong] = 0
        if len(rows) and (found == found[0]).all():
            return self.branches[int(found[0])].read(cursor, rows)
        pieces: list[pa.Array] = [] if self.type is None else [pa.nulls(0, self.type)]
        order: list[np.ndarray] = []
        for number, branch in enumerate(self.branches):
            of_branch = np.flatnonzero(found == number)
            if len(of_branch):
                pieces.append(branch.read(cursor, rows[of_branch]))
                order.append(of_branch)
        if self.type is None:
            return pa.nulls(len(rows))
        return _in_order(pieces, order, len(rows))


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of array elements whose size is known before reading: a number of bytes, or of varints.

    ``branch`` is the first byte of a non-null element in a union with null; the size includes it.
    """

    bytes: int = 0
    varints: int = 0
    branch: int | None = None

    def ends(self, data: np.ndarray, at: int, end: int, count: int) -> np.ndarray | None:
        """Return the ends of ``count`` elements from ``at`` on, or fewer if the data ends before.

        Returns None if some elements have the other branch.
        """
        if self.bytes:
            ends = at + self.bytes * np.arange(1, min(count, (end - at) // self.bytes) + 1)
        else:
            numbers = count * self.varints
            last = np.flatnonzero(data[at : min(end, at + BYTES_MAX * numbers)] < 0x80)[:numbers]
            ends = at + 1 + last[self.varints - 1 :: self.varints]
        if self.branch is None:
            return ends
        is_one = len(ends) == count and (data[np.append(at, ends[:-1])] == self.branch).all()
        return ends if is_one else None


class _Block(NamedTuple):
    """The elements of array blocks: the index of each one's row, and a cursor with one row per element."""

    places: np.ndarray
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Repeated:
    """An array, or a map if ``is_map``, in blocks; ``type`` is None if it is skipped."""

    type: pa.DataType | None
    item: Node
    item_type: pa.DataType
    is_map: bool
    is_empty: bool  # whether elements may take no bytes
    key: Node
    extent: Extent | None = None

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        keys: list[pa.Array] = [pa.nulls(0, pa.string())]
        items: list[pa.Array] = [pa.nulls(0, self.item_type)]
        owners: list[np.ndarray] = []
        for places, inner, elements in self._elements(cursor, rows):
            if self.is_map:
                keys.append(self.key.read(inner, elements))
            found = self.item.read(inner, elements)
            if self.type is not None:
                items.append(found)
                owners.append(places)
        if self.type is None:
            return pa.nulls(len(rows))
        owner = np.concatenate(owners) if owners else np.empty(0, np.int64)
        order = np.argsort(owner, kind="stable")
        bounds = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(np.bincount(owner, minlength=len(rows)), out=bounds[1:])
        values = pa.concat_arrays(items).take(pa.array(order))
        if not self.is_map:
            return pa.ListArray.from_arrays(pa.array(bounds), values, type=self.type)
        names = pa.concat_arrays(keys).take(pa.array(order))
        if names.null_count:  # only in bad rows: a map's keys are never null
            names = pc.fill_null(names, "")
        return pa.MapArray.from_arrays(pa.array(bounds), names, values, type=self.type)

    def _elements(self, cursor: Cursor, rows: np.ndarray) -> Iterator[tuple[np.ndarray, Cursor, np.ndarray]]:
        """Yield the next elements: the indexes of their rows, the cursor to read with, and the cursor's rows.

        Blocks are read one element at a time. If few rows have many elements and the ends of these are known,
        all elements of a block are read at once.
        """
        active = np.arange(len(rows))
        seen = np.zeros(len(rows), np.int64)
        while len(active):
            counts = cursor.long(rows[active], "a count")
            sized = np.flatnonzero(counts < 0)
            if len(sized):
                # the block's size in bytes, for readers that skip it
                cursor.long(rows[active[sized]], "a size")
                counts[sized] = np.where(counts[sized] == -(2**63), 2**63 - 1, -counts[sized])
            left = cursor.end[rows[active]] - cursor.at[rows[active]]
            if self.is_empty:
                left = _EMPTY_ELEMENTS_MAX - seen[active]
            wrong = counts > left
            if wrong.any():
                cursor.fail(rows[active[wrong]], "a count exceeds the remaining data")
            going_on = (counts > 0) & ~cursor.is_bad[rows[active]]
            active, counts = active[going_on], counts[going_on]
            seen[active] += counts
            count_max = int(counts.max(initial=0))
            block = None
            if count_max > _STEPS_MIN and len(active) < count_max * _ROWS_PER_STEP:
                block = self._block(cursor, rows, active, counts)
            if block is not None:
                yield block.places, block.cursor, np.arange(len(block.places))
                for element, why in block.cursor.bad.items():
                    cursor.fail(rows[block.places[element : element + 1]], why)
            else:
                for number in range(count_max):
                    places = active[(counts > number) & ~cursor.is_bad[rows[active]]]
                    if len(places):
                        yield places, cursor, rows[places]
            active = active[~cursor.is_bad[rows[active]]]

    def _block(
        self, cursor: Cursor, rows: np.ndarray, active: np.ndarray, counts: np.ndarray
    ) -> _Block | None:
        """Move past the next blocks and return their elements; None if their ends are not known."""
        if self.extent is None:
            return None
        ends: list[np.ndarray] = []
        for row, count in zip(rows[active].tolist(), counts.tolist(), strict=True):
            found = self.extent.ends(cursor.data, int(cursor.at[row]), int(cursor.end[row]), count)
            if found is None:
                return None
            ends.append(found)
        sizes = np.array([len(each) for each in ends])
        cursor.fail(rows[active[sizes < counts]], "the data ends within an array")
        there = np.flatnonzero(sizes == counts)
        nothing = np.empty(0, np.int64)
        firsts = [np.append(cursor.at[rows[active[at]]], ends[at][:-1]) for at in there]
        cursor.at[rows[active[there]]] = [ends[at][-1] for at in there]
        return _Block(
            np.repeat(active[there], counts[there]),
            Cursor(
                cursor.data,
                np.concatenate([nothing, *firsts]),
                np.concatenate([nothing, *(ends[at] for at in there)]),
            ),
        )


@dataclass(slots=True)
class Again:
    """A recursive type in skipped data; ``node`` is set once the type is complete."""

    node: Node | None = None

    def read(self, cursor: Cursor, rows: np.ndarray) -> pa.Array:
        assert self.node is not None
        if cursor.depth >= _DEPTH_MAX:
            cursor.fail(rows, f"recursive types are nested deeper than {_DEPTH_MAX}")
        elif len(rows):
            cursor.depth += 1
            self.node.read(cursor, rows)
            cursor.depth -= 1
        return pa.nulls(len(rows))


def _in_order(pieces: list[pa.Array], order: list[np.ndarray], count: int) -> pa.Array:
    places = np.empty(count, np.int64)
    if order:
        places[np.concatenate(order)] = np.arange(count)
    return pa.concat_arrays(pieces).take(pa.array(places))
