"""A session that reads the binary log as a replica does, from a set of GTIDs or from a file and position."""

from __future__ import annotations

import struct
from typing import Any, Final

import pymysql

from penstock.connect.cdc.mysql.events import FORMAT, Event, EventHeader, has_checksums, read_event
from penstock.connect.cdc.mysql.gtids import MySqlGtids
from penstock.connect.cdc.mysql.positions import ResumePoint
from penstock.connect.cdc.mysql.reading.connecting import READ_TIMEOUT_S, Server
from penstock.connect.cdc.mysql.reading.packets import PacketReader
from penstock.connect.errors import ChangesLost, ReplicationProtocolError

_DUMP, _DUMP_GTID, _REGISTER = 0x12, 0x1E, 0x15
_ANNOTATE: Final = 2
"""Flag that asks MariaDB for the statements of rows."""
_THROUGH_GTID: Final = 4
_HEARTBEAT_NS: Final = 1_000_000_000
"""Silence after which the server sends a heartbeat, so that a task can stop and a lost server is noticed."""
_EOF_MAX_BYTES: Final = 9
"""Packets that begin like the end of the stream and are longer hold something else."""
_REFUSED: Final = 1236
"""The server's error if it cannot send its log."""
_GONE: Final = (
    *("could not find", "purged", "not in the master", "not in the source", "diverged", "impossible"),
    *("file size", "more gtids than", "missing the gtid"),
)
"""Parts of its text if the log does not have the place to start from."""
_MAY_PASS: Final = ("same server", "truncated in the middle", "shutdown")
"""Parts of its text if another attempt may succeed."""


class StreamEnded(Exception):
    """The server ended the stream, because it shuts down or another session has the same server id."""


class BinlogSession:
    """An open stream of events."""

    def __init__(self, server: Server, server_id: int, is_maria: bool, with_statements: bool) -> None:
        """Connect, and say what this reader understands. Raises MySQLError."""
        self._connection: pymysql.Connection[Any] = server.connect_for_replication(READ_TIMEOUT_S)
        self._server_id = server_id
        self._is_maria = is_maria
        self._flags = _ANNOTATE if is_maria and with_statements else 0
        self._execute(
            "set @master_binlog_checksum = @@global.binlog_checksum, "
            "@source_binlog_checksum = @@global.binlog_checksum"
        )
        self._has_checksums = self._has_checksum_setting()
        self._execute(
            f"set @master_heartbeat_period = {_HEARTBEAT_NS}, @source_heartbeat_period = {_HEARTBEAT_NS}"
        )
        if is_maria:
            self._execute("set @mariadb_slave_capability = 4")

    def start(self, place: ResumePoint, by_gtids: bool) -> None:
        """Ask for all after a place. Raises MySQLError."""
        self._register()
        if by_gtids and self._is_maria:
            gtids = place.gtids or ""
            self._execute(f"set @slave_connect_state = '{gtids}', @slave_gtid_strict_mode = 0")
            self._command(_DUMP, struct.pack("<IHI", 4, self._flags, self._server_id))
        elif by_gtids:
            encoded = MySqlGtids(place.gtids or "").encoded()
            fixed = struct.pack("<HIIQI", _THROUGH_GTID, self._server_id, 0, 4, len(encoded))
            self._command(_DUMP_GTID, fixed + encoded)
        else:
            fixed = struct.pack("<IHI", place.position, self._flags, self._server_id)
            self._command(_DUMP, fixed + place.file.encode())
        self._packets = PacketReader(self._connection._sock, READ_TIMEOUT_S)

    def read(self) -> tuple[EventHeader, Event]:
        """Wait for the next event; heartbeats come at least once a second. Raises as `read_raw`."""
        data = self.read_raw()
        if data[4] == FORMAT:
            self._has_checksums = has_checksums(data)
        return read_event(data, self._has_checksums)

    def read_raw(self) -> bytes:
        """Wait for the bytes of the next event.

        Raises:
            ChangesLost: the server does not have the place to start from any more.
            ReplicationProtocolError: the server cannot send what comes next.
            StreamEnded: the server ended the stream.
            OperationalError: the connection broke.
        """
        try:
            data = self._packets.read()
        except pymysql.err.OperationalError as error:
            if error.args[0] != _REFUSED or _says(error, _MAY_PASS):
                raise
            if _says(error, _GONE):
                raise ChangesLost(f"the changes after the stored offset are lost: {error}") from error
            raise ReplicationProtocolError(f"the server cannot send its binary log: {error}") from error
        if data[:1] == b"\xfe" and len(data) < _EOF_MAX_BYTES:
            raise StreamEnded("the server ended the stream of its binary log")
        return data[1:]

    def has_more(self) -> bool:
        """Whether the next event is already here, at least in part."""
        return self._packets.has_more()

    def close(self) -> None:
        """Close the connection at once."""
        self._connection._force_close()

    def _register(self) -> None:
        """Appear in SHOW REPLICAS."""
        fixed = struct.pack("<IBBBHII", self._server_id, 0, 0, 0, 0, 0, 0)
        self._command(_REGISTER, fixed)
        self._connection._read_packet()

    def _has_checksum_setting(self) -> bool:
        """Whether the first events have checksums, before one tells the format of the file."""
        with self._connection.cursor() as cursor:
            cursor.execute("select @@global.binlog_checksum")
            return str(cursor.fetchall()[0][0]).upper() != "NONE"

    def _execute(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _command(self, command: int, content: bytes) -> None:
        self._connection._execute_command(command, content)


def _says(error: Exception, parts: tuple[str, ...]) -> bool:
    text = str(error).lower()
    return any(part in text for part in parts)
