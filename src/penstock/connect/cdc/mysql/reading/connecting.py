"""How to connect to a server: Debezium's ``database.*`` properties, and sessions with uniform texts."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.extras import needs_extra

with needs_extra("mysql", "capturing MySQL or MariaDB"):
    import pymysql
    from pymysql.cursors import SSCursor

READ_TIMEOUT_S: Final = 60
"""Longest silence of a server, after which it counts as gone; the stream has heartbeats in between."""
_KEEPALIVE: Final = {
    number: seconds
    for name, seconds in {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}.items()
    if (number := getattr(socket, name, None)) is not None  # not on every system
}
"""Probes that find a lost server after two minutes. PyMySQL turns them on."""
_SESSION: Final = (
    "set session time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600, wait_timeout = 86400"
)
"""Settings that the texts of values depend on, and timeouts that would end long snapshots."""


@dataclass(frozen=True)
class Server:
    """A server's address and credentials."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    connect_timeout_s: float = 30
    tls: ssl.SSLContext | None = None
    plain: bool = False
    """Whether TLS is not to be used even if the server has it."""
    statements: tuple[str, ...] = ()
    """SQL that each session runs first, except those that read the binary log."""
    opens: Callable[[pymysql.Connection[Any]], None] = lambda connection: None
    """Called with each connection before it is opened."""

    @staticmethod
    def of(properties: Mapping[str, str]) -> Server:
        """Read Debezium's properties."""
        statements = properties.get("database.initial.statements", "").replace(";;", "\0").split(";")
        return Server(
            *(properties["database.hostname"], int(properties.get("database.port", "3306"))),
            *(properties.get("database.user", ""), properties.get("database.password", "")),
            int(properties.get("connect.timeout.ms", "30000")) / 1000,
            _tls(properties),
            properties.get("database.ssl.mode", "preferred").lower() in ("disabled", "disable"),
            tuple(each.replace("\0", ";").strip() for each in statements if each.strip()),
        )

    def connect(self, read_timeout_s: float = READ_TIMEOUT_S) -> pymysql.Connection[Any]:
        """Open a session that commits each statement by itself, whose texts are UTF-8. Raises MySQLError."""
        connection = self.connect_for_replication(read_timeout_s)
        with connection.cursor() as cursor:
            for statement in (_SESSION, *self.statements):
                cursor.execute(statement)
        return connection

    def connect_for_replication(self, read_timeout_s: float = READ_TIMEOUT_S) -> pymysql.Connection[Any]:
        """Open a session for the binary log. Raises MySQLError."""
        return self._open(read_timeout_s)

    def connect_for_rows(self) -> pymysql.Connection[Any]:
        """Open a session whose queries give the server's texts as bytes, row by row. Raises MySQLError."""
        connection = self._open(
            READ_TIMEOUT_S, use_unicode=False, conv=pymysql.converters.encoders, cursorclass=SSCursor
        )
        with connection.cursor() as cursor:
            for statement in (_SESSION, *self.statements):
                cursor.execute(statement)
        # a query may sort for hours before its first row: from here on, only a lost server ends the session
        connection._read_timeout = None
        for option, seconds in _KEEPALIVE.items():
            connection._sock.setsockopt(socket.IPPROTO_TCP, option, seconds)
        return connection

    def _open(self, read_timeout_s: float, **more: Any) -> pymysql.Connection[Any]:
        connection = pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=int(self.connect_timeout_s) or 1,
            read_timeout=read_timeout_s,
            ssl=self.tls,
            ssl_disabled=self.plain,
            defer_connect=True,
            **more,
        )
        self.opens(connection)
        connection.connect()
        return connection


def interrupt(connection: pymysql.Connection[Any]) -> None:
    """Let a read that waits in another thread fail at once."""
    with suppress(OSError, TypeError):  # it is closed, or has no socket yet
        socket.socket.shutdown(connection._sock, socket.SHUT_RDWR)


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """The context for ``database.ssl.mode``; None for no TLS, and for `preferred`, PyMySQL's default."""
    mode = properties.get("database.ssl.mode", "preferred").lower()
    if mode in ("disabled", "disable", "preferred"):
        return None
    context = ssl.create_default_context(cafile=properties.get("database.ssl.ca") or None)
    context.check_hostname = mode in ("verify_identity", "verify-full")
    if mode in ("required", "trust"):
        context.verify_mode = ssl.CERT_NONE
    return context
