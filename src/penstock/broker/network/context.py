"""The context of a request: its sender and version, which a handler may use beside the body.

It is the same for all requests of one API and version on a connection, so the connection caches it.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.security.permissions import UNRESTRICTED, Permissions


class RequestContext(NamedTuple):
    """The data of a request's header and of the connection on which it arrived."""

    api_version: int
    client_id: str
    """Empty if the client sent none."""
    client_host: str
    principal: str
    """`User:ANONYMOUS` on a listener without authentication."""
    listener_name: str
    is_forwarded: bool = False
    """Whether a broker has forwarded the request, on this node or in an Envelope."""
    permissions: Permissions = UNRESTRICTED
    """The permissions of the principal. Handlers ask them about each resource that a request names."""
