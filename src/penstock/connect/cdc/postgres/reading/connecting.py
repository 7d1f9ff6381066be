"""How to connect to a server: Debezium's ``database.*`` properties, and sessions whose texts are uniform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

_SESSION: Final = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "xmlbinary": "base64",
    "lc_monetary": "C",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
"""Settings that the texts of values depend on, and timeouts that would end long snapshots.

Values of the stream and of snapshots must have the same text whatever the server's and the user's defaults.
"""
_NETWORK: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""libpq's limits in seconds, the last one in milliseconds, after which a server that is gone is noticed.

Without them, a connection to a machine that vanished would look alive for hours.
"""
_SSL: Final = ("sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert")


@dataclass(frozen=True)
class Server:
    """A server's address and credentials."""

    parameters: Mapping[str, str] = field(repr=False)
    statements: tuple[str, ...] = ()
    """SQL that each session runs first, except those for replication."""

    @staticmethod
    def of(properties: Mapping[str, str]) -> Server:
        """Read Debezium's properties."""
        parameters = {
            "host": properties["database.hostname"],
            "port": properties.get("database.port", "5432"),
            "user": properties.get("database.user", ""),
            "password": properties.get("database.password", ""),
            "dbname": properties["database.dbname"],
            "keepalives": "1" if properties.get("database.tcpKeepAlive", "true").lower() == "true" else "0",
            **{name: properties.get(f"database.{name}", "") for name in _SSL},
        }
        statements = properties.get("database.initial.statements", "").replace(";;", "\0").split(";")
        return Server(
            {name: value for name, value in parameters.items() if value},
            tuple(each.replace("\0", ";").strip() for each in statements if each.strip()),
        )

    def connect(self, purpose: str) -> psycopg.Connection[Any]:
        """Open a session that commits each statement by itself. Raises psycopg.Error."""
        connection = self._open(purpose)
        for statement in self.statements:
            connection.execute(statement.encode())
        return connection

    def connect_for_replication(self, purpose: str) -> psycopg.Connection[Any]:
        """Open a session for replication commands. Raises psycopg.Error."""
        return self._open(purpose, replication="database")

    def _open(self, purpose: str, **more: str) -> psycopg.Connection[Any]:
        options = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
        parameters = {**_NETWORK, **self.parameters, **more, "options": options, "client_encoding": "utf8"}
        return psycopg.connect(autocommit=True, application_name=f"penstock {purpose}", **parameters)
