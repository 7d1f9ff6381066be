"""The context of a request: its sender and version, which a handler may use beside the body.

It is the same for all requests of one API and version on a connection, so the connection caches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from penstock.broker.quotas.client_quotas import MeteredClient
    from penstock.protocol.messages import SaslAuthenticateResponse, SaslHandshakeResponse
    from penstock.security.permissions import Permissions


class Authentication(Protocol):
    """The authentication of the connection by SASL."""

    def begin(self, mechanism: str, version: int) -> SaslHandshakeResponse:
        """Answer SaslHandshake."""
        ...

    def go_on(self, message: bytes) -> SaslAuthenticateResponse:
        """Answer SaslAuthenticate."""
        ...


class RequestContext(NamedTuple):
    """The data of a request's header and of the connection on which it arrived."""

    api_version: int
    client_id: str
    """Empty if the client sent none."""
    client_host: str
    principal: str
    """`ANONYMOUS` on a listener without authentication."""
    listener_name: str
    permissions: Permissions
    """The permissions of the principal. Handlers ask them about each resource that a request names."""
    is_forwarded: bool = False
    """Whether a broker has forwarded the request, on this node or in an Envelope."""
    token_authenticated: bool = False
    """Whether the sender has logged in with a delegation token."""
    authentication: Authentication | None = None
    """The connection's authentication; None on a listener without SASL."""
    metered: MeteredClient | None = None
    """The sender as the quotas of this broker see it; None if none applies: it has not authenticated yet, or
    this is a controller's listener."""
