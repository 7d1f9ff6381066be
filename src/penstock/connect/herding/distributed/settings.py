"""The settings of a distributed herder, under the names of Kafka Connect's worker properties."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.connect.group.session_keys import KeyRotation
from penstock.connect.group.settings import GroupSettings
from penstock.connect.stores.topics import InternalTopic


@dataclass(frozen=True, kw_only=True, slots=True)
class HerderSettings:
    """The worker's place in its group, its topics, and the keys between workers."""

    group: GroupSettings
    url: str
    """The URL at which other workers reach this one."""
    worker_id: str
    """The host and port of this worker, as statuses show it."""
    config_topic: InternalTopic
    status_topic: InternalTopic
    start_timeout_s: float = 60.0
    """The time for reading each topic at the start."""
    sync_timeout_ms: int = 3_000
    """``worker.sync.timeout.ms``"""
    fences_leaders: bool = False
    """Whether leaders write in transactions: ``exactly.once.source.support`` is preparing or enabled."""
    exactly_once: bool = False
    """Whether sources are exactly once: ``exactly.once.source.support`` is enabled."""
    tracks_topics: bool = True
    """``topic.tracking.enable``"""
    keys: KeyRotation = field(default_factory=KeyRotation)
    signature_algorithm: str = "HmacSHA256"
    """``inter.worker.signature.algorithm``"""
    verification_algorithms: tuple[str, ...] = ("HmacSHA256",)
    """``inter.worker.verification.algorithms``"""
