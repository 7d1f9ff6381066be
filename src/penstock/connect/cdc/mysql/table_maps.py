"""Reads table map events: the columns of a table as they were when its rows changed. Pure.

With ``binlog_row_metadata=FULL`` an event has names, signs, character sets, the values of enums and sets, the
primary key, and kinds of geometries. So the names and types of columns never depend on the present catalog,
and no history of DDL is needed to resume. Only defaults, and the digits of FLOAT(M,D), come from the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.connect.cdc.mysql.charsets import codec_of
from penstock.connect.cdc.mysql.events import packed_int
from penstock.connect.errors import ReplicationProtocolError

TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24 = 1, 2, 3, 4, 5, 6, 7, 8, 9
DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = (
    10,
    11,
    12,
    13,
    14,
    15,
    16,
    17,
    18,
    19,
)
JSON, DECIMAL, ENUM, SET, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB = 245, 246, 247, 248, 249, 250, 251, 252
VAR_STRING, STRING, GEOMETRY = 253, 254, 255
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
_NUMERIC: Final = {TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, DECIMAL}
_CHARACTER: Final = {
    VARCHAR,
    VAR_STRING,
    STRING,
    BLOB,
    TINY_BLOB,
    MEDIUM_BLOB,
    LONG_BLOB,
    BLOB_COMPRESSED,
    VARCHAR_COMPRESSED,
}
_METADATA_SIZES: Final = {
    **dict.fromkeys([FLOAT, DOUBLE, BLOB, JSON, GEOMETRY, TIMESTAMP2, DATETIME2, TIME2, BLOB_COMPRESSED], 1),
    **dict.fromkeys([VARCHAR, BIT, DECIMAL, VAR_STRING, STRING, ENUM, SET, VARCHAR_COMPRESSED], 2),
}
_Value = TypeVar("_Value")
_SIGNS, _DEFAULT_CHARSET, _CHARSETS, _NAMES, _SETS, _ENUMS, _GEOMETRIES = 1, 2, 3, 4, 5, 6, 7
_SIMPLE_KEY, _KEY_WITH_PREFIX, _ENUM_DEFAULT_CHARSET, _ENUM_CHARSETS = 8, 9, 10, 11
BINARY_COLLATION: Final = 63


@dataclass(frozen=True)
class BinlogColumn:
    """A column. `meta` are the bytes of the type's metadata, and `collation` is None for no characters."""

    name: str
    type: int
    meta: bytes
    nullable: bool
    unsigned: bool = False
    collation: int | None = None
    values: tuple[str, ...] = ()
    geometry: int | None = None


@dataclass(frozen=True)
class TableMap:
    """A table with its columns; `key` has the indexes of the primary key's columns."""

    database: str
    table: str
    columns: tuple[BinlogColumn, ...]
    key: tuple[int, ...]


def read_table_map(data: bytes) -> TableMap:
    """Read the event after the table's id and flags. Raises ReplicationProtocolError."""
    at = 1 + data[0]
    database = data[1:at].decode()
    size = data[at + 1]
    table = data[at + 2 : at + 2 + size].decode()
    count, at = packed_int(data, at + 3 + size)
    kinds = data[at : at + count]
    size, at = packed_int(data, at + count)
    metadata = list(_split_metadata(kinds, data[at : at + size]))
    at += size
    nullable = data[at : at + (count + 7) // 8]
    fields = _fields(data, at + (count + 7) // 8)
    if _NAMES not in fields:
        raise ReplicationProtocolError(
            f"the binary log has no names for the columns of {database}.{table}; "
            "set binlog_row_metadata=FULL on the server"
        )
    types = [_real_type(kind, meta) for kind, meta in zip(kinds, metadata, strict=True)]
    names = [each.decode() for each in _texts(fields[_NAMES])]
    signs = _spread(types, _NUMERIC, _bits(fields.get(_SIGNS, b"")))
    collations = _collations(fields, types)
    values = _spread(types, {ENUM}, _value_lists(fields.get(_ENUMS, b"")))
    sets = _spread(types, {SET}, _value_lists(fields.get(_SETS, b"")))
    geometries = _spread(types, {GEOMETRY}, _ints(fields.get(_GEOMETRIES, b"")))
    columns = tuple(
        BinlogColumn(
            *(names[index], types[index], metadata[index], bool(nullable[index >> 3] >> (index & 7) & 1)),
            *(bool(signs.get(index)), collations.get(index)),
            _decoded(values.get(index) or sets.get(index) or [], collations.get(index)),
            geometries.get(index),
        )
        for index in range(count)
    )
    return TableMap(database, table, columns, _key(fields))


def _key(fields: dict[int, bytes]) -> tuple[int, ...]:
    if _KEY_WITH_PREFIX in fields:
        return tuple(_ints(fields[_KEY_WITH_PREFIX]))[::2]
    return tuple(_ints(fields.get(_SIMPLE_KEY, b"")))


def _split_metadata(kinds: bytes, data: bytes) -> Iterator[bytes]:
    at = 0
    for kind in kinds:
        size = _METADATA_SIZES.get(kind, 0)
        yield data[at : at + size]
        at += size


def _real_type(kind: int, meta: bytes) -> int:
    """The type of enums and sets, which are marked as strings."""
    return meta[0] if kind == STRING and meta[0] in (ENUM, SET) else kind


def _fields(data: bytes, at: int) -> dict[int, bytes]:
    """The optional metadata: type, length, value."""
    found = {}
    while at < len(data):
        kind = data[at]
        size, at = packed_int(data, at + 1)
        found[kind] = data[at : at + size]
        at += size
    return found


def _collations(fields: dict[int, bytes], types: list[int]) -> dict[int, int]:
    """The collations of character columns, and of enums and sets, by index."""
    found: dict[int, int] = {}
    for kinds, default, each in (
        (_CHARACTER, _DEFAULT_CHARSET, _CHARSETS),
        ({ENUM, SET}, _ENUM_DEFAULT_CHARSET, _ENUM_CHARSETS),
    ):
        columns = [index for index, kind in enumerate(types) if kind in kinds]
        if each in fields:
            found.update(zip(columns, _ints(fields[each]), strict=False))
        elif default in fields:
            first, *rest = _ints(fields[default])
            others = dict(zip(rest[::2], rest[1::2], strict=True))
            found.update({index: others.get(place, first) for place, index in enumerate(columns)})
    return found


def _spread(types: list[int], kinds: set[int], values: Iterator[_Value]) -> dict[int, _Value]:
    """Values that only columns of some types have, by the columns' indexes."""
    columns = [index for index, kind in enumerate(types) if kind in kinds]
    return dict(zip(columns, values, strict=False))


def _bits(data: bytes) -> Iterator[bool]:
    return (bool(byte >> 7 - bit & 1) for byte in data for bit in range(8))


def _ints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = packed_int(data, at)
        yield value


def _texts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = packed_int(data, at)
        yield data[at : at + size]
        at += size


def _value_lists(data: bytes) -> Iterator[list[bytes]]:
    at = 0
    while at < len(data):
        count, at = packed_int(data, at)
        values = []
        for _ in range(count):
            size, at = packed_int(data, at)
            values.append(data[at : at + size])
            at += size
        yield values


def _decoded(values: list[bytes], collation: int | None) -> tuple[str, ...]:
    codec = codec_of(collation)
    return tuple(each.decode(codec, "replace") for each in values)
