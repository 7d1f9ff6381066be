"""A client's login by OAUTHBEARER, as settings under Kafka's names describe it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from penstock.security.oauth.assertions import AssertionSettings
from penstock.security.oauth.errors import InvalidOAuth
from penstock.security.oauth.grants import AssertionGrant, ClientAssertion, ClientSecret, GrantedToken
from penstock.security.oauth.http import Backoff, Endpoint, parse_endpoint, tls_of_options
from penstock.security.oauth.names import (
    ASSERTION_RETRIEVER,
    DEFAULT_RETRIEVER,
    FILE_RETRIEVER,
    JAAS,
    LOGIN_HANDLER,
    LOGIN_HANDLERS,
    PRINCIPAL_CLAIM,
    RETRIEVER,
    RETRIEVERS,
    TOKEN_URL,
    UNSECURED_LOGIN,
)
from penstock.security.oauth.tokens import FileToken, KeptToken, RefreshRules
from penstock.security.sasl.clients import BearerLogin, parse_extensions
from penstock.security.tls.errors import InvalidTls
from penstock.security.tokens.unsecured import has_login_claims, unsecured_token

_SCOPE: Final = "sasl.oauthbearer.scope"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"


class OAuthLogin:
    """The login of a client with a bearer token. Thread-safe."""

    def __init__(self, token: Callable[[], str], extensions: tuple[tuple[str, str], ...]) -> None:
        self._token = token
        self._extensions = extensions

    def __call__(self) -> BearerLogin:
        """Return the login; it blocks while a token is fetched. Raises TokenUnavailable."""
        return BearerLogin(self._token(), self._extensions)


def read_login(get: Callable[[str], object], options: Mapping[str, str]) -> OAuthLogin:
    """Create the login that the settings describe.

    ``get`` returns the parsed value under Kafka's name, None if it is not set. ``options`` are those of the
    login module. Raises InvalidOAuth.
    """
    try:
        extensions = parse_extensions(options)
    except ValueError as expected:
        raise InvalidOAuth(JAAS, f"expected {expected}") from None
    return OAuthLogin(_Reader(get, options).token(), extensions)


class _Reader:
    """The settings of one login."""

    def __init__(self, get: Callable[[str], object], options: Mapping[str, str]) -> None:
        self._get = get
        self._options = options

    def token(self) -> Callable[[], str]:
        handler, retriever = self._text(LOGIN_HANDLER), self._text(RETRIEVER) or DEFAULT_RETRIEVER
        for name, value, known in (
            (LOGIN_HANDLER, handler, LOGIN_HANDLERS),
            (RETRIEVER, retriever, RETRIEVERS),
        ):
            if value is not None and value not in known:
                expected = ", ".join(known)
                raise InvalidOAuth(name, f"found {value}, expected one of {expected}; no class is loaded")
        url = self._text(TOKEN_URL)
        if handler == UNSECURED_LOGIN or (url is None and has_login_claims(self._options)):
            return self._unsecured()
        if url is None:
            raise InvalidOAuth(TOKEN_URL, "it is not set: expected the file: or https: URL of tokens")
        try:
            place = parse_endpoint(url)
        except ValueError as error:
            raise InvalidOAuth(TOKEN_URL, str(error)) from None
        principal_claim = self._text(PRINCIPAL_CLAIM) or "sub"
        if isinstance(place, Path):
            if retriever not in (DEFAULT_RETRIEVER, FILE_RETRIEVER):
                raise InvalidOAuth(TOKEN_URL, f"found {url}, expected an https: URL for {retriever}")
            return FileToken(place, principal_claim)
        if retriever == FILE_RETRIEVER:
            raise InvalidOAuth(TOKEN_URL, f"found {url}, expected a file: URL for {retriever}")
        granted = GrantedToken(self._endpoint(place), self._grant(retriever), self._backoff())
        return KeptToken(granted, self._refresh_rules(), principal_claim)

    def _unsecured(self) -> Callable[[], str]:
        def token() -> str:
            return unsecured_token(self._options, time.time_ns() // 1_000_000)

        try:
            token()
        except ValueError as error:
            raise InvalidOAuth(JAAS, str(error)) from None
        return token

    def _grant(self, retriever: str) -> ClientSecret | ClientAssertion | AssertionGrant:
        scope = self._text(_SCOPE) or self._options.get("scope", "").strip() or None
        if retriever == ASSERTION_RETRIEVER:
            return AssertionGrant(assertion=self._assertion(), scope=scope)
        client_id = self._text(_CLIENT_ID) or self._options.get("clientId", "").strip()
        if any(map(self._text, ("sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.claim.iss"))):
            return ClientAssertion(assertion=self._assertion(), client_id=client_id or None, scope=scope)
        secret = self._text(_CLIENT_SECRET) or self._options.get("clientSecret", "").strip()
        for name, value in ((_CLIENT_ID, client_id), (_CLIENT_SECRET, secret)):
            if not value:
                raise InvalidOAuth(name, f"it is not set: expected it for {TOKEN_URL}")
        is_encoded = bool(self._get("sasl.oauthbearer.header.urlencode"))
        return ClientSecret(client_id=client_id, secret=secret, scope=scope, is_url_encoded=is_encoded)

    def _assertion(self) -> AssertionSettings:
        settings = AssertionSettings(
            file=self._text("sasl.oauthbearer.assertion.file"),
            algorithm=(self._text("sasl.oauthbearer.assertion.algorithm") or "RS256").upper(),
            private_key_file=self._text("sasl.oauthbearer.assertion.private.key.file"),
            passphrase=self._text("sasl.oauthbearer.assertion.private.key.passphrase"),
            template_file=self._text("sasl.oauthbearer.assertion.template.file"),
            audience=self._text("sasl.oauthbearer.assertion.claim.aud"),
            issuer=self._text("sasl.oauthbearer.assertion.claim.iss"),
            subject=self._text("sasl.oauthbearer.assertion.claim.sub"),
            lifetime_s=self._number("sasl.oauthbearer.assertion.claim.exp.seconds", 300),
            not_before_s=self._number("sasl.oauthbearer.assertion.claim.nbf.seconds", 60),
            has_id=bool(self._get("sasl.oauthbearer.assertion.claim.jti.include")),
        )
        if settings.file is None and settings.private_key_file is None:
            name = "sasl.oauthbearer.assertion.private.key.file"
            raise InvalidOAuth(name, "it is not set: expected it, or sasl.oauthbearer.assertion.file")
        return settings

    def _endpoint(self, url: str) -> Endpoint:
        limits_ms = (
            self._number("sasl.login.connect.timeout.ms", 0),
            self._number("sasl.login.read.timeout.ms", 0),
        )
        try:
            tls = tls_of_options(self._options)
        except InvalidTls as error:
            raise InvalidOAuth(JAAS, str(error)) from None
        return Endpoint(url, tls, max(limits_ms) / 1000) if any(limits_ms) else Endpoint(url, tls)

    def _backoff(self) -> Backoff:
        name = "sasl.login.retry.backoff.ms"
        try:
            return Backoff(self._number(name, 100), self._number("sasl.login.retry.backoff.max.ms", 10_000))
        except ValueError as expected:
            raise InvalidOAuth(name, f"expected {expected}") from None

    def _refresh_rules(self) -> RefreshRules:
        return RefreshRules(
            window_factor=self._share("sasl.login.refresh.window.factor", 0.8),
            window_jitter=self._share("sasl.login.refresh.window.jitter", 0.05),
            min_period_s=self._number("sasl.login.refresh.min.period.seconds", 60),
            buffer_s=self._number("sasl.login.refresh.buffer.seconds", 300),
        )

    def _text(self, name: str) -> str | None:
        value = self._get(name)
        return None if value is None else str(value).strip() or None

    def _number(self, name: str, default: int) -> int:
        value = self._get(name)
        return value if isinstance(value, int) else default

    def _share(self, name: str, default: float) -> float:
        value = self._get(name)
        return float(value) if isinstance(value, int | float) else default
