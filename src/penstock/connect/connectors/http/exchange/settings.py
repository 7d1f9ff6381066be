"""The keys for authorization and TLS that connectors for HTTP share, and the client that they describe."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.connect.connectors.http.exchange.authorization import (
    FixedAuthorization,
    TokenSettings,
    basic,
)
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import CaseInsensitiveValidString
from penstock.connect.errors import ConfigInvalid
from penstock.security.tls.contexts import client_context
from penstock.security.tls.errors import InvalidTls
from penstock.security.tls.settings import TlsSettings

_TOKEN_URL: Final = "oauth2.access.token.url"
_STORES: Final = {
    "ssl.truststore.location": "A file with the certificates of authorities; by default the system's.",
    "ssl.truststore.password": "The password of the truststore.",
    "ssl.truststore.type": "PEM, PKCS12 or JKS.",
    "ssl.keystore.location": "A file with the client's certificate and key.",
    "ssl.keystore.password": "The password of the keystore.",
    "ssl.keystore.type": "PEM, PKCS12 or JKS.",
    "ssl.key.password": "The password of the key.",
}


def define_authorization(definition: ConfigDef, type_key: str, default: Any) -> ConfigDef:
    """Add the keys for credentials, where `type_key` chooses the kind."""
    definition.define(
        type_key,
        ConfigType.STRING,
        default,
        CaseInsensitiveValidString("none", "static", "basic", "bearer", "oauth2"),
        Importance.HIGH,
        "The kind of credentials in each request.",
    )
    for name, type_, of_key, doc in (
        ("http.headers.authorization", ConfigType.PASSWORD, None, "static: the Authorization header."),
        ("http.auth.user", ConfigType.STRING, None, "basic: the user."),
        ("http.auth.password", ConfigType.PASSWORD, None, "basic: the password."),
        ("http.auth.token", ConfigType.PASSWORD, None, "bearer: the token."),
        (_TOKEN_URL, ConfigType.STRING, None, "oauth2: where access tokens are fetched."),
        ("oauth2.client.id", ConfigType.STRING, None, "oauth2: the client's name."),
        ("oauth2.client.secret", ConfigType.PASSWORD, None, "oauth2: the client's secret."),
        ("oauth2.client.scope", ConfigType.STRING, None, "oauth2: the scope of tokens."),
        ("oauth2.response.token.property", ConfigType.STRING, "access_token", "oauth2: the token's name."),
    ):
        definition.define(name, type_, of_key, doc=doc)
    return definition.define(
        "oauth2.client.authorization.mode",
        ConfigType.STRING,
        "HEADER",
        CaseInsensitiveValidString("HEADER", "URL"),
        doc="oauth2: whether a header or the form carries the client's name and secret.",
    )


def define_tls(definition: ConfigDef) -> ConfigDef:
    """Add the keys for TLS."""
    for name, doc in _STORES.items():
        secret = name.endswith("password")
        definition.define(name, ConfigType.PASSWORD if secret else ConfigType.STRING, None, doc=doc)
    return definition.define(
        "http.ssl.trust.all.certs",
        ConfigType.BOOLEAN,
        False,
        doc="Whether any certificate of the server is accepted. For tests only.",
    )


def authorization_of(config: Mapping[str, Any], type_key: str) -> FixedAuthorization | TokenSettings:
    """Return the credentials of a configuration. Raises ConfigInvalid if a key is missing."""

    def needed(name: str) -> str:
        value = config[name]
        if value is None:
            raise ConfigInvalid(f"{name} is missing: {type_key} is {config[type_key]}")
        return str(getattr(value, "value", value))

    match config[type_key].lower():
        case "static":
            return FixedAuthorization(needed("http.headers.authorization"))
        case "basic":
            return FixedAuthorization(basic(needed("http.auth.user"), needed("http.auth.password")))
        case "bearer":
            return FixedAuthorization(f"Bearer {needed('http.auth.token')}")
        case "oauth2":
            return TokenSettings(
                url=needed(_TOKEN_URL),
                client_id=needed("oauth2.client.id"),
                secret=needed("oauth2.client.secret"),
                in_form=config["oauth2.client.authorization.mode"].upper() == "URL",
                scope=config["oauth2.client.scope"],
                property=config["oauth2.response.token.property"],
            )
    return FixedAuthorization()


def tls_of(config: Mapping[str, Any], *urls: str) -> ssl.SSLContext | None:
    """Return the TLS context of a configuration; None if neither these URLs nor that of tokens need one.

    Reading the system's certificate authorities takes longer than all else that a task does at its start.

    Raises:
        ConfigInvalid: a store cannot be read.
    """
    if not any(url.lower().startswith("https:") for url in (*urls, config.get(_TOKEN_URL) or "")):
        return None

    def text(name: str) -> str | None:
        value = config.get(name)
        return None if value is None else str(getattr(value, "value", value))

    try:
        context = client_context(
            TlsSettings.from_configs(lambda name: text(name) if name in _STORES else None, store_type=None)
        )
    except InvalidTls as error:
        raise ConfigInvalid(f"TLS cannot be set up: {error}") from error
    if config["http.ssl.trust.all.certs"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def http_url(name: str, value: Any) -> None:
    """Accept only URLs of HTTP (a validator of configurations).

    A URL may be a template, but not in its host: records must not choose the server. Nor may it have a
    password, which would be shown in messages and would not be sent.
    """
    for each in value if isinstance(value, list) else [value]:
        try:
            parts = urlsplit(each or "")
            is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
            is_url = is_http and not any(each in parts.netloc for each in "$@")
        except ValueError:
            is_url = False
        if not is_url:
            raise invalid(name, each, "expected a URL with http:// or https://, a fixed host and no password")


def named_headers(name: str, value: Any) -> None:
    """Accept only lists of `name:value` (a validator of configurations)."""
    for each in value:
        header, colon, _ = each.partition(":")
        if not colon or not header.strip():
            raise invalid(name, each, "expected header:value")


def headers_of(pairs: list[str]) -> dict[str, str]:
    """Return headers by their names in lower case, from a list of `name:value`."""
    split = (each.partition(":") for each in pairs)
    return {header.strip().lower(): value.strip() for header, _, value in split}
