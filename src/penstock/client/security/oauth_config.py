"""Logins by OAUTHBEARER, under the property names of Kafka's Java clients (KIP-768, KIP-1139).

A token comes from the endpoint or the file of ``sasl.oauthbearer.token.endpoint.url``. The TLS of the
endpoint has its settings among the options of ``sasl.jaas.config``, as in Kafka; without them the system's
certificate authorities are trusted. Spark executors get the properties, and fetch tokens themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.client.settings import ConfigError, boolean, setting, text, whole_number
from penstock.security.oauth.errors import InvalidOAuth
from penstock.security.oauth.names import (
    DEFAULT_RETRIEVER,
    LOGIN_HANDLER,
    LOGIN_HANDLERS,
    MODULE,
    PRINCIPAL_CLAIM,
    RETRIEVER,
    RETRIEVERS,
    SCOPE_CLAIM,
    TOKEN_URL,
)
from penstock.security.sasl.jaas import parse_jaas

if TYPE_CHECKING:
    from penstock.security.oauth.login import OAuthLogin


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return value

    return parse


def _share(lowest: float, highest: float) -> Callable[[str], float]:
    def parse(value: str) -> float:
        try:
            share = float(value)
        except ValueError:
            share = -1.0
        if not lowest <= share <= highest:
            raise ValueError(f"a number from {lowest} to {highest}")
        return share

    return parse


def _algorithm(value: str) -> str:
    return _one_of(("ES256", "RS256"))(value.upper())


@dataclass(frozen=True, kw_only=True, slots=True)
class OAuthConfig:
    """Settings of OAUTHBEARER alone. Hashable; ``repr`` does not show secrets."""

    token_url: str | None = setting(TOKEN_URL, None, text)
    login_handler: str | None = setting(LOGIN_HANDLER, None, _one_of(LOGIN_HANDLERS))
    retriever: str = setting(RETRIEVER, DEFAULT_RETRIEVER, _one_of(RETRIEVERS))
    client_credentials_id: str | None = setting("sasl.oauthbearer.client.credentials.client.id", None, text)
    client_secret: str | None = setting(
        "sasl.oauthbearer.client.credentials.client.secret", None, text, is_secret=True
    )
    scope: str | None = setting("sasl.oauthbearer.scope", None, text)
    header_urlencode: bool = setting("sasl.oauthbearer.header.urlencode", False, boolean)
    scope_claim: str = setting(SCOPE_CLAIM, "scope", text)
    principal_claim: str = setting(PRINCIPAL_CLAIM, "sub", text)
    assertion_file: str | None = setting("sasl.oauthbearer.assertion.file", None, text)
    assertion_algorithm: str = setting("sasl.oauthbearer.assertion.algorithm", "RS256", _algorithm)
    assertion_key_file: str | None = setting("sasl.oauthbearer.assertion.private.key.file", None, text)
    assertion_passphrase: str | None = setting(
        "sasl.oauthbearer.assertion.private.key.passphrase", None, text, is_secret=True
    )
    assertion_template: str | None = setting("sasl.oauthbearer.assertion.template.file", None, text)
    assertion_audience: str | None = setting("sasl.oauthbearer.assertion.claim.aud", None, text)
    assertion_issuer: str | None = setting("sasl.oauthbearer.assertion.claim.iss", None, text)
    assertion_subject: str | None = setting("sasl.oauthbearer.assertion.claim.sub", None, text)
    assertion_lifetime_s: int = setting(
        "sasl.oauthbearer.assertion.claim.exp.seconds", 300, whole_number(0, 86_400)
    )
    assertion_not_before_s: int = setting(
        "sasl.oauthbearer.assertion.claim.nbf.seconds", 60, whole_number(0, 3_600)
    )
    assertion_has_id: bool = setting("sasl.oauthbearer.assertion.claim.jti.include", False, boolean)
    login_connect_timeout_ms: int = setting("sasl.login.connect.timeout.ms", 0, whole_number(0))
    login_read_timeout_ms: int = setting("sasl.login.read.timeout.ms", 0, whole_number(0))
    login_backoff_ms: int = setting("sasl.login.retry.backoff.ms", 100, whole_number(0))
    login_backoff_max_ms: int = setting("sasl.login.retry.backoff.max.ms", 10_000, whole_number(0))
    login_window_factor: float = setting("sasl.login.refresh.window.factor", 0.8, _share(0.5, 1.0))
    login_window_jitter: float = setting("sasl.login.refresh.window.jitter", 0.05, _share(0.0, 0.25))
    login_min_period_s: int = setting("sasl.login.refresh.min.period.seconds", 60, whole_number(0, 900))
    login_buffer_s: int = setting("sasl.login.refresh.buffer.seconds", 300, whole_number(0, 3_600))

    def of_oauth(self) -> OAuthConfig:
        """The settings of OAUTHBEARER, without those of a class that has more."""
        return OAuthConfig(**{f.name: getattr(self, f.name) for f in fields(OAuthConfig)})

    def by_name(self) -> Mapping[str, object]:
        """The values under Kafka's names."""
        return {f.metadata["name"]: getattr(self, f.name) for f in fields(OAuthConfig)}


@lru_cache(maxsize=16)
def token_login(config: OAuthConfig, jaas: str | None) -> OAuthLogin:
    """The login of these settings, made once for each configuration: all connections share its token.

    Raises ConfigError.
    """
    from penstock.security.oauth.login import read_login  # imported only where it is needed

    options: Mapping[str, str] = {}
    if jaas is not None:
        try:
            module = parse_jaas(jaas)
        except ValueError:
            module = None
        if module is None or module.name != MODULE:
            raise ConfigError(f"invalid value for 'sasl.jaas.config': expected '{MODULE} required …;'")
        options = module.options
    try:
        return read_login(config.by_name().get, options)
    except InvalidOAuth as error:
        raise ConfigError(f"invalid login by OAUTHBEARER: {error}") from None
