"""Reads the events of a binary log that change capture needs, of MySQL and of MariaDB. Pure.

An event has a header of 19 bytes: time in seconds, type, server id, length, end position, flags. Four
bytes of CRC-32 may follow it. Both servers share most types; MariaDB has numbers of its own from 160 on.

The package mysql-replication was weighed and not used: it cannot start at a GTID of MariaDB, makes a dict of
Python values per row before a converter can see the column's type, and mixes reading with its connection, so
that recorded bytes cannot be replayed.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from penstock.connect.cdc.mysql.gtids import MariaGtid
from penstock.connect.errors import ReplicationProtocolError

HEADER: Final = struct.Struct("<IBIIIH")
QUERY, ROTATE, FORMAT, XID, TABLE_MAP = 2, 4, 15, 16, 19
HEARTBEATS: Final = {27, 41}
ROWS_QUERY, GTID, XA_PREPARE = 29, 33, 38
PARTIAL_UPDATE, PAYLOAD, TAGGED_GTID = 39, 40, 42
ANNOTATE_ROWS, MARIA_GTID = 160, 162
QUERY_COMPRESSED: Final = 165
EXECUTE_LOAD: Final = 18
"""LOAD DATA as a statement."""
_LOAD_SIZE: Final = 13
"""Bytes in it that name its file and where the file's name is."""
STANDALONE: Final = 1
"""Flag of MariaDB's GTID event: the transaction is one statement without a commit, such as DDL."""

_ROWS: Final = {
    23: ("c", 1),
    24: ("u", 1),
    25: ("d", 1),
    30: ("c", 2),
    31: ("u", 2),
    32: ("d", 2),
    166: ("c", 1),
    167: ("u", 1),
    168: ("d", 1),
    169: ("c", 2),
    170: ("u", 2),
    171: ("d", 2),
}
"""Types of events with rows: the operation and the version of the event; from 166 on they are compressed."""
_FIRST_COMPRESSED: Final = 166
_ARTIFICIAL: Final = 0x20
"""Flag of events that the server makes for the reader."""
_QUERY: Final = struct.Struct("<IIBHH")
_MARIA_GTID: Final = struct.Struct("<QIB")
_ROTATE: Final = struct.Struct("<Q")


class EventHeader(NamedTuple):
    """The place of an event; `end` is the position after it, 0 if it is not written in the file."""

    time_s: int
    type: int
    server_id: int
    size: int
    end: int

    @property
    def start(self) -> int:
        """The position of the event's first byte."""
        return self.end - self.size


class Rotate(NamedTuple):
    """The next event is in another file."""

    file: str
    position: int


class Query(NamedTuple):
    """A statement: BEGIN, COMMIT, or DDL."""

    thread: int
    database: str
    statement: str


class Begin(NamedTuple):
    """MariaDB's GTID event, which begins a transaction. A standalone one is DDL and has no commit."""

    gtid: MariaGtid
    is_standalone: bool


class Gtid(NamedTuple):
    """MySQL's GTID, before the Query event that begins the transaction; `time_us` is 0 before MySQL 8."""

    source: str
    number: int
    time_us: int


class Commit(NamedTuple):
    """The end of a transaction."""


class Statement(NamedTuple):
    """The text of the statement whose rows follow."""

    text: str


class Rows(NamedTuple):
    """Changed rows of one table; `data` begins with the number of columns."""

    operation: str
    table_id: int
    data: bytes


class TableMapData(NamedTuple):
    """The description of a table whose rows follow, for `table_maps`."""

    table_id: int
    data: bytes


Event = Rotate | Query | Begin | Gtid | Commit | Statement | Rows | TableMapData | None


def has_checksums(data: bytes) -> bool:
    """Whether a file's events have checksums, by the event that describes its format."""
    return data[-5] == 1


