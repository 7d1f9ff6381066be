"""Who asks, in which version: what a handler may know of the request beside its body.

Equal for all requests of one API version on a connection, which keeps them.
"""

from __future__ import annotations

from typing import NamedTuple


class RequestContext(NamedTuple):
    """What the header of a request says of its sender, and the connection it came by."""

    api_version: int
    client_id: str
    """Empty when the client sent none."""
    client_host: str
    principal: str
    """`User:ANONYMOUS` on a listener without authentication."""
    listener_name: str
    is_forwarded: bool = False
    """Whether a broker has passed the request on, here or in an Envelope."""
