"""What can be wrong with a query. Each error has a name that stays, ``code``, and an HTTP status."""

from __future__ import annotations

from typing import ClassVar

from penstock.topology.errors import StreamsError


class ViewError(StreamsError):
    """The root of what queries raise. ``retriable`` says that the same query may succeed later."""

    code: ClassVar[str] = "FAILED"
    status: ClassVar[int] = 500
    retriable: ClassVar[bool] = False


class UnknownStore(ViewError):
    """The application has no store of this name."""

    code = "UNKNOWN_STORE"
    status = 404


class StoreNotQueryable(ViewError):
    """The store is there, and has no log that a view could follow, or no form that can be shown."""

    code = "STORE_NOT_QUERYABLE"
    status = 409


class UnsupportedQuery(ViewError):
    """A query that this kind of store has no answer to."""

    code = "UNSUPPORTED_QUERY"
    status = 400


class InvalidQuery(ViewError):
    """A key, a bound or a position that can't be read."""

    code = "INVALID_QUERY"
    status = 400


class KeyNotFound(ViewError):
    """Over HTTP: the store has no value for the key (in Python that is None). ``position``: of that answer,
    as JSON.
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
    """The position that was asked for was not reached in time (KIP-796's NOT_UP_TO_BOUND)."""

    code = "POSITION_NOT_REACHED"
    status = 504
    retriable = True


class NotPresent(ViewError):
    """This node does not hold the partition."""

    code = "NOT_PRESENT"
    status = 421
    retriable = True


class NoHolder(ViewError):
    """None of the nodes that should hold the partition gave an answer."""

    code = "NO_HOLDER"
    status = 503
    retriable = True


class ViewsClosed(ViewError):
    """The views were closed, or what followed the logs has failed; the cause says why."""

    code = "CLOSED"
    status = 503