def read_event(data: bytes, has_checksum: bool) -> tuple[EventHeader, Event]:
    """Read one event; None for those without meaning here. Raises ReplicationProtocolError."""
    if len(data) < HEADER.size:
        raise ReplicationProtocolError(f"an event has {len(data)} bytes; expected at least {HEADER.size}")
    time_s, kind, server_id, size, end, flags = HEADER.unpack_from(data)
    if size != len(data):
        raise ReplicationProtocolError(
            f"an event of type {kind} has {len(data)} bytes; its header says {size}"
        )
    if has_checksum:
        if zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise ReplicationProtocolError(f"the checksum of the event of type {kind} before {end} is wrong")
        data = data[:-4]
    header = EventHeader(time_s, kind, server_id, size, 0 if flags & _ARTIFICIAL else end)
    return header, _read_body(kind, data, HEADER.size)


def _read_body(kind: int, data: bytes, at: int) -> Event:
    if kind in _ROWS:
        return _rows(kind, data, at)
    if kind == TABLE_MAP:
        return TableMapData(int.from_bytes(data[at : at + 6], "little"), data[at + 8 :])
    if kind in (QUERY, QUERY_COMPRESSED):
        return _query(data, at, kind == QUERY_COMPRESSED)
    if kind == EXECUTE_LOAD:
        return _query(data, at, False, _LOAD_SIZE)
    if kind in (XID, XA_PREPARE):
        return Commit()
    if kind == MARIA_GTID:
        number, domain, flags = _MARIA_GTID.unpack_from(data, at)
        server_id = int.from_bytes(data[5:9], "little")
        return Begin(MariaGtid(domain, server_id, number), bool(flags & STANDALONE))
    if kind == GTID:
        return _gtid(data, at)
    if kind == ROTATE:
        return Rotate(data[at + 8 :].decode(), _ROTATE.unpack_from(data, at)[0])
    if kind == ANNOTATE_ROWS:
        return Statement(data[at:].decode(errors="replace"))
    if kind == ROWS_QUERY:
        return Statement(data[at + 1 :].decode(errors="replace"))
    if kind in _UNREADABLE:
        raise ReplicationProtocolError(f"the binary log has an event of type {kind}: {_UNREADABLE[kind]}")
    return None


_UNREADABLE: Final = {
    PAYLOAD: "set binlog_transaction_compression=OFF on the server",
    PARTIAL_UPDATE: "set binlog_row_value_options='' on the server",
    TAGGED_GTID: "GTIDs with tags (MySQL 8.4) are not supported",
}
"""Events that hold changes and cannot be read, with what to do."""


def _rows(kind: int, data: bytes, at: int) -> Rows:
    operation, version = _ROWS[kind]
    table_id = int.from_bytes(data[at : at + 6], "little")
    at += 8
    if version == 2:
        at += int.from_bytes(data[at : at + 2], "little")
    if kind < _FIRST_COMPRESSED:
        return Rows(operation, table_id, data[at:])
    count, size = packed_int(data, at)
    start = size + (count + 7) // 8 * (2 if operation == "u" else 1)
    return Rows(operation, table_id, data[at:start] + _uncompressed(data, start))


def _query(data: bytes, at: int, is_compressed: bool, more: int = 0) -> Query:
    """A statement; ``more`` bytes follow its fixed part."""
    thread, _, database_size, _, status_size = _QUERY.unpack_from(data, at)
    at += _QUERY.size + more + status_size
    database = data[at : at + database_size].decode()
    at += database_size + 1
    text = _uncompressed(data, at) if is_compressed else data[at:]
    return Query(thread, database, text.decode(errors="replace"))


def _gtid(data: bytes, at: int) -> Gtid:
    digits = data[at + 1 : at + 17].hex()
    source = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    number = int.from_bytes(data[at + 17 : at + 25], "little")
    clock = data[at + 42 : at + 49]  # after the type and two numbers of the logical clock
    immediate = int.from_bytes(clock, "little") if len(clock) == 7 else 0
    if immediate >> 55:  # the original time differs and follows
        immediate = int.from_bytes(data[at + 49 : at + 56], "little")
    return Gtid(source, number, immediate & ~(1 << 55))


def _uncompressed(data: bytes, at: int) -> bytes:
    """The content of MariaDB's compressed events: a byte with the length's size, the length, zlib's bytes."""
    return zlib.decompress(data[at + 1 + (data[at] & 7) :])


def packed_int(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer, and the position after it."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
