"""Access to a server of views, and how its nodes identify themselves to each other.

The properties have the names of Confluent's servers (`security.access.settings`). With a key, a node speaks
HTTPS, to other nodes too: it trusts its trust store, and shows them its own certificate. Where clients need a
password, a node sends that of the user in `basic.auth.user.info`.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.client.settings import ConfigError, resolved
from penstock.security.access.access import Access
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.roles import Role
from penstock.security.access.settings import AccessSettings, open_paths
from penstock.security.tls.contexts import client_context
from penstock.security.tls.errors import InvalidTls
from penstock.security.tls.stores import Stores
from penstock.views.forwarding import Forwarder, Header
from penstock.web.tls import offer

USER_INFO: Final = "basic.auth.user.info"
_REALM: Final = "views"
_PROBE: Final = "/health/ready"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerAccess:
    """The clients that a node serves, and its own credentials at the others."""

    access: Access
    open_paths: re.Pattern[str]
    is_guarded: bool
    tls: ssl.SSLContext | None
    forwarder: Forwarder

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ServerAccess:
        """Read the properties of the server. Raises ConfigError."""
        properties = resolved(properties)
        try:
            settings = AccessSettings.from_configs(properties.get, realm=_REALM)
            is_tls = settings.tls.has_key_store
            access = settings.access(is_tls=is_tls)
            tls = settings.tls_context() if is_tls else None
            to_nodes = client_context(settings.tls) if is_tls else None
            access.start()
        except (InvalidAccess, InvalidTls) as error:
            raise ConfigError(str(error)) from None
        credentials = _credentials(properties)
        _check_credentials(access, settings, credentials)
        if tls is not None:
            offer(tls)
        return cls(
            access=access,
            open_paths=open_paths(_PROBE, *settings.skip_paths),
            is_guarded=settings.is_guarded(is_tls=is_tls),
            tls=tls,
            forwarder=Forwarder(to_nodes, credentials),
        )


def _credentials(properties: Mapping[str, str]) -> list[Header]:
    user_info = properties.get(USER_INFO)
    if user_info is None:
        return []
    if ":" not in user_info:
        raise ConfigError(f"invalid value for '{USER_INFO}': expected user:password")
    return [("authorization", f"Basic {base64.b64encode(user_info.encode()).decode()}")]


def _check_credentials(access: Access, settings: AccessSettings, credentials: list[Header]) -> None:
    """Check that the other nodes will answer this one. Raises ConfigError."""
    identity = Stores.read(settings.tls).identity
    certificate = None if identity is None or settings.tls.client_auth == "none" else identity.chain[0]
    found = access.identify([value for _, value in credentials], certificate)
    if found is None or not found.may(Role.READER):
        raise ConfigError(
            f"the other nodes would not answer this one: expected '{USER_INFO}' with a user that is a "
            "reader, or the node's own certificate in the file of users"
        )
