"""A session with PostgreSQL's streaming replication protocol, on libpq by psycopg.

psycopg has no interface for the protocol, but starts COPY BOTH by `execute` and gives access to libpq's
functions, which is enough. Not thread-safe.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq, sql

from penstock.connect.cdc.postgres.framing import format_lsn, parse_lsn, status_update
from penstock.connect.cdc.postgres.reading.connecting import Server
from penstock.connect.errors import ReplicationProtocolError

FRAMES_MAX: Final = 1000
"""Frames that one call of `receive` returns at most, so that status replies stay timely."""
FAILOVER_VERSION: Final = 170000
"""Slots are kept in step on standbys since PostgreSQL 17."""
MESSAGES_VERSION: Final = 140000
"""pgoutput sends logical messages since PostgreSQL 14."""


class System(NamedTuple):
    """The answer to IDENTIFY_SYSTEM; `end` is the end of the server's WAL."""

    identifier: str
    timeline: int
    end: int


class NewSlot(NamedTuple):
    """A slot at its start, and the name of the snapshot that shows all transactions before it.

    The snapshot can be imported until the session of the slot's creation ends or runs another command.
    """

    start: int
    snapshot: str


class StreamEnded(Exception):
    """The server ended the stream, for instance because it shuts down."""


class ReplicationSession:
    """One session, for commands first and then for the stream of one slot."""

    def __init__(self, server: Server) -> None:
        """Connect. Raises psycopg.Error."""
        self._connection = server.connect_for_replication("replication")
        self._libpq = self._connection.pgconn
        self._poll = select.poll()
        self._poll.register(self._libpq.socket, select.POLLIN)

    @property
    def version(self) -> int:
        """The server's version, such as 150018."""
        return int(self._connection.info.server_version)

    def identify(self) -> System:
        """Ask for the server's identity and the end of its WAL."""
        identifier, timeline, end, *_ = self._row(sql.SQL("IDENTIFY_SYSTEM"))
        return System(str(identifier), int(timeline), parse_lsn(end))

    def create_slot(self, name: str, temporary: bool = False, failover: bool = False) -> NewSlot:
        """Create a slot for pgoutput and export its snapshot. Raises psycopg.Error."""
        is_synchronized = failover and self.version >= FAILOVER_VERSION
        command = sql.SQL("CREATE_REPLICATION_SLOT {}{} LOGICAL pgoutput {}").format(
            sql.Identifier(name),
            sql.SQL(" TEMPORARY" if temporary else ""),
            sql.SQL("(SNAPSHOT 'export', FAILOVER)" if is_synchronized else "EXPORT_SNAPSHOT"),
        )
        _, start, snapshot, *_ = self._row(command)
        return NewSlot(parse_lsn(start), snapshot)

    def start(self, slot: str, position: int, publication: str, more: Mapping[str, str]) -> None:
        """Start the stream at a position; the server begins at the confirmed one if that is later."""
        quoted = '"' + publication.replace('"', '""') + '"'
        options = {"proto_version": "1", "publication_names": quoted, **more}
        if self.version >= MESSAGES_VERSION:
            options.setdefault("messages", "true")
        listed = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(value))
            for name, value in options.items()
        )
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL {} ({})").format(
            sql.Identifier(slot), sql.SQL(format_lsn(position)), listed
        )
        self._connection.execute(command)

    def receive(self, timeout_s: float) -> list[bytes]:
        """Return the frames that have arrived, waiting for the first one; none after the timeout.

        Raises:
            StreamEnded: the server ended the stream.
            psycopg.OperationalError: the connection broke.
        """
        frames: list[bytes] = []
        take, libpq = self._libpq.get_copy_data, self._libpq
        while len(frames) < FRAMES_MAX:
            size, data = take(1)
            if size > 0:
                frames.append(bytes(data))
            elif size < 0:
                raise self._end_of_stream()
            elif frames or not self._poll.poll(timeout_s * 1000):
                break
            else:
                libpq.consume_input()
        return frames

    def confirm(self, received: int, flushed: int, asks: bool = False) -> None:
        """Send a status update: WAL before ``flushed`` is not needed again.

        If it ``asks``, the server answers at once with its position. Raises psycopg.Error.
        """
        self._libpq.put_copy_data(status_update(received, flushed, time.time_ns() // 1000, asks))
        self._libpq.flush()

    def _end_of_stream(self) -> Exception:
        """The reason why the server ended the stream."""
        result = self._libpq.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            error: Exception = psycopg.errors.error_from_result(result)
            return error
        return StreamEnded("the server ended the replication stream")

    def cancel(self) -> None:
        """End the command that another thread waits for."""
        self._connection.cancel()

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def _row(self, command: sql.Composable) -> tuple[Any, ...]:
        row = self._connection.execute(command).fetchone()
        if row is None:
            raise ReplicationProtocolError(f"the server answered {command!r} with nothing; expected a row")
        return tuple(row)
