"""The settings of a worker's membership, under the names of Kafka Connect's worker properties."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connect.group.assignment import ConnectProtocol


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSettings:
    """The times of a worker's membership, in milliseconds, and the protocols that it offers."""

    group_id: str
    """``group.id``"""
    protocol: ConnectProtocol = ConnectProtocol.SESSIONED
    """``connect.protocol``: the worker offers this protocol and all older ones."""
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    worker_unsync_backoff_ms: int = 300_000
    """The wait of a worker of an eager group that cannot read the config topic."""
    scheduled_rebalance_max_delay_ms: int = 300_000
