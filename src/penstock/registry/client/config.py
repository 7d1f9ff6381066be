"""The address of a schema registry and how to connect to it, under Confluent's property names."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from penstock.client.security.security_config import SecurityConfig
from penstock.client.settings import (
    ConfigError,
    from_properties,
    one_of,
    property_names,
    resolved,
    setting,
    text,
    whole_number,
)

URL: Final = "schema.registry.url"
TLS_PREFIX: Final = "schema.registry."  # for example schema.registry.ssl.truststore.location
_CONTEXTS: Final = "/contexts/"
_PORTS: Final = {"http": 80, "https": 443}


class RegistryUrl(NamedTuple):
    """A registry's URL without user and password; ``path`` does not end with a slash."""

    scheme: str
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def _user_info(value: str) -> str:
    if ":" not in value:
        raise ValueError("user:password")
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistryConfig:
    """How to reach a registry. It is hashable, so that clients with equal configurations share one cache."""

    urls: tuple[RegistryUrl, ...]
    url_user_info: str | None = setting("", None, text, is_secret=True)  # from the first URL that has one
    credentials_source: str = setting("basic.auth.credentials.source", "url", one_of("url", "user_info"))
    user_info: str | None = setting("basic.auth.user.info", None, _user_info, is_secret=True)
    token_source: str = setting("bearer.auth.credentials.source", "static_token", one_of("static_token"))
    token: str | None = setting("bearer.auth.token", None, text, is_secret=True)
    # These two name the cloud registry and the identity that the token is for.
    logical_cluster: str | None = setting("bearer.auth.logical.cluster", None, text)
    identity_pool: str | None = setting("bearer.auth.identity.pool.id", None, text)
    connect_timeout_ms: int = setting("http.connect.timeout.ms", 10_000, whole_number(1))
    read_timeout_ms: int = setting("http.read.timeout.ms", 30_000, whole_number(1))
    retries_max: int = setting("max.retries", 3, whole_number(0))
    retries_wait_ms: int = setting("retries.wait.ms", 200, whole_number(0))
    retries_wait_max_ms: int = setting("retries.max.wait.ms", 2_000, whole_number(0))
    tls: SecurityConfig = field(default_factory=SecurityConfig)

    @classmethod
    def names(cls) -> frozenset[str]:
        """The full names of all properties."""
        tls = (name for name in property_names(SecurityConfig) if name.startswith("ssl."))
        return (property_names(cls) - {""}) | {URL} | {TLS_PREFIX + name for name in tls}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RegistryConfig:
        """Read the configuration from properties. Raises ConfigError if one is missing or invalid."""
        properties = resolved(properties)
        if URL not in properties:
            raise ConfigError(f"'{URL}' is missing: expected http://host:port[,http://host:port...]")
        urls, of_the_url = _parse_urls(properties[URL])
        tls = {
            name.removeprefix(TLS_PREFIX): value
            for name, value in properties.items()
            if name.startswith(TLS_PREFIX + "ssl.")
        }
        config = from_properties(
            cls,
            {name: value for name, value in properties.items() if name},
            urls=urls,
            url_user_info=of_the_url,
            tls=from_properties(SecurityConfig, tls),
        )
        if config.credentials_source == "user_info" and config.user_info is None:
            raise ConfigError(
                "'basic.auth.credentials.source' is USER_INFO: expected 'basic.auth.user.info' as well"
            )
        if config.token is not None and (config.user_info or config.url_user_info) is not None:
            raise ConfigError("a user with a password and 'bearer.auth.token' exclude each other")
        if config.token is None and "bearer.auth.credentials.source" in properties:
            raise ConfigError(
                "'bearer.auth.credentials.source' is STATIC_TOKEN: expected 'bearer.auth.token' as well"
            )
        return config

    def in_context_of(self, subject: str) -> RegistryConfig:
        """Return the configuration for a subject that may name its context (``:.context:name``).

        Each context has its own schema ids under its own path. A URL that names a context already keeps it.
        """
        context = subject.removeprefix(":").partition(":")[0]
        if not subject.startswith(":.") or context == ".":
            return self
        return replace(
            self,
            urls=tuple(
                url if _CONTEXTS in url.path else url._replace(path=url.path + _CONTEXTS + quote(context))
                for url in self.urls
            ),
        )

    @property
    def identification(self) -> dict[str, str]:
        """The headers that identify the client. A user given by property takes precedence over the URL's."""
        headers = {}
        user_info = self.user_info or self.url_user_info
        if user_info is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(user_info.encode()).decode()
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.logical_cluster is not None:
            headers["target-sr-cluster"] = self.logical_cluster
        if self.identity_pool is not None:
            headers["Confluent-Identity-Pool-Id"] = self.identity_pool
        return headers

    @property
    def urls_text(self) -> str:
        return ",".join(map(str, self.urls))


def _parse_urls(value: str) -> tuple[tuple[RegistryUrl, ...], str | None]:
    urls: list[RegistryUrl] = []
    user_info: str | None = None
    for entry in filter(None, (part.strip() for part in value.split(","))):
        expected = f"'{URL}': expected http://host[:port][,...] or https, found"
        try:
            parts = urlsplit(entry)
            port = parts.port
        except ValueError as problem:
            raise ConfigError(f"{expected} {_without_user(entry)!r} ({problem})") from None
        if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"{expected} {_without_user(entry)!r}")
        if parts.username is not None and user_info is None:
            user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        urls.append(
            RegistryUrl(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], parts.path.rstrip("/"))
        )
    if not urls:
        raise ConfigError(f"'{URL}' is empty: expected http://host:port[,http://host:port...]")
    return tuple(urls), user_info


def _without_user(url: str) -> str:
    """Return the URL without user and password, for use in messages."""
    return url.rpartition("@")[2]
