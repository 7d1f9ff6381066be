"""SCRAM (RFC 5802, RFC 7677) on the server's side, as Kafka has it: no channel binding, no SASLprep (KIP-84).

A name that nobody has gets an answer like any other, with a salt that stays the same, so that a client learns
only at the end, as with a wrong password, that it is refused. Apache Kafka refuses it at once.

A client that sends the extension ``tokenauth=true`` logs in with a delegation token (KIP-48): its name is the
token's id, and it becomes the token's owner.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.security.sasl.server import Authenticated, Conversation, InvalidCredentials, Rejected
from penstock.security.scram import (
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramCredential,
    ScramMechanism,
    new_nonce,
    stored_key,
)

_NAME: Final = "(?:[^=,\0]|=2C|=3D)+"
_EXTENSIONS: Final = "(?:,[A-Za-z]+=[^,\0]+)*"
_NONCE: Final = r"[\x21-\x2B\x2D-\x7E]+"
_BASE64: Final = "[A-Za-z0-9/+]*={0,2}"
_CLIENT_FIRST: Final = re.compile(
    f"(?P<header>n,(?:a=(?P<authorized>{_NAME}))?,)"
    f"(?P<bare>(?:m=[^,\0]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    f"(?P<without_proof>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class TokenLogin(NamedTuple):
    """The login with one delegation token."""

    owner: str
    """The name of the user that the client becomes."""
    credential: ScramCredential
    expires_at_ms: int


def converse(
    mechanism: ScramMechanism,
    credential_of: Callable[[str], ScramCredential | None],
    secret: Callable[[], bytes],
    token_of: Callable[[str], TokenLogin | None] = lambda _token_id: None,
    nonce: Callable[[], str] = new_nonce,
) -> Conversation:
    """Converse with a client that proves that it knows a password, a user's or a delegation token's.

    ``secret`` makes the salts of names that nobody has; who does not know it cannot tell them from others.
    ``nonce`` makes the server's part of the nonce.
    """
    first = _CLIENT_FIRST.fullmatch(_text((yield b"")))
    if first is None:
        raise InvalidCredentials("the client's first message is malformed")
    name = _plain(first["name"])
    if first["authorized"] is not None and _plain(first["authorized"]) != name:
        raise Rejected(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    token = token_of(name) if (by_token := _is_token_login(first["extensions"])) else None
    known = credential_of(name) if not by_token else token and token.credential
    credential = known or _credential_of_nobody(mechanism, name, secret())
    whole_nonce = first["nonce"] + nonce()
    salt = base64.b64encode(credential.salt).decode()
    server_first = f"r={whole_nonce},s={salt},i={credential.iterations}"
    final = _CLIENT_FINAL.fullmatch(_text((yield server_first.encode())))
    if final is None:
        raise InvalidCredentials("the client's final message is malformed")
    if final["nonce"] != whole_nonce:
        raise InvalidCredentials("the client's final message has another nonce")
    if _from_base64(final["binding"]) != first["header"].encode():
        raise InvalidCredentials("the client asks for channel binding, or its header has changed")
    signed = f"{first['bare']},{server_first},{final['without_proof']}".encode()
    signature = hmac.digest(credential.stored_key, signed, mechanism.digest)
    proof = _from_base64(final["proof"])
    if len(proof) != len(signature):
        raise InvalidCredentials(f"the client's proof has {len(proof)} bytes, expected {len(signature)}")
    key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    proves = hmac.compare_digest(stored_key(mechanism, key), credential.stored_key)
    if known is None or not proves:
        raise InvalidCredentials("there is no such user" if known is None else "the password is wrong")
    answer = hmac.digest(credential.server_key, signed, mechanism.digest)
    last_message = b"v=" + base64.b64encode(answer)
    if token is None:
        return Authenticated(name, last_message)
    return Authenticated(token.owner, last_message, token.expires_at_ms, token_authenticated=True)


def _is_token_login(extensions: str) -> bool:
    """Whether extensions, such as ``,a=b,tokenauth=true``, ask for a login with a delegation token."""
    values = dict(extension.split("=", 1) for extension in extensions.split(",")[1:])
    return values.get("tokenauth", "").lower() == "true"


def _credential_of_nobody(mechanism: ScramMechanism, name: str, secret: bytes) -> ScramCredential:
    key = hmac.digest(secret, name.encode(), "sha512")
    return ScramCredential(key[:SALT_BYTES], stored_key(mechanism, key), key, MIN_ITERATIONS)


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise InvalidCredentials("the client's message is not UTF-8") from None


def _plain(name: str) -> str:
    """The name without SCRAM's escapes."""
    return name.replace("=2C", ",").replace("=3D", "=")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidCredentials("the client's final message has invalid base64") from None
