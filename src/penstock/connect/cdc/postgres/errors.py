"""Errors of reading PostgreSQL's replication stream."""

from __future__ import annotations

from penstock.connect.errors import ConnectError


class ReplicationProtocolError(ConnectError):
    """The server sent what PostgreSQL's replication protocol does not allow, or what is not supported."""
