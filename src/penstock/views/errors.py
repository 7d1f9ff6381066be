"""The errors of queries. Each has a stable name, ``code``, and an HTTP status."""

from __future__ import annotations

from typing import ClassVar

from penstock.topology.errors import StreamsError


class ViewError(StreamsError):
    """The base class of all errors of queries. ``retriable``: the same query may succeed later."""

    code: ClassVar[str] = "FAILED"
    status: ClassVar[int] = 500
    retriable: ClassVar[bool] = False


class UnknownStore(ViewError):
    """The application has no store of this name."""

    code = "UNKNOWN_STORE"
    status = 404


class StoreNotQueryable(ViewError):
    """The store exists, but has no log that a view could follow, or has no keys and values to show."""

    code = "STORE_NOT_QUERYABLE"
    status = 409


class UnsupportedQuery(ViewError):
    """This kind of store does not support the query."""

    code = "UNSUPPORTED_QUERY"
    status = 400


class InvalidQuery(ViewError):
    """A key, a bound or a position is malformed."""

    code = "INVALID_QUERY"
    status = 400


class KeyNotFound(ViewError):
    """Over HTTP: the store has no value for the key (in Python the answer is None).

    ``position`` is that of the answer, as JSON.
    """

    code = "KEY_NOT_FOUND"
    status = 404

    def __init__(self, message: str, position: str = "{}") -> None:
        super().__init__(message)
        self.position = position


class StoreRestoring(ViewError):
    """The partition is still being read from its log."""

    code = "STORE_RESTORING"
    status = 503
    retriable = True


class PositionNotReached(ViewError):
    """The requested position was not reached in time (KIP-796's NOT_UP_TO_BOUND)."""

    code = "POSITION_NOT_REACHED"
    status = 504
    retriable = True


class NotPresent(ViewError):
    """This node does not hold the partition."""

    code = "NOT_PRESENT"
    status = 421
    retriable = True


class NoHolder(ViewError):
    """No node that should hold the partition answered."""

    code = "NO_HOLDER"
    status = 503
    retriable = True


class ViewsClosed(ViewError):
    """The views were closed, or following the logs failed; the cause says why."""

    code = "CLOSED"
    status = 503


class Unauthenticated(ViewError):
    """Over HTTP: the client has shown no valid credentials."""

    code = "UNAUTHENTICATED"
    status = 401


class Forbidden(ViewError):
    """Over HTTP: the client has not the role that the request needs."""

    code = "FORBIDDEN"
    status = 403
