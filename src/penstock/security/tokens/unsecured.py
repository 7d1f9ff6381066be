"""Tokens without a signature, which everybody can make: Kafka's unsecured validator and login, for tests.

A listener accepts them only if its configuration names the validator's class. The options stand in the login
settings, under Kafka's names: ``unsecuredValidator…`` on the server, ``unsecuredLogin…`` on the client.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.security.tokens.compact import InvalidToken, JsonObject, parse_compact
from penstock.security.tokens.validation import MAX_DATE_S, BearerToken

_OPTION: Final = "unsecuredValidator"
_LOGIN_OPTION: Final = "unsecuredLogin"
_LIFETIME_S: Final = 3600
_DATES: Final = ("iat", "exp")


class InsufficientScope(InvalidToken):
    """The token lacks a scope. ``required`` are all that are required."""

    def __init__(self, required: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.required = required


@dataclass(frozen=True, kw_only=True, slots=True)
class UnsecuredRules:
    """The claims that a token must have."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> UnsecuredRules:
        """Read the options of the login module. Raises ValueError, which names the option."""

        def option(name: str, default: str) -> str:
            return options.get(_OPTION + name, "").strip() or default

        skew = option("AllowableClockSkewMs", "0")
        if not skew.isascii() or not skew.isdigit():
            raise ValueError(f"{_OPTION}AllowableClockSkewMs is {skew!r}: expected a whole number from 0 on")
        return cls(
            principal_claim=option("PrincipalClaimName", "sub"),
            scope_claim=option("ScopeClaimName", "scope"),
            required_scopes=tuple(option("RequiredScope", "").split()),
            clock_skew_ms=int(skew),
        )


def validate_unsecured(text: str, rules: UnsecuredRules, now_ms: int) -> BearerToken:
    """Read a token and return what it says. Raises InvalidToken, and InsufficientScope."""
    token = parse_compact(text)
    if token.header.get("alg") != "none":
        raise InvalidToken("an unsecured token must have 'none' for an algorithm")
    if token.signature:
        raise InvalidToken("an unsecured token must not have a signature")
    principal = token.claims.get(rules.principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise InvalidToken(f"{rules.principal_claim} is no text with a name")
    issued_ms, expires_ms = (_date_ms(token.claims, name) for name in _DATES)
    if expires_ms is None:
        raise InvalidToken("the token does not say when it expires (exp)")
    if now_ms - rules.clock_skew_ms >= expires_ms:
        raise InvalidToken("the token has expired")
    if issued_ms is not None and (issued_ms > now_ms + rules.clock_skew_ms or expires_ms <= issued_ms):
        raise InvalidToken("the token was issued (iat) in the future, or after it expires (exp)")
    scopes = _scopes(token.claims.get(rules.scope_claim), rules.scope_claim)
    if not scopes.issuperset(rules.required_scopes):
        missing = sorted(set(rules.required_scopes) - scopes)
        raise InsufficientScope(rules.required_scopes, f"the token lacks the scopes {', '.join(missing)}")
    return BearerToken(
        principal=principal,
        scopes=scopes,
        expires_at_ms=round(expires_ms),
        usable_until_ms=round(expires_ms if expires_ms > now_ms else expires_ms + rules.clock_skew_ms),
    )


def has_login_claims(options: Mapping[str, str]) -> bool:
    """Whether options of a login module describe a token without a signature."""
    return any(name.startswith(_LOGIN_OPTION) for name in options)


def unsecured_token(options: Mapping[str, str], now_ms: int) -> str:
    """Make the token that options of a login module describe. Raises ValueError, which names the option."""
    lifetime = options.get(f"{_LOGIN_OPTION}LifetimeSeconds", str(_LIFETIME_S))
    if not lifetime.isascii() or not lifetime.isdigit():
        raise ValueError(f"{_LOGIN_OPTION}LifetimeSeconds: expected a whole number")
    claims: dict[str, object] = {"exp": now_ms / 1000 + int(lifetime), "iat": now_ms / 1000}
    for option, value in options.items():
        kind, _, name = option.removeprefix(_LOGIN_OPTION).partition("Claim_")
        if not option.startswith(_LOGIN_OPTION) or not name:
            continue
        if name in _DATES:
            raise ValueError(f"{option}: a login sets this claim itself")
        if kind == "Number":
            claims[name] = float(value)
        else:
            claims[name] = value[1:].split(value[:1]) if kind == "List" and len(value) > 1 else value
    principal_claim = options.get(f"{_LOGIN_OPTION}PrincipalClaimName", "").strip() or "sub"
    if not claims.get(principal_claim):
        raise ValueError(f"expected {_LOGIN_OPTION}StringClaim_{principal_claim}")
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    return "".join(base64.urlsafe_b64encode(part).decode().rstrip("=") + "." for part in parts)


def _date_ms(claims: JsonObject, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_DATE_S:
        raise InvalidToken(f"{name} is no number that is a date")
    return float(value) * 1000


def _scopes(value: Any, name: str) -> frozenset[str]:
    if isinstance(value, str):
        value = [value]
    if value is not None and not isinstance(value, list):
        raise InvalidToken(f"{name} is neither a text nor a list")
    return frozenset(each.strip() for each in map(str, value or ()) if each.strip())
