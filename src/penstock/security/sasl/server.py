"""Conversations of SASL servers: what all mechanisms share.

A conversation is a generator. It is sent the client's messages, yields the answers that ask for another one,
and returns an `Authenticated` at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias


class Rejected(Exception):
    """The client is refused. Its message is for the client and tells nothing that it does not know."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or message
        """The reason for the log, which may say more."""


class InvalidCredentials(Exception):
    """The client is refused, and must not learn why; the message is for the log."""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The name of a client that may come in, and the last message to it."""

    name: str
    answer: bytes = b""
    expires_at_ms: int | None = None
    """When its credential expires, on the wall clock; None if it does not."""
    token_authenticated: bool = False
    """Whether the credential is a delegation token."""


Conversation: TypeAlias = Generator[bytes, bytes, Authenticated]

Mechanism: TypeAlias = Callable[[], Conversation]
"""Starts a conversation."""
