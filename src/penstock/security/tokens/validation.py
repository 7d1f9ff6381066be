"""Whether a signed token is accepted: the checks of Kafka's BrokerJwtValidator, by its configs' names.

The issuer and one of the audiences must be as expected. A token must say when it was issued and when it
expires, and who its holder is. Times may differ by the clock skew. Kafka accepts tokens of any issuer or
audience if none is configured; here both are required (RFC 8725, sections 3.8 and 3.9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.security.tokens.compact import InvalidToken, JsonObject, parse_compact
from penstock.security.tokens.keys import KeySet

MAX_DATE_S: Final = (2**63 - 1) // 1000
"""The last date that fits into Kafka's milliseconds."""

_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))
"""The characters that String.trim() removes."""

_SHOWN_CHARS: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRules:
    """The claims that a token must have."""

    issuer: str
    """`sasl.oauthbearer.expected.issuer`"""
    audiences: frozenset[str]
    """`sasl.oauthbearer.expected.audience`"""
    scope_claim: str = "scope"
    """`sasl.oauthbearer.scope.claim.name`"""
    principal_claim: str = "sub"
    """`sasl.oauthbearer.sub.claim.name`"""
    clock_skew_s: int = 30
    """`sasl.oauthbearer.clock.skew.seconds`"""


@dataclass(frozen=True, kw_only=True, slots=True)
class BearerToken:
    """The claims of an accepted token about its holder."""

    principal: str
    scopes: frozenset[str]
    expires_at_ms: int
    """When it expires, on the issuer's clock."""
    usable_until_ms: int
    """When a session with it ends. This is later than `expires_at_ms` only if the clock skew saved it."""


def validate(text: str, keys: KeySet, rules: TokenRules, now_ms: int) -> BearerToken:
    """Verify a token and return what it says. Raises InvalidToken, and UnknownKey."""
    token = parse_compact(text)
    keys.verify(token)
    claims = token.claims
    _check_issuer_and_audience(claims, rules)
    expires_s = _check_dates(claims, rules.clock_skew_s, now_ms // 1000)
    for name in ("sub", "jti"):
        _text(claims, name)
    expires_ms = expires_s * 1000
    return BearerToken(
        principal=_filled(rules.principal_claim, _text(claims, rules.principal_claim)),
        scopes=_scopes(claims.get(rules.scope_claim), rules.scope_claim),
        expires_at_ms=expires_ms,
        usable_until_ms=expires_ms if expires_ms > now_ms else expires_ms + rules.clock_skew_s * 1000,
    )


def date_s(claims: JsonObject, name: str) -> int | None:
    """A date, in whole seconds since the epoch; None if the token has none. Raises InvalidToken."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToken(f"{name} is no number")
    try:
        seconds = int(value)
    except OverflowError:
        seconds = MAX_DATE_S + 1
    if not 0 <= seconds <= MAX_DATE_S:
        raise InvalidToken(f"{name} is no date that is known: expected seconds since 1970")
    return seconds


def _check_issuer_and_audience(claims: JsonObject, rules: TokenRules) -> None:
    issuer = _text(claims, "iss")
    if issuer != rules.issuer:
        found = "missing" if issuer is None else repr(issuer[:_SHOWN_CHARS])
        raise InvalidToken(f"the issuer (iss) is {found}, expected {rules.issuer!r}")
    audience = claims.get("aud")
    audiences: Sequence[Any] = audience if isinstance(audience, list) else [audience]
    if audience is None or not all(isinstance(each, str) for each in audiences):
        found = "missing" if audience is None else "neither a text nor a list of texts"
        raise InvalidToken(f"the audience (aud) is {found}")
    if rules.audiences.isdisjoint(audiences):
        expected = ", ".join(sorted(rules.audiences))
        raise InvalidToken(
            f"the audience (aud) is {str(audiences)[:_SHOWN_CHARS]}, expected one of {expected}"
        )


def _check_dates(claims: JsonObject, skew_s: int, now_s: int) -> int:
    """Return when the token expires."""
    expires_s, issued_s, not_before_s = (date_s(claims, name) for name in ("exp", "iat", "nbf"))
    if expires_s is None:
        raise InvalidToken("the token does not say when it expires (exp)")
    if issued_s is None:
        raise InvalidToken("the token does not say when it was issued (iat)")
    if now_s - skew_s >= expires_s:
        raise InvalidToken(f"the token has expired {now_s - expires_s} s ago (clock skew {skew_s} s)")
    if expires_s < max(issued_s, not_before_s or 0):
        raise InvalidToken("the token expires (exp) before it is issued (iat) or valid (nbf)")
    if not_before_s is not None and now_s + skew_s < not_before_s:
        raise InvalidToken(f"the token is valid in {not_before_s - now_s} s (nbf, clock skew {skew_s} s)")
    return expires_s


def _scopes(value: Any, name: str) -> frozenset[str]:
    """The scopes; Kafka takes a text as one scope, spaces included."""
    scopes = [value] if isinstance(value, str) else value
    if not isinstance(scopes, list):
        return frozenset()
    if not all(isinstance(each, str) for each in scopes):
        raise InvalidToken(f"{name} is neither a text nor a list of texts")
    found = [_filled(name, each) for each in scopes]
    if len(set(found)) != len(found):
        raise InvalidToken(f"{name} has a scope twice")
    return frozenset(found)


def _text(claims: JsonObject, name: str) -> str | None:
    value = claims.get(name)
    if not isinstance(value, str | None):
        raise InvalidToken(f"{name} is no text")
    return value


def _filled(name: str, value: str | None) -> str:
    trimmed = (value or "").strip(_JAVA_BLANKS)
    if not trimmed:
        raise InvalidToken(f"{name} is {'missing' if value is None else 'empty'}")
    return trimmed
