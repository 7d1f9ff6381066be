"""Assertions: tokens that a client signs itself to prove to the issuer who it is (RFC 7523, KIP-1139)."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.security.oauth.errors import TokenUnavailable
from penstock.security.tokens.compact import InvalidToken, parse_compact

_KEY_TYPES: Final = {"RS256": "RSA", "ES256": "EC"}


@dataclass(frozen=True, kw_only=True, slots=True)
class AssertionSettings:
    """How assertions are made, under the names of Kafka's ``sasl.oauthbearer.assertion.…``."""

    file: str | None = None
    algorithm: str = "RS256"
    private_key_file: str | None = None
    passphrase: str | None = field(default=None, repr=False)
    template_file: str | None = None
    audience: str | None = None
    issuer: str | None = None
    subject: str | None = None
    lifetime_s: int = 300
    not_before_s: int = 60
    has_id: bool = False


def assertion(settings: AssertionSettings, clock_s: Callable[[], float] = time.time) -> str:
    """Make an assertion, or read the one in the file. Raises TokenUnavailable."""
    try:
        if settings.file is not None:
            return parse_compact(Path(settings.file).read_text()).text
        return _signed(settings, int(clock_s()))
    except InvalidToken as error:
        raise TokenUnavailable(f"the assertion in {settings.file} is no token: {error}") from None
    except OSError as error:
        raise TokenUnavailable(f"an assertion cannot be made: {error}") from None


def _signed(settings: AssertionSettings, now_s: int) -> str:
    from joserfc import jws

    key = _private_key(settings)
    header, claims = _template(settings.template_file)
    named = {"aud": settings.audience, "iss": settings.issuer, "sub": settings.subject}
    claims = {name: text for name, text in named.items() if text is not None} | claims
    claims |= {"iat": now_s, "exp": now_s + settings.lifetime_s, "nbf": now_s - settings.not_before_s}
    if settings.has_id:
        claims["jti"] = str(uuid.uuid4())
    header |= {"alg": settings.algorithm, "typ": "JWT"}
    registry = jws.JWSRegistry(algorithms=[settings.algorithm], strict_check_header=False)
    return jws.serialize_compact(header, json.dumps(claims), key, registry=registry)


def _private_key(settings: AssertionSettings) -> Any:
    """The key that signs; of joserfc, which is imported late."""
    from joserfc.jwk import JWKRegistry

    path = settings.private_key_file
    assert path is not None, "it is checked with the settings"
    password = settings.passphrase
    try:
        from cryptography.hazmat.primitives import serialization as pem

        private = pem.load_pem_private_key(Path(path).read_bytes(), password.encode() if password else None)
        plain = private.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
        return JWKRegistry.import_key(plain, _KEY_TYPES[settings.algorithm])
    except OSError:
        raise
    except Exception as error:  # cryptography and joserfc have a dozen; their messages show no keys
        kind = _KEY_TYPES[settings.algorithm]
        raise TokenUnavailable(
            f"the key in {path} cannot be used: expected an {kind} key in PEM form for {settings.algorithm} "
            f"({type(error).__name__})"
        ) from None


def _template(file: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims in a template file: a JSON object of ``header`` and ``payload``."""
    if file is None:
        return {}, {}
    try:
        parts = json.loads(Path(file).read_text())
        return dict(parts.get("header", {})), dict(parts.get("payload", {}))
    except (ValueError, TypeError, AttributeError):
        raise TokenUnavailable(
            f"the template {file} cannot be read: expected a JSON object of header and payload"
        ) from None
