"""The listener of an instance: address, TLS and authentication, under Confluent's configuration names.

There is one listener. `security.access.settings` has the names that all HTTP servers share.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.client.security.security_config import SecurityConfig
from penstock.client.settings import ConfigError, from_properties, one_of, setting, text
from penstock.security.access.access import Access
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.settings import AccessSettings
from penstock.web.listeners import Listener

DEFAULT_PORT: Final = 8081
_REALM: Final = "schema-registry"


def _listener(value: str) -> str:
    Listener.parse(value)
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class ListenerConfig:
    """The listener's properties. ``tls`` is the TLS with which the instance connects to others."""

    listener: str = setting("listeners", f"http://127.0.0.1:{DEFAULT_PORT}", _listener)
    inter_instance: str | None = setting("inter.instance.protocol", None, one_of("http", "https"))
    advertised: str | None = setting("host.name", None, text)
    tls: SecurityConfig = field(default_factory=SecurityConfig)
    access_settings: AccessSettings = field(default_factory=AccessSettings)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ListenerConfig:
        """Read the configuration from properties. Raises ConfigError if they contradict each other."""
        tls = {name: value for name, value in properties.items() if name.startswith("ssl.")}
        try:
            access = AccessSettings.from_configs(properties.get, realm=_REALM)
        except InvalidAccess as error:
            raise ConfigError(str(error)) from None
        of_client = from_properties(SecurityConfig, tls)
        config = from_properties(cls, properties, tls=of_client, access_settings=access)
        if config.inter_instance not in (None, config.scheme):
            told = f"'inter.instance.protocol' is {config.inter_instance}"
            raise ConfigError(f"{told}, and 'listeners' has only {config.scheme}")
        return config

    @property
    def scheme(self) -> str:
        return Listener.parse(self.listener).scheme

    @property
    def host(self) -> str:
        return Listener.parse(self.listener).host

    @property
    def port(self) -> int:
        found = Listener.parse(self.listener).port
        return DEFAULT_PORT if found is None else found

    def tls_context(self) -> ssl.SSLContext | None:
        """Build the server's TLS context; None without TLS. Raises ConfigError if a store is missing."""
        if self.scheme == "http":
            return None
        try:
            return self.access_settings.tls_context()
        except InvalidAccess as error:
            raise ConfigError(f"'listeners' has https: {error}") from None

    def access(self) -> Access:
        """Load the users that may send requests. Raises ConfigError if their file is invalid."""
        try:
            return self.access_settings.access(is_tls=self.scheme == "https", takes_prefixes=True)
        except InvalidAccess as error:
            raise ConfigError(str(error)) from None

    @property
    def is_guarded(self) -> bool:
        """Whether every client shows a password or a certificate."""
        return self.access_settings.is_guarded(is_tls=self.scheme == "https")
