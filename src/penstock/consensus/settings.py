"""The settings of a quorum member, with Kafka's names and defaults."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.consensus.voters import Address, Endpoints, ReplicaKey, Voter

KRAFT_VERSIONS: Final = (0, 1)
"""Lowest and highest ``kraft.version`` that this release supports; 1 is KIP-853."""


class RaftSettings(NamedTuple):
    """The settings of one member. Durations are in milliseconds, sizes in bytes."""

    cluster_id: str
    local: ReplicaKey
    listener_name: str
    """The listener through which members communicate: the first of ``controller.listener.names``."""
    endpoints: Endpoints
    """This node's own controller listeners."""
    bootstrap_servers: tuple[Address, ...] = ()
    can_become_voter: bool = True
    """Whether this node is a controller, which flushes what it fetches even while it is an observer."""
    auto_join: bool = False
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    fetch_max_wait_ms: int = 500

    @property
    def as_voter(self) -> Voter:
        """This node as an entry of the voter set."""
        return Voter(self.local, self.endpoints, *KRAFT_VERSIONS)
