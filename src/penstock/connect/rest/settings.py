"""The properties of a worker that concern its REST API."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from penstock.connect.errors import ConfigInvalid
from penstock.connect.rest.cors import DEFAULT_METHODS, Origins
from penstock.connect.rest.response_headers import HeaderRule, parse_rules
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.settings import CLIENT_AUTHENTICATION, AccessSettings
from penstock.security.tls.contexts import client_context
from penstock.security.tls.errors import InvalidTls

DEFAULT_PORT: Final = 8083
_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_HTTPS: Final = "listeners.https."
_ADMIN_HTTPS: Final = "admin.listeners.https."
_REALM: Final = "connect"


class Listener(NamedTuple):
    """A listener: http or https, its host, which is empty for all addresses, and its port."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Listener:
        """Parse the URL of a listener. Raises ConfigInvalid."""
        found = _LISTENER.fullmatch(text)
        if found is None:
            raise ConfigInvalid("Listener doesn't have the right format (protocol://hostname:port).")
        scheme = found[1].lower()
        if scheme not in ("http", "https"):
            raise ConfigInvalid('Listener protocol must be either "http" or "https".')
        return cls(scheme, found[2], int(found[3]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """How a worker serves its REST API.

    Attributes:
        listeners: where the API listens.
        admin_listeners: where the endpoints of loggers listen: None for the listeners of the API, and nowhere
            if it is empty.
        advertised_scheme, advertised_host, advertised_port: where the other workers reach this one, if that
            differs from the listener.
        origins, methods: the origins that may use the API from a browser, and with which methods.
        access: the TLS of the listeners, and the users that may send requests. Kafka Connect has extensions
            for the latter; here they are the properties that all HTTP servers of Penstock share.
    """

    listeners: tuple[Listener, ...] = (Listener("http", "", DEFAULT_PORT),)
    admin_listeners: tuple[Listener, ...] | None = None
    advertised_scheme: str | None = None
    advertised_host: str | None = None
    advertised_port: int | None = None
    origins: Origins | None = None
    methods: tuple[str, ...] = DEFAULT_METHODS
    response_headers: tuple[HeaderRule, ...] = ()
    tracks_topics: bool = True
    may_reset_topics: bool = True
    access: AccessSettings = field(default_factory=AccessSettings)
    admin_access: AccessSettings = field(default_factory=AccessSettings)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], properties: Mapping[str, str]) -> RestSettings:
        """Read the settings from the parsed values of a worker's configuration, and from its properties.

        Raises ConfigInvalid.
        """
        admin = values.get("admin.listeners")
        advertised = values.get("rest.advertised.listener")
        return cls(
            listeners=_listeners(values["listeners"]),
            admin_listeners=None if admin is None else _listeners(admin),
            advertised_scheme=None if advertised is None else advertised.lower(),
            advertised_host=values.get("rest.advertised.host.name") or None,
            advertised_port=values.get("rest.advertised.port"),
            origins=Origins.parse(_words(values.get("access.control.allow.origin"))),
            methods=_words(values.get("access.control.allow.methods")) or DEFAULT_METHODS,
            response_headers=tuple(parse_rules(values.get("response.http.headers.config") or "")),
            tracks_topics=values.get("topic.tracking.enable", True),
            may_reset_topics=values.get("topic.tracking.allow.reset", True),
            access=_access(properties, _HTTPS),
            admin_access=_access(properties, _ADMIN_HTTPS),
        )

    @property
    def advertised_listener(self) -> Listener:
        """The listener of the advertised scheme; by default the first one with http, else with https."""
        scheme = self.advertised_scheme
        if scheme is None:
            scheme = min(each.scheme for each in self.listeners)
        return next((each for each in self.listeners if each.scheme == scheme), self.listeners[0])

    def client_tls(self) -> ssl.SSLContext | None:
        """Return the TLS of requests to other workers, which have listeners with the same settings.

        It is None if nothing is set that concerns it. Raises ConfigInvalid.
        """
        schemes = {self.advertised_scheme, *(listener.scheme for listener in self.listeners)}
        if "https" not in schemes and not self.access.tls.has_trust_store:
            return None
        try:
            return client_context(self.access.tls)
        except InvalidTls as error:
            raise ConfigInvalid(f"the TLS of requests to other workers cannot be used: {error}") from None


def _listeners(texts: Sequence[str]) -> tuple[Listener, ...]:
    return tuple(Listener.parse(text.strip()) for text in texts)


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())


def _access(properties: Mapping[str, str], prefix: str) -> AccessSettings:
    """The settings of listeners. With any ``ssl`` property under the prefix, all are read from there."""
    is_prefixed = any(name.startswith(f"{prefix}ssl.") for name in properties)

    def get(name: str) -> str | None:
        if name == CLIENT_AUTHENTICATION:
            name = "ssl.client.auth"
        return properties.get(f"{prefix}{name}" if is_prefixed and name.startswith("ssl.") else name)

    try:
        return AccessSettings.from_configs(get, realm=_REALM)
    except InvalidAccess as error:
        raise ConfigInvalid(str(error)) from None
