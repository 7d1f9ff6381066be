"""Reads the rows in a binary log's events: one function per column, chosen by the column's type. Pure.

Values are raw ones, before settings shape them: numbers, days and microseconds since 1970, bytes of strings.
Dates that are zero, or have a zero as month or day, are None, as in Debezium.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from typing import Any, Final

from penstock.connect.cdc.civil import DAY_US, days_of_civil
from penstock.connect.cdc.mysql import table_maps as types
from penstock.connect.cdc.mysql.events import packed_int
from penstock.connect.cdc.mysql.table_maps import BinlogColumn, TableMap
from penstock.connect.errors import ReplicationProtocolError

Read = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at a position, and gives it with the position after it."""

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_EXACT: Final = Context(prec=70)
"""Digits enough for every DECIMAL, which has at most 65."""
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of up to nine decimal digits."""
_INTEGER_SIZES: Final = {types.TINY: 1, types.SHORT: 2, types.INT24: 3, types.LONG: 4, types.LONGLONG: 8}
_BLOB_TYPES: Final = {
    *(types.BLOB, types.TINY_BLOB, types.MEDIUM_BLOB, types.LONG_BLOB, types.JSON, types.GEOMETRY),
}


class RowReader:
    """Reads the rows of one table."""

    def __init__(self, table: TableMap) -> None:
        """Choose how to read each column. Raises ReplicationProtocolError for a type without a reader."""
        self._name = f"{table.database}.{table.table}"
        self._reads = [_reader(each) for each in table.columns]

    def rows(self, data: bytes, has_two_images: bool) -> Iterator[tuple[list[Any] | None, list[Any]]]:
        """The rows of an event, each with the row before it if there are two images.

        Raises:
            ReplicationProtocolError: a row lacks columns, or the table has another number of columns.
        """
        count, at = packed_int(data, 0)
        size = (count + 7) // 8
        if not count or count != len(self._reads):
            raise ReplicationProtocolError(
                f"a row of {self._name} has {count} columns; its table map has {len(self._reads)}"
            )
        for _ in range(2 if has_two_images else 1):
            if int.from_bytes(data[at : at + size], "little") & ((1 << count) - 1) != (1 << count) - 1:
                raise ReplicationProtocolError(
                    f"a row of {self._name} lacks columns; set binlog_row_image=FULL on the server"
                )
            at += size
        while at < len(data):
            before = None
            if has_two_images:
                before, at = self._image(data, at, size)
            row, at = self._image(data, at, size)
            if at > len(data):
                raise ReplicationProtocolError(
                    f"a row of {self._name} ends at byte {at} of an event with {len(data)}"
                )
            yield before, row

    def _image(self, data: bytes, at: int, size: int) -> tuple[list[Any], int]:
        nulls = int.from_bytes(data[at : at + size], "little")
        at += size
        row: list[Any] = []
        for read in self._reads:
            if nulls & 1:
                row.append(None)
            else:
                value, at = read(data, at)
                row.append(value)
            nulls >>= 1
        return row, at


def _reader(column: BinlogColumn) -> Read:
    kind, meta = column.type, column.meta
    if kind in _INTEGER_SIZES:
        return _integer(_INTEGER_SIZES[kind], not column.unsigned)
    if kind in _BLOB_TYPES:
        return _prefixed(meta[0])
    if kind in (types.VARCHAR, types.VAR_STRING):
        return _prefixed(2 if int.from_bytes(meta, "little") > 255 else 1)
    if kind == types.STRING:
        # two high bits of the length hide in the type, inverted
        size = (meta[0] << 4 & 0x300 ^ 0x300) | meta[1]
        return _prefixed(2 if size > 255 else 1)
    if kind in (types.ENUM, types.SET):
        return _integer(meta[1], signed=False)
    if kind == types.BIT:
        return _big_endian(meta[1] + bool(meta[0]))
    if kind == types.DECIMAL:
        return decimal_reader(meta[0], meta[1])
    if kind in _BY_DIGITS:
        return _BY_DIGITS[kind](meta[0])
    if kind in _PLAIN:
        return _PLAIN[kind]
    raise ReplicationProtocolError(f"the column {column.name} has the type {kind}, which cannot be read")


def _integer(size: int, signed: bool) -> Read:
    def read(data: bytes, at: int) -> tuple[int, int]:
        end = at + size
        return int.from_bytes(data[at:end], "little", signed=signed), end

    return read


def _big_endian(size: int) -> Read:
    return lambda data, at: (int.from_bytes(data[at : at + size], "big"), at + size)


def _prefixed(prefix: int) -> Read:
    """Bytes with their length in front."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        start = at + prefix
        end = start + int.from_bytes(data[at:start], "little")
        return data[start:end], end

    return read


