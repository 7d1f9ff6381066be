"""Session keys, and the signatures of requests between workers (KIP-507).

The leader puts a random key into the config topic and replaces it after `inter.worker.key.ttl.ms`. A worker
signs the body of each internal request with it, so that only workers, who can read that topic, may send such
requests.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.connect.errors import ConnectError

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"


class _Algorithm(NamedTuple):
    """A digest's name in Python, and the size of the keys that Java generates unless one is configured."""

    digest: str
    key_bits: int


_ALGORITHMS: Final[Mapping[str, _Algorithm]] = {
    "HmacMD5": _Algorithm("md5", 512),
    "HmacSHA1": _Algorithm("sha1", 512),
    "HmacSHA224": _Algorithm("sha224", 224),
    "HmacSHA256": _Algorithm("sha256", 256),
    "HmacSHA384": _Algorithm("sha384", 384),
    "HmacSHA512": _Algorithm("sha512", 512),
    "HmacSHA512/224": _Algorithm("sha512_224", 224),
    "HmacSHA512/256": _Algorithm("sha512_256", 256),
    "HmacSHA3-224": _Algorithm("sha3_224", 224),
    "HmacSHA3-256": _Algorithm("sha3_256", 256),
    "HmacSHA3-384": _Algorithm("sha3_384", 384),
    "HmacSHA3-512": _Algorithm("sha3_512", 512),
}
ALGORITHMS: Final = tuple(_ALGORITHMS)
"""The names that Java gives to the algorithms of keys and signatures."""
_BASE64: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")


class RequestNotAuthentic(ConnectError):
    """A worker's request is not signed as it must be, or cannot be checked yet; with the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A key that the leader made, as it lies in the config topic."""

    algorithm: str
    key: bytes = field(repr=False)
    created_ms: int

    @classmethod
    def generate(cls, algorithm: str, size_bits: int | None, now_ms: int) -> SessionKey:
        """Return a new random key. Raises ConnectError for an unknown algorithm."""
        known = _algorithm(algorithm)
        if known is None:
            raise ConnectError(
                f"inter.worker.key.generation.algorithm is '{algorithm}', "
                f"expected one of {', '.join(ALGORITHMS)}"
            )
        bits = known.key_bits if size_bits is None else size_bits
        return cls(algorithm, secrets.token_bytes((bits + 7) // 8), now_ms)


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """The configured keys, and when the leader replaces the current one.

    Attributes:
        size_bits: ``inter.worker.key.size``; None for the algorithm's own.
        ttl_ms: ``inter.worker.key.ttl.ms``.
    """

    algorithm: str = "HmacSHA256"
    size_bits: int | None = None
    ttl_ms: int = 3_600_000

    def generate(self, now_ms: int) -> SessionKey:
        return SessionKey.generate(self.algorithm, self.size_bits, now_ms)

    def due_ms(self, current: SessionKey) -> int:
        """Return the time at which the leader must replace this key."""
        return current.created_ms + self.ttl_ms

    def is_due(self, current: SessionKey | None, now_ms: int) -> bool:
        """Whether the leader must distribute a new key: there is none, it is old, or of another kind."""
        if current is None or self.due_ms(current) <= now_ms:
            return True
        size_bytes = len(self.generate(now_ms).key)
        return current.algorithm != self.algorithm or len(current.key) != size_bytes


def sign(key: SessionKey, body: bytes, algorithm: str) -> dict[str, str]:
    """Return the headers that sign a request's body. Raises ConnectError for an unknown algorithm."""
    signature = base64.b64encode(_signature(key, body, algorithm)).decode()
    return {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: algorithm}


def check(
    headers: Mapping[str, str], body: bytes, key: SessionKey | None, permitted: Collection[str]
) -> None:
    """Check the signature of a request from another worker.

    Args:
        headers: looked up by the names of this module; the server's mapping should ignore their case.
        key: the current key; None if this worker has not read one yet.
        permitted: the algorithms of ``inter.worker.verification.algorithms``.

    Raises:
        RequestNotAuthentic: with status 400, 403 or 503, as Kafka Connect answers.
    """
    algorithm, encoded = headers.get(ALGORITHM_HEADER), headers.get(SIGNATURE_HEADER)
    if algorithm is None or encoded is None:
        raise RequestNotAuthentic(400, "Internal request missing required signature")
    if _algorithm(algorithm) is None:
        raise RequestNotAuthentic(400, f"Algorithm {algorithm} not available")
    signature = _decoded(encoded)
    if algorithm not in permitted:
        raise RequestNotAuthentic(
            400,
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers. "
            f"This worker is currently configured to use: [{', '.join(permitted)}]. "
            "Check that all workers' configuration files permit the same set of signature algorithms, "
            "and correct any misconfigured worker and restart it.",
        )
    if key is None:
        raise RequestNotAuthentic(
            503,
            "This worker is still starting up and has not been able to read a session key "
            "from the config topic yet",
        )
    if not hmac.compare_digest(_signature(key, body, algorithm), signature):
        raise RequestNotAuthentic(403, "Internal request contained invalid signature.")


def _decoded(encoded: str) -> bytes:
    data = encoded.encode(errors="replace")
    if _BASE64.fullmatch(data) is None:
        raise RequestNotAuthentic(400, f"The signature in {SIGNATURE_HEADER} is not in base64")
    try:
        return base64.b64decode(data + b"=" * (-len(data) % 4))
    except binascii.Error as error:
        raise RequestNotAuthentic(400, f"The signature in {SIGNATURE_HEADER} is not in base64") from error


def _signature(key: SessionKey, body: bytes, algorithm: str) -> bytes:
    known = _algorithm(algorithm)
    if known is None:
        raise ConnectError(
            f"the signature algorithm is '{algorithm}', expected one of {', '.join(ALGORITHMS)}"
        )
    return hmac.digest(key.key, body, known.digest)


def _algorithm(name: str) -> _Algorithm | None:
    """Return what is known of an algorithm, whose name Java reads without regard to case."""
    return next((known for each, known in _ALGORITHMS.items() if each.lower() == name.lower()), None)
