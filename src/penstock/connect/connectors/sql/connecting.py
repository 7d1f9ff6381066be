"""Connections to a database, with attempts at the start."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from penstock.connect.connectors.sql.dialects import Dialect, dialect_for
from penstock.connect.connectors.sql.failures import DatabaseError, shown
from penstock.connect.connectors.sql.settings import DatabaseSettings
from penstock.connect.connectors.sql.urls import sqlalchemy_url
from penstock.connect.errors import ConfigInvalid
from penstock.extras import missing_extra, needs_extra

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

log = logging.getLogger(__name__)

EXTRA = "connect-sql"
PSYCOPG = "postgresql+psycopg"
KEEPALIVES = {
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "tcp_user_timeout": "120000",
}
"""Parameters of libpq that end waiting for a server that is gone within two minutes, instead of two hours."""


class Database:
    """One database, with at most one open connection, for one thread at a time."""

    def __init__(self, settings: DatabaseSettings, isolation: str | None = None) -> None:
        """Raise MissingExtra if a package is missing, and ConfigInvalid if the address cannot be read."""
        self._settings = settings
        self._isolation = isolation
        self._stopping = threading.Event()
        with needs_extra(EXTRA, "a connector for SQL databases"):
            self._engine = self._new_engine()
        self.dialect: Dialect = dialect_for(self._engine, quotes=settings.quotes)
        self.dialect.prepare(self._engine)
        self._connection: Connection | None = None

    def _new_engine(self) -> Engine:
        from sqlalchemy import create_engine
        from sqlalchemy.exc import NoSuchModuleError
        from sqlalchemy.pool import NullPool

        settings = self._settings
        url = sqlalchemy_url(settings.url, settings.user, settings.password)
        if url.drivername == PSYCOPG:
            url = url.update_query_dict({name: KEEPALIVES[name] for name in KEEPALIVES.keys() - url.query})
        more: dict[str, Any] = {} if self._isolation is None else {"isolation_level": self._isolation}
        try:
            return create_engine(url, poolclass=NullPool, hide_parameters=True, **more)
        except NoSuchModuleError as error:
            if url.get_backend_name() == "duckdb":
                raise missing_extra(EXTRA, "DuckDB", ["duckdb_engine"]) from error
            raise ConfigInvalid(
                f"connection.url is for {url.drivername}, for which SQLAlchemy finds no dialect"
            ) from error

    @property
    def shown(self) -> str:
        """The address without its password and its parameters, which may have another, for messages."""
        return str(self._engine.url.set(query={}).render_as_string(hide_password=True))

    def connection(self) -> Connection:
        """Return the open connection, or connect; several attempts are made.

        Raises:
            DatabaseError: no attempt succeeded.
        """
        from sqlalchemy.exc import DBAPIError

        if self._connection is not None and not self._connection.invalidated:
            return self._connection
        self.disconnect()
        for attempt in range(1, self._settings.attempts + 1):
            try:
                self._connection = self._engine.connect()
                return self._connection
            except DBAPIError as error:
                failure = shown(error)
                log.warning("cannot connect database=%s attempt=%d error=%s", self.shown, attempt, failure)
            if attempt < self._settings.attempts and self._stopping.wait(self._settings.backoff_ms / 1000):
                break
        raise DatabaseError(f"cannot connect to {self.shown}: {failure}")

    def disconnect(self) -> None:
        """Close the connection, if there is one; open transactions are rolled back."""
        from sqlalchemy.exc import SQLAlchemyError

        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                # The server rolls back. A cursor of MySQL would fetch all its rows before an orderly end.
                connection.invalidate()
                connection.close()
            except SQLAlchemyError as error:
                log.debug("a connection was closed with an error error=%s", shown(error))

    def close(self) -> None:
        """Close all, and end waiting for an attempt."""
        self.interrupt()
        self.disconnect()
        self._engine.dispose()

    def interrupt(self) -> None:
        """End waiting for an attempt, from any thread."""
        self._stopping.set()
