"""The results of handlers: records to append, a response, and responses that follow later."""

from enum import Enum
from typing import Final, Protocol

__all__ = ["PARKED", "Caller", "Parked", "Ticket"]


class Parked(Enum):
    """The response follows through `take_replies()`, under the ticket of the request."""

    PARKED = "parked"


PARKED: Final = Parked.PARKED

Ticket = object
"""Identifies a parked request to the caller: a future in the broker, a string in a test. It stays opaque."""


class Caller(Protocol):
    """The sender of a request, and the API version it uses."""

    @property
    def api_version(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...
