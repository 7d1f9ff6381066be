"""What a handler hands back: records to append, an answer, and answers that come later."""

from enum import Enum
from typing import Final, Protocol

from penstock.protocol.errors import ErrorCode

__all__ = ["PARKED", "Caller", "Parked", "Ticket", "append_error"]


class Parked(Enum):
    """The answer will come with `take_replies()`, under the ticket of the request."""

    PARKED = "parked"


PARKED: Final = Parked.PARKED

#: Names one parked request to the caller: a future in the broker, a word in a test. Never looked into.
Ticket = object


class Caller(Protocol):
    """Who sent a request, and in which version of its API."""

    @property
    def api_version(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...


_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: ErrorCode) -> ErrorCode:
    """The error a group client is told when its record could not be written.

    Clients of the group APIs know coordinator errors, not log errors: look again, retry, or give up.
    """
    return _APPEND_ERRORS.get(error, error)
