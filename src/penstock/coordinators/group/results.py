"""What a handler hands back: records to append, an answer, and answers that come later."""

from enum import Enum
from typing import Final, Protocol

__all__ = ["PARKED", "Caller", "Parked", "Ticket"]


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