def decimal_reader(precision: int, scale: int) -> Read:
    """Groups of nine digits in four bytes each, the shorter groups outside; negative ones are inverted."""
    whole = precision - scale
    groups = [
        *([whole % 9] if whole % 9 else []),
        *[9] * (whole // 9 + scale // 9),
        *([scale % 9] if scale % 9 else []),
    ]
    sizes = [(_DIGIT_BYTES[digits], 10**digits) for digits in groups]
    total = sum(size for size, _ in sizes)
    all_bits = (1 << 8 * total) - 1

    def read(data: bytes, at: int) -> tuple[Decimal, int]:
        end = at + total
        number = int.from_bytes(data[at:end], "big") ^ 1 << 8 * total - 1
        is_negative = number >> 8 * total - 1
        if is_negative:
            number ^= all_bits
        digits = start = 0
        content = number.to_bytes(total, "big")
        for size, unit in sizes:
            digits = digits * unit + int.from_bytes(content[start : start + size], "big")
            start += size
        return Decimal(-digits if is_negative else digits).scaleb(-scale, _EXACT), end

    return read


def _year(data: bytes, at: int) -> tuple[int, int]:
    return data[at] + 1900 if data[at] else 0, at + 1


def _date(data: bytes, at: int) -> tuple[int | None, int]:
    packed = int.from_bytes(data[at : at + 3], "little")
    return civil_days(packed >> 9, packed >> 5 & 15, packed & 31), at + 3


def _time2(digits: int) -> Read:
    """Microseconds with a sign: a bit, 10 bits of hours, minutes, seconds, and a fraction."""
    size = (digits + 1) // 2
    offset = 1 << 23 + 8 * size
    unit = 10 ** (6 - size * 2)

    def read(data: bytes, at: int) -> tuple[int, int]:
        end = at + 3 + size
        packed = int.from_bytes(data[at:end], "big") - offset
        whole, fraction = abs(packed) >> 8 * size, abs(packed) & (1 << 8 * size) - 1
        seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
        micros = seconds * 1_000_000 + fraction * unit
        return -micros if packed < 0 else micros, end

    return read


def _datetime2(digits: int) -> Read:
    size = (digits + 1) // 2
    unit = 10 ** (6 - size * 2)

    def read(data: bytes, at: int) -> tuple[int | None, int]:
        middle = at + 5
        end = middle + size
        packed = int.from_bytes(data[at:middle], "big") - (1 << 39)
        date, time = packed >> 17, packed & 0x1FFFF
        year, month = divmod(date >> 5, 13)
        days = civil_days(year, month, date & 31)
        if days is None:
            return None, end
        seconds = (time >> 12) * 3600 + (time >> 6 & 63) * 60 + (time & 63)
        fraction = int.from_bytes(data[middle:end], "big") * unit
        return days * DAY_US + seconds * 1_000_000 + fraction, end

    return read


def _timestamp2(digits: int) -> Read:
    size = (digits + 1) // 2
    unit = 10 ** (6 - size * 2)

    def read(data: bytes, at: int) -> tuple[int | None, int]:
        middle = at + 4
        end = middle + size
        seconds = int.from_bytes(data[at:middle], "big")
        fraction = int.from_bytes(data[middle:end], "big") * unit
        return (seconds * 1_000_000 + fraction if seconds or fraction else None), end

    return read


def _old_timestamp(data: bytes, at: int) -> tuple[int | None, int]:
    seconds = int.from_bytes(data[at : at + 4], "little")
    return seconds * 1_000_000 or None, at + 4


def _old_time(data: bytes, at: int) -> tuple[int, int]:
    packed = int.from_bytes(data[at : at + 3], "little", signed=True)
    parts = abs(packed)
    seconds = parts // 10000 * 3600 + parts // 100 % 100 * 60 + parts % 100
    return (-seconds if packed < 0 else seconds) * 1_000_000, at + 3


def _old_datetime(data: bytes, at: int) -> tuple[int | None, int]:
    packed = int.from_bytes(data[at : at + 8], "little")
    date, time = divmod(packed, 1_000_000)
    days = civil_days(date // 10000, date // 100 % 100, date % 100)
    if days is None:
        return None, at + 8
    seconds = time // 10000 * 3600 + time // 100 % 100 * 60 + time % 100
    return days * DAY_US + seconds * 1_000_000, at + 8


def civil_days(year: int, month: int, day: int) -> int | None:
    """Days since 1970; None for dates that are zero in part. Years below 100 are those of two digits."""
    if not month or not day:
        return None
    if year < 100:
        year += 2000 if year < 70 else 1900
    return days_of_civil(year, month, day)


_BY_DIGITS: Final[dict[int, Callable[[int], Read]]] = {
    types.TIME2: _time2,
    types.DATETIME2: _datetime2,
    types.TIMESTAMP2: _timestamp2,
}
_PLAIN: Final[dict[int, Read]] = {
    types.FLOAT: lambda data, at: (_FLOAT.unpack_from(data, at)[0], at + 4),
    types.DOUBLE: lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8),
    types.YEAR: _year,
    types.DATE: _date,
    types.NEWDATE: _date,
    types.TIMESTAMP: _old_timestamp,
    types.TIME: _old_time,
    types.DATETIME: _old_datetime,
    types.NULL: lambda data, at: (None, at),
}
