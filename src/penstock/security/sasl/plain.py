"""SASL PLAIN (RFC 4616) on the server's side, with users in the listener's login settings as in Kafka."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from penstock.security.sasl.server import Authenticated, Conversation, Rejected

_PARTS = 3


def converse(passwords: Mapping[str, str]) -> Conversation:
    """Converse with a client that sends a name and its password."""
    parts = (yield b"").decode(errors="replace").split("\0", _PARTS)
    if len(parts) != _PARTS:
        raise Rejected(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}")
    authorized, name, password = parts
    if not name:
        raise Rejected("Authentication failed: username not specified")
    if not password:
        raise Rejected("Authentication failed: password not specified")
    expected = passwords.get(name)
    # An unknown name takes the time of a known one.
    is_equal = hmac.compare_digest((expected or "").encode(), password.encode())
    if expected is None or not is_equal:
        raise Rejected("Authentication failed: Invalid username or password")
    if authorized not in ("", name):
        raise Rejected(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return Authenticated(name)
