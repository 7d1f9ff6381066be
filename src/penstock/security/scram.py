"""SCRAM credentials (RFC 5802, RFC 7677): the keys that a server keeps of a password, and their computation.

Names and passwords are UTF-8 without SASLprep, as in Kafka (KIP-84).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from enum import IntEnum
from random import Random, SystemRandom
from typing import Final

MIN_ITERATIONS: Final = 4096
"""The fewest iterations that Kafka accepts, so that passwords are not cheap to guess."""

MAX_ITERATIONS: Final = 16384
"""The most iterations that a credential may have, so that logins are not slow."""

SALT_BYTES: Final = 24
"""The size of a new salt, which makes equal passwords differ."""

_NONCE_BYTES: Final = 24


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms of Kafka, by their number in requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def of_number(cls, number: int) -> ScramMechanism | None:
        """The mechanism with this number; None if it is unknown."""
        return next((mechanism for mechanism in cls if mechanism == number), None)

    @classmethod
    def of_title(cls, title: str) -> ScramMechanism | None:
        """The mechanism with this SASL name; None if it is unknown."""
        return next((mechanism for mechanism in cls if mechanism.title == title), None)

    @property
    def title(self) -> str:
        """The name in SASL, such as ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The name of the hash function in `hashlib`."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The salt and the keys that a server keeps of a password. ``repr`` shows none of them."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


_system_random: Final = SystemRandom()


def new_nonce(rng: Random = _system_random) -> str:
    """The part of a nonce that one side adds. ``rng`` must be unpredictable, except in simulations."""
    return base64.b64encode(rng.randbytes(_NONCE_BYTES)).decode()


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's SaltedPassword, which takes ``iterations`` rounds of HMAC. Raises ValueError for none."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """RFC 5802's ClientKey of a salted password: a client proves that it has it."""
    return hmac.digest(salted, b"Client Key", mechanism.digest)


def stored_key(mechanism: ScramMechanism, client_key: bytes) -> bytes:
    """RFC 5802's StoredKey: a server checks a client's proof with it."""
    return hashlib.new(mechanism.digest, client_key).digest()


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """RFC 5802's ServerKey of a salted password: a server proves with it that it knows the user."""
    return hmac.digest(salted, b"Server Key", mechanism.digest)


def credential(mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password."""
    return ScramCredential(
        salt,
        stored_key(mechanism, client_key(mechanism, salted)),
        server_key(mechanism, salted),
        iterations,
    )
