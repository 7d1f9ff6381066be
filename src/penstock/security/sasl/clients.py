"""The client's side of the SASL mechanisms that Kafka's servers accept: bytes in, bytes out, no socket.

A conversation is a generator: it yields the bytes to send and is sent the server's answers. It ends when the
exchange is complete, and raises SaslRejected if an answer is not what it should be.

PLAIN is RFC 4616. SCRAM is RFC 5802 with SHA-256 (RFC 7677) or SHA-512, as in KIP-84: names and passwords are
UTF-8 without SASLprep, and there is no channel binding. OAUTHBEARER is RFC 7628 (KIP-255).
GSSAPI is RFC 4752 without a security layer; the tokens are made elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from penstock.security import scram
from penstock.security.sasl.gssapi import CHOICE_BYTES, NO_LAYER, OFFER
from penstock.security.sasl.jaas import EXPECTED, parse_jaas
from penstock.security.scram import MIN_ITERATIONS, ScramMechanism

Conversation: TypeAlias = Generator[bytes, bytes, None]
"""A generator that yields the bytes to send and is sent the server's answers."""

MAX_ITERATIONS: Final = 5_000_000
"""The upper limit, which takes some seconds.

A server that asks for more may want to exhaust the processor. One that asks for fewer than `MIN_ITERATIONS`
may want to crack the password.
"""

OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = ("PLAIN", *(mechanism.title for mechanism in ScramMechanism), OAUTHBEARER, GSSAPI)

_ACKNOWLEDGEMENT: Final = b"\1"
"""The message of a client of OAUTHBEARER whose token was refused."""
_EXTENSION: Final = "extension_"
_EXTENSION_NAME: Final = re.compile("[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile("[\x21-\x7e \t\r\n]+")


class SaslRejected(Exception):
    """The server refused the login, or proved not to know the password itself."""


class LoginUnavailable(Exception):
    """There is nothing to log in with; the message says why and shows no secret."""


@dataclass(frozen=True, slots=True)
class Login:
    """The client's user name and password. ``repr`` does not show the password."""

    username: str
    password: str = field(repr=False)
    by_token: bool = False
    """Whether they are the id and the HMAC of a delegation token, as with ``tokenauth=true``; for SCRAM."""


def parse_login(jaas: str) -> Login:
    """Read name and password from Kafka's ``sasl.jaas.config``.

    Raises ValueError, whose message says what was expected and never shows what was found.
    """
    options = parse_jaas(jaas).options
    if not options.get("username") or "password" not in options:
        raise ValueError(EXPECTED)
    by_token = options.get("tokenauth", "").lower() == "true"
    return Login(options["username"], options["password"], by_token)


@dataclass(frozen=True, slots=True)
class BearerLogin:
    """The client's bearer token, and the extensions that it sends with it. ``repr`` shows no token."""

    token: str = field(repr=False)
    extensions: tuple[tuple[str, str], ...] = ()


class InitiatingContext(Protocol):
    """The client's side of an exchange of GSS-API's tokens. All raise SaslRejected."""

    @property
    def is_complete(self) -> bool: ...

    def step(self, token: bytes) -> bytes:
        """Take the server's token and return the next one, which is empty if there is none."""

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class KerberosTicket:
    """The client's principal, and the exchange that it has begun with one server."""

    principal: str
    token: bytes = field(repr=False)
    """The first token."""
    context: InitiatingContext


Credentials: TypeAlias = Login | BearerLogin | KerberosTicket
"""The password, token or ticket that a client logs in with."""


def parse_extensions(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Read the extensions of OAUTHBEARER from the options of a login module.

    Raises ValueError("what was expected").
    """
    extensions = []
    for option, value in options.items():
        if option.startswith(_EXTENSION):
            name = option.removeprefix(_EXTENSION)
            if name == "auth" or not _EXTENSION_NAME.fullmatch(name):
                raise ValueError(f"letters after {_EXTENSION}, and not the word auth")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"printable ASCII in {option}")
            extensions.append((name, value))
    return tuple(extensions)


def converse(mechanism: str, login: Credentials, nonce: Callable[[], str] = scram.new_nonce) -> Conversation:
    """Start a conversation by one of `MECHANISMS`. ``nonce`` makes SCRAM's nonce, text without a comma."""
    if mechanism == OAUTHBEARER:
        assert isinstance(login, BearerLogin)
        return _bearer(login)
    if mechanism == GSSAPI:
        assert isinstance(login, KerberosTicket)
        return _kerberos(login)
    assert isinstance(login, Login)
    if mechanism == "PLAIN":
        return _plain(login)
    scram_mechanism = ScramMechanism.of_title(mechanism)
    assert scram_mechanism is not None
    return _scram(scram_mechanism, login, nonce())


def _plain(login: Login) -> Conversation:
    yield f"\0{login.username}\0{login.password}".encode()


def _bearer(login: BearerLogin) -> Conversation:
    pairs = (("auth", f"Bearer {login.token}"), *login.extensions)
    refusal = yield ("n,,\1" + "".join(f"{name}={value}\1" for name, value in pairs) + "\1").encode()
    if refusal:
        yield _ACKNOWLEDGEMENT
        raise SaslRejected(refusal.decode(errors="replace"))


def _kerberos(login: KerberosTicket) -> Conversation:
    context = login.context
    answer = yield login.token
    while not context.is_complete:
        answer = yield context.step(answer)
    offer = context.unwrap(answer)
    if len(offer) != CHOICE_BYTES or not offer[0] & NO_LAYER:
        raise SaslRejected("it insists on a security layer, which Kafka does not have")
    yield context.wrap(OFFER)


def _scram(mechanism: ScramMechanism, login: Login, nonce: str) -> Conversation:
    name = login.username.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={name},r={nonce}{',tokenauth=true' if login.by_token else ''}"
    server_first = (yield f"n,,{client_first}".encode()).decode(errors="replace")
    fields = _fields(server_first)
    served_nonce, salt, iterations = fields.get("r", ""), fields.get("s", ""), fields.get("i", "")
    if not served_nonce.startswith(nonce) or served_nonce == nonce:
        raise SaslRejected("its nonce does not continue ours: another server may have answered")
    if not iterations.isascii() or not iterations.isdigit():
        raise SaslRejected(f"it asks for {iterations[:20]!r} iterations, expected a number")
    rounds = int(iterations)
    if not MIN_ITERATIONS <= rounds <= MAX_ITERATIONS:
        raise SaslRejected(f"it asks for {rounds} iterations, expected {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    salted = scram.salted_password(mechanism, login.password, _from_base64(salt), rounds)
    bare = f"c=biws,r={served_nonce}"
    signed = f"{client_first},{server_first},{bare}".encode()
    client_key = scram.client_key(mechanism, salted)
    signature = hmac.digest(scram.stored_key(mechanism, client_key), signed, mechanism.digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = (yield f"{bare},p={base64.b64encode(proof).decode()}".encode()).decode(errors="replace")
    answer = _fields(server_final)
    if "e" in answer:
        raise SaslRejected(answer["e"])
    expected = hmac.digest(scram.server_key(mechanism, salted), signed, mechanism.digest)
    if not hmac.compare_digest(_from_base64(answer.get("v", "")), expected):
        raise SaslRejected("it cannot prove that it knows the password: another server may have answered")


def _fields(message: str) -> dict[str, str]:
    """Parse ``r=…,s=…``; values may contain equal signs."""
    return {name: value for name, _, value in (part.partition("=") for part in message.split(","))}


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslRejected(f"it sent {text[:20]!r}, expected base64") from None
