"""Tells errors that pass by themselves from those that the same statement will have again."""

from __future__ import annotations

from penstock.connect.connectors.sql.dialects import Dialect
from penstock.connect.errors import ConnectError


def is_passing(error: BaseException, dialect: Dialect) -> bool:
    """Whether the statement may succeed later: the connection was lost, a lock was not granted."""
    from sqlalchemy.exc import DBAPIError, TimeoutError

    if isinstance(error, TimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or dialect.is_passing(error.orig)


def shown(error: BaseException) -> str:
    """The database's message in one line, without the statement and its values."""
    inner = getattr(error, "orig", None) or error
    return " ".join(str(inner).split())


class DatabaseError(ConnectError):
    """The database refused a statement, or cannot be reached."""
