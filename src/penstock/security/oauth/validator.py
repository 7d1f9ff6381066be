"""Validation of bearer tokens by settings under Kafka's names, for SASL listeners and for HTTP servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, cast

from penstock.security.oauth.errors import InvalidOAuth
from penstock.security.oauth.http import Backoff, Endpoint, parse_endpoint, tls_of_options
from penstock.security.oauth.keys import FileKeys, KeySource, RemoteKeys
from penstock.security.oauth.names import (
    EXPECTED_AUDIENCE,
    EXPECTED_ISSUER,
    JAAS,
    JWKS_URL,
    PRINCIPAL_CLAIM,
    SCOPE_CLAIM,
)
from penstock.security.tls.errors import InvalidTls
from penstock.security.tokens.keys import UnknownKey
from penstock.security.tokens.validation import BearerToken, TokenRules, validate

_CLOCK_SKEW: Final = "sasl.oauthbearer.clock.skew.seconds"
_REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_RETRY_BACKOFF: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
_RETRY_BACKOFF_MAX: Final = "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"

_DEFAULTS: Final[Mapping[str, object]] = {
    SCOPE_CLAIM: "scope",
    PRINCIPAL_CLAIM: "sub",
    _CLOCK_SKEW: 30,
    _REFRESH: 3_600_000,
    _RETRY_BACKOFF: 100,
    _RETRY_BACKOFF_MAX: 10_000,
}


class TokenValidator:
    """Decides about tokens. Calling it takes a fraction of a millisecond and does not wait."""

    def __init__(self, keys: KeySource, rules: TokenRules, clock_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._clock_ms = clock_ms

    def start(self) -> None:
        """Get the issuer's keys; this may block. Raises KeysUnavailable."""
        self._keys.start()

    def close(self) -> None:
        self._keys.close()

    def __call__(self, token: str) -> BearerToken:
        """Verify a token and return what it says. Raises InvalidToken."""
        try:
            return validate(token, self._keys.current(), self._rules, self._clock_ms())
        except UnknownKey as error:
            self._keys.report_missing(error.key_id)
            raise


def read_validator(
    get: Callable[[str], object],
    options: Mapping[str, str],
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> TokenValidator:
    """Create the validator that the settings describe.

    ``get`` returns the parsed value under Kafka's name, None if it is not set. ``options`` are those of the
    login module, with the TLS of the endpoint. Raises InvalidOAuth.
    """

    def value(name: str) -> object:
        found = get(name)
        return _DEFAULTS.get(name) if found is None else found

    def text(name: str, purpose: str) -> str:
        found = str(value(name) or "").strip()
        if not found:
            raise InvalidOAuth(name, f"it is not set: expected {purpose}")
        return found

    url = text(JWKS_URL, "the file: or https: URL of the issuer's keys")
    rules = TokenRules(
        issuer=text(EXPECTED_ISSUER, "the issuer (iss) of the tokens that are accepted"),
        audiences=_audiences(get(EXPECTED_AUDIENCE)),
        scope_claim=text(SCOPE_CLAIM, "the name of a claim"),
        principal_claim=text(PRINCIPAL_CLAIM, "the name of a claim"),
        clock_skew_s=_number(_CLOCK_SKEW, value, at_least=0),
    )
    return TokenValidator(_source(url, value, options), rules, clock_ms)


def _audiences(value: object) -> frozenset[str]:
    audiences = frozenset(filter(None, (str(each).strip() for each in cast(Iterable[object], value or ()))))
    if not audiences:
        raise InvalidOAuth(EXPECTED_AUDIENCE, "it is not set: expected an audience (aud) of the tokens")
    return audiences


def _source(url: str, value: Callable[[str], object], options: Mapping[str, str]) -> KeySource:
    try:
        place = parse_endpoint(url)
    except ValueError as error:
        raise InvalidOAuth(JWKS_URL, str(error)) from None
    if isinstance(place, Path):
        return FileKeys(place)
    try:
        backoff = Backoff(
            _number(_RETRY_BACKOFF, value, at_least=0), _number(_RETRY_BACKOFF_MAX, value, at_least=0)
        )
    except ValueError as expected:
        raise InvalidOAuth(_RETRY_BACKOFF, f"expected {expected} in {_RETRY_BACKOFF_MAX}") from None
    try:
        endpoint = Endpoint(place, tls_of_options(options))
    except InvalidTls as error:
        raise InvalidOAuth(JAAS, str(error)) from None
    return RemoteKeys(place, endpoint.get, _number(_REFRESH, value, at_least=1), backoff)


def _number(name: str, value: Callable[[str], object], *, at_least: int) -> int:
    found = value(name)
    if not isinstance(found, int) or found < at_least:
        raise InvalidOAuth(name, f"found {found}, expected a whole number from {at_least} on")
    return found
