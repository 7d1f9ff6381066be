"""Key sets (JWKS, RFC 7517): the public keys with which an issuer's signatures are verified.

The token's sender chooses the algorithm in its header. So the key decides: it has a type that fits only some
algorithms, and only asymmetric ones are known here. Neither a token without a signature nor one that is
signed by HMAC with the text of a public key finds a key.

joserfc does the cryptography. It was chosen over PyJWT because it types its keys, so that a key cannot be
used with an algorithm of another kind, and because it needs nothing but `cryptography`. It is imported with
the first key set, so that nodes without tokens start sooner.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.security.tokens.compact import (
    CompactToken,
    InvalidToken,
    JsonObject,
    from_base64url,
    parse_json_object,
)

if TYPE_CHECKING:
    from joserfc.jwk import Key

log = logging.getLogger(__name__)

_KEY_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", None),
}
"""The type and the curve of the keys that verify each algorithm."""

ALGORITHMS: Final = frozenset(_KEY_TYPES)
"""The algorithms of signatures that are accepted. Those with a shared secret are not among them."""

_SIGNING_CURVES: Final = ("P-256", "P-384", "P-521", "Ed25519", "Ed448")
_MIN_RSA_BITS: Final = 2048
"""RFC 7518 requires it, and so do Apache Kafka's brokers."""

_MAX_KEY_ID_CHARS: Final = 1000
"""Longer ids of keys are not searched for, as in Kafka, nor kept or logged."""

_MAX_SIGNATURE_CHARS: Final = 4096
"""More than an RSA key of 16,384 bits needs."""


class InvalidKeys(Exception):
    """A key set that cannot be read."""


class UnknownKey(InvalidToken):
    """No key of the set fits the token. ``key_id`` is what the token names, None if it names none."""

    def __init__(self, key_id: str | None, message: str) -> None:
        super().__init__(message)
        self.key_id = key_id


class _Key(NamedTuple):
    """A public key with what its owner allows to do with it."""

    key_id: str | None
    kind: str
    curve: str | None
    algorithm: str | None
    key: Key

    def verifies(self, algorithm: str) -> bool:
        kind, curve = _KEY_TYPES[algorithm]
        if self.kind != kind or (self.curve != curve and curve is not None):
            return False
        return self.algorithm in (None, algorithm)


class KeySet:
    """The keys of an issuer."""

    def __init__(self, keys: Iterable[_Key]) -> None:
        self._keys = tuple(keys)

    @classmethod
    def parse(cls, text: bytes | str) -> KeySet:
        """Read a JWKS. Keys that cannot verify signatures are left out. Raises InvalidKeys."""
        try:
            entries = parse_json_object(text).get("keys")
        except ValueError as error:
            reason = str(error) if type(error) is ValueError else "it is no JSON"
            raise InvalidKeys(f"the key set cannot be read: {reason}") from None
        if not isinstance(entries, list):
            raise InvalidKeys('the key set has no list "keys"')
        keys = []
        for number, entry in enumerate(entries):
            try:
                keys.append(_import(entry))
            except Exception as error:  # joserfc and cryptography have many
                log.debug("a key is not used number=%d reason=%s", number, error)
        return cls(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def verify(self, token: CompactToken) -> None:
        """Check the signature. Raises UnknownKey if no key fits the token, and InvalidToken."""
        algorithm, key_id = _algorithm(token.header), token.header.get("kid")
        if not isinstance(key_id, str | None):
            raise InvalidToken("the header's kid is no text")
        if key_id is not None and len(key_id) > _MAX_KEY_ID_CHARS:
            raise InvalidToken(f"the header's kid has {len(key_id)} characters: at most {_MAX_KEY_ID_CHARS}")
        if len(token.signature) > _MAX_SIGNATURE_CHARS:
            raise InvalidToken(f"the signature has {len(token.signature)} characters")
        key = next(
            (key for key in self._keys if key_id in (None, key.key_id) and key.verifies(algorithm)), None
        )
        if key is None:
            named = "without a kid" if key_id is None else f"with the kid {key_id[:100]!r}"
            raise UnknownKey(key_id, f"there is no key for a token {named} and the algorithm {algorithm}")
        _verify(token, algorithm, key.key)


def _algorithm(header: JsonObject) -> str:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        shown = repr(algorithm[:20]) if isinstance(algorithm, str) else type(algorithm).__name__
        raise InvalidToken(f"the header's alg is {shown}, expected one of {', '.join(sorted(ALGORITHMS))}")
    if "crit" in header:
        raise InvalidToken("the header has critical extensions (crit), of which none is known")
    return algorithm


def _import(entry: Any) -> _Key:
    """Import a key for signatures. Raises an exception that says why it is not one."""
    if not isinstance(entry, dict):
        raise InvalidKeys("it is no JSON object")
    kind, curve, key_id, algorithm = (entry.get(name) for name in ("kty", "crv", "kid", "alg"))
    if entry.get("use", "sig") != "sig" or "verify" not in entry.get("key_ops", ["verify"]):
        raise InvalidKeys("it is not for verifying signatures")
    if kind not in ("RSA", "EC", "OKP") or (kind != "RSA" and curve not in _SIGNING_CURVES):
        raise InvalidKeys(f"its type is {kind} {curve or ''}")
    if not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        raise InvalidKeys("its kid or alg is no text")
    from joserfc.errors import SecurityWarning
    from joserfc.jwk import JWKRegistry

    # joserfc warns on stderr of each use of EdDSA, because RFC 9864 gives it another name.
    warnings.filterwarnings("ignore", "EdDSA is deprecated", SecurityWarning)
    # Only the key itself: joserfc refuses parameters that it does not know the form of.
    public = {name: entry[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in entry}
    if kind == "RSA" and (bits := int.from_bytes(from_base64url(entry["n"])).bit_length()) < _MIN_RSA_BITS:
        raise InvalidKeys(f"it has {bits} bits, expected at least {_MIN_RSA_BITS}")
    key = JWKRegistry.import_key(public)
    return _Key(key_id, kind, None if kind == "RSA" else curve, algorithm, key)


def _verify(token: CompactToken, algorithm: str, key: Key) -> None:
    from joserfc import jws

    try:
        from_base64url(token.signature)
    except ValueError as error:
        raise InvalidToken(f"the signature cannot be read: {error}") from None
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.header_registry = {}  # as in Kafka, other parameters of the header may have any form
    # `compact` has limited all sizes.
    registry.max_header_length = registry.max_payload_length = registry.max_signature_length = len(token.text)
    try:
        jws.deserialize_compact(token.text, key, registry=registry)
    except Exception as error:  # joserfc has a dozen, and cryptography its own
        raise InvalidToken(f"the signature is not that of the key ({type(error).__name__})") from None
