"""Who asks, in which version: what a handler may know of the request beside its body."""

from __future__ import annotations

from typing import NamedTuple


class RequestContext(NamedTuple):
    """The header of one request and the connection it came by."""

    api_version: int
    correlation_id: int
    client_id: str
    """Empty when the client sent none."""
    client_host: str
    principal: str
    """`User:ANONYMOUS` on a listener without authentication."""
    listener_name: str
