"""SASL OAUTHBEARER (RFC 7628) on the server's side, as Kafka has it (KIP-255).

The client's only message has a bearer token, perhaps the name that it expects to be authorized as, and
extensions, which are checked for their form and else ignored. A refused token is answered with JSON. The
client acknowledges that with one byte, and the exchange fails. Apache Kafka lets it send another token
instead; here each token needs a connection, whose closing is delayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.security.sasl.server import Authenticated, Conversation, InvalidCredentials, Rejected
from penstock.security.tokens.compact import InvalidToken
from penstock.security.tokens.unsecured import InsufficientScope
from penstock.security.tokens.validation import BearerToken

_SHOWN_CHARS: Final = 100
_SEPARATOR: Final = "\1"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR: Final = "[A-Za-z]+=[\x21-\x7e \t\r\n]+\1"
_FIRST: Final = re.compile(f"n,(?:a=(?P<authorized>{_NAME}))?,\1(?P<pairs>(?:{_PAIR})*)\1")
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class ClientMessage(NamedTuple):
    """The first message of a client. ``repr`` shows no token."""

    authorized: str
    """The name that the client wants to be authorized as; empty if it leaves that to the token."""
    token: str

    def __repr__(self) -> str:
        return f"ClientMessage({self.authorized!r})"


def converse(validate: Callable[[str], BearerToken]) -> Conversation:
    """Converse with a client that has a bearer token. ``validate`` raises InvalidToken."""
    message = parse_message((yield b""))
    try:
        token = validate(message.token)
    except InvalidToken as refusal:
        answer = _error(refusal)
        yield answer.encode()
        raise Rejected(answer, str(refusal)) from None
    if message.authorized not in ("", token.principal):
        raise Rejected(
            f"Authentication failed: Client requested an authorization id ({message.authorized}) that is "
            f"different from the token's principal name ({token.principal})",
            f"{token.principal!r} asks to be authorized as {message.authorized[:_SHOWN_CHARS]!r}",
        )
    return Authenticated(token.principal, expires_at_ms=token.usable_until_ms)


def parse_message(message: bytes) -> ClientMessage:
    """Read the client's first message. Raises InvalidCredentials."""
    first = _FIRST.fullmatch(message.decode(errors="replace"))
    if first is None:
        raise InvalidCredentials("the client's first message is malformed")
    pairs = dict(pair.split("=", 1) for pair in first["pairs"].split(_SEPARATOR) if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise InvalidCredentials("the client's first message has no auth=Bearer with a token")
    return ClientMessage(first["authorized"] or "", auth["token"])


def _error(refusal: InvalidToken) -> str:
    """The answer to a refused token, in the form of RFC 7628, section 3.2.2."""
    if not isinstance(refusal, InsufficientScope):
        return '{"status":"invalid_token"}'
    scope = json.dumps(f"[{', '.join(refusal.required)}]")
    return f'{{"status":"insufficient_scope", "scope":{scope}}}'
