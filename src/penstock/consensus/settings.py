"""What a member of the quorum is told about itself and its times; names and defaults are Kafka's."""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.consensus.voters import Address, Endpoints, ReplicaKey, Voter

KRAFT_VERSIONS: Final = (0, 1)
"""Lowest and highest ``kraft.version`` this release knows; 1 is KIP-853."""


class RaftSettings(NamedTuple):
    """Durations in milliseconds, sizes in bytes."""

    cluster_id: str
    local: ReplicaKey
    listener_name: str
    """The listener on which the members reach each other: the first of ``controller.listener.names``."""
    endpoints: Endpoints
    """This node's own controller listeners."""
    bootstrap_servers: tuple[Address, ...] = ()
    can_become_voter: bool = True
    """A controller: it flushes what it fetches even while it is an observer."""
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
        """This node as a record of voters tells it."""
        return Voter(self.local, self.endpoints, *KRAFT_VERSIONS)
