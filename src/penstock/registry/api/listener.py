"""The listener of an instance: address, TLS and authentication, under Confluent's configuration names.

There is one listener. Keys and certificates are in PEM or PKCS12 files, as for clients
(`client.security.security_config`).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

from penstock.client.security.security_config import SecurityConfig
from penstock.client.settings import ConfigError, from_properties, one_of, setting, text
from penstock.security.tls.contexts import server_context
from penstock.security.tls.errors import InvalidTls
from penstock.security.tls.settings import CLIENT_AUTH
from penstock.web.authentication import Users

DEFAULT_PORT: Final = 8081


def _listener(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_one = parts.port is None or "," not in value
    except ValueError:
        is_one = False
    if not is_one or parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise ValueError("one http://HOST:PORT or https://HOST:PORT")
    return value


def _names(value: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in value.split(","))))


@dataclass(frozen=True, kw_only=True, slots=True)
class ListenerConfig:
    """The listener's properties.

    ``tls`` holds the properties that begin with ``ssl.``. ``users_file`` names a file whose lines are ``user:
    password[,role…]``.
    """

    listener: str = setting("listeners", f"http://127.0.0.1:{DEFAULT_PORT}", _listener)
    inter_instance: str | None = setting("inter.instance.protocol", None, one_of("http", "https"))
    clients: str = setting("ssl.client.authentication", "none", one_of(*CLIENT_AUTH))
    advertised: str | None = setting("host.name", None, text)
    method: str = setting("authentication.method", "none", one_of("none", "basic"))
    roles: tuple[str, ...] = setting("authentication.roles", ("*",), _names)
    realm: str = setting("authentication.realm", "schema-registry", text)
    users_file: str | None = setting("penstock.authentication.users", None, text)
    tls: SecurityConfig = field(default_factory=SecurityConfig)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ListenerConfig:
        """Read the configuration from properties. Raises ConfigError if they contradict each other."""
        tls = {name: value for name, value in properties.items() if name.startswith("ssl.")}
        config = from_properties(cls, properties, tls=from_properties(SecurityConfig, tls))
        if config.inter_instance not in (None, config.scheme):
            told = f"'inter.instance.protocol' is {config.inter_instance}"
            raise ConfigError(f"{told}, and 'listeners' has only {config.scheme}")
        if (config.method == "basic") != (config.users_file is not None):
            raise ConfigError(
                "'authentication.method' BASIC and 'penstock.authentication.users' go together: found one of "
                "them"
            )
        return config

    @property
    def scheme(self) -> str:
        return urlsplit(self.listener).scheme

    @property
    def host(self) -> str:
        return urlsplit(self.listener).hostname or ""

    @property
    def port(self) -> int:
        found = urlsplit(self.listener).port
        return DEFAULT_PORT if found is None else found

    def tls_context(self) -> ssl.SSLContext | None:
        """Build the server's TLS context; None without TLS. Raises ConfigError if a store is missing."""
        if self.scheme == "http":
            return None
        settings = replace(self.tls.tls_settings, client_auth=self.clients)
        if not settings.has_key_store:
            raise ConfigError("'listeners' has https: expected 'ssl.keystore.location' as well")
        if self.clients != "none" and not settings.has_trust_store:
            told = f"'ssl.client.authentication' is {self.clients.upper()}"
            raise ConfigError(f"{told}: expected 'ssl.truststore.location' as well")
        try:
            return server_context(settings)
        except InvalidTls as error:
            raise ConfigError(str(error)) from None

    def users(self) -> Users | None:
        """Load the users that may send requests; None allows everybody.

        Raises ConfigError if the file is invalid.
        """
        if self.users_file is None:
            return None
        try:
            return Users.read(self.users_file, self.roles, self.realm)
        except ValueError as error:
            raise ConfigError(f"'penstock.authentication.users': {error}") from None
