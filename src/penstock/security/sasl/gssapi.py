"""SASL GSSAPI (RFC 4752) on the server's side, as Kafka has it: Kerberos without a security layer.

After the exchange of the tokens the server offers what it has, which is no layer, and the client chooses it.
The client may also name whom it wants to be authorized as. As in Kafka, that has no effect: its principal
alone decides, by the rules that make a short name of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from penstock.security.sasl.server import Authenticated, Conversation, InvalidCredentials

NO_LAYER: Final = 1
"""The bit of "no security layer" in the first byte of offer and choice."""
CHOICE_BYTES: Final = 4
"""The size of an offer: a byte of layers, then the largest message in three."""
OFFER: Final = bytes([NO_LAYER, 0, 0, 0])


class Context(Protocol):
    """The server's side of an exchange of tokens. All raise InvalidCredentials."""

    @property
    def is_complete(self) -> bool: ...

    @property
    def initiator(self) -> str:
        """The client's principal, once the exchange is complete."""

    def step(self, token: bytes) -> bytes:
        """Take the client's token and return the answer, which may be empty."""

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


def converse(new_context: Callable[[], Context], short_name: Callable[[str], str]) -> Conversation:
    """Converse with a client that has a ticket. ``short_name`` of its principal raises InvalidCredentials."""
    token = yield b""
    context = new_context()
    answer = context.step(token)
    while not context.is_complete:
        answer = context.step((yield answer))
    if answer and (yield answer):
        raise InvalidCredentials("the client's answer to the last token is not empty")
    choice = context.unwrap((yield context.wrap(OFFER)))
    if len(choice) < CHOICE_BYTES or choice[0] != NO_LAYER:
        raise InvalidCredentials("the client chooses a security layer that was not offered")
    return Authenticated(short_name(context.initiator))
