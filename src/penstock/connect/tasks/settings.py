"""The settings that tasks read from the configurations of connectors and workers, by Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.client.settings import boolean, one_of, setting, whole_number

_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorSettings:
    """How a task treats records that fail (KIP-298)."""

    tolerance: str = setting("errors.tolerance", "none", one_of("none", "all"))
    retry_timeout_ms: int = setting("errors.retry.timeout", 0, whole_number(-1, _LONG_MAX))
    """How long a failed operation is repeated; -1 for ever."""
    retry_delay_max_ms: int = setting("errors.retry.delay.max.ms", 60_000, whole_number(1, _LONG_MAX))
    log: bool = setting("errors.log.enable", False, boolean)
    log_records: bool = setting("errors.log.include.messages", False, boolean)
    dead_letter_topic: str = setting("errors.deadletterqueue.topic.name", "", str)
    dead_letter_replicas: int = setting(
        "errors.deadletterqueue.topic.replication.factor", 3, whole_number(-1, 32767)
    )
    dead_letter_context: bool = setting("errors.deadletterqueue.context.headers.enable", False, boolean)

    @property
    def tolerates(self) -> bool:
        return self.tolerance == "all"


@dataclass(frozen=True, kw_only=True, slots=True)
class OffsetSettings:
    """When a worker stores the offsets of its tasks."""

    flush_interval_ms: int = setting("offset.flush.interval.ms", 60_000, whole_number(0, _LONG_MAX))
    flush_timeout_ms: int = setting("offset.flush.timeout.ms", 5_000, whole_number(0, _LONG_MAX))


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionSettings:
    """Where the transactions of an exactly-once source end (KIP-618)."""

    boundary: str = setting("transaction.boundary", "poll", one_of("poll", "interval", "connector"))
    interval_ms: int | None = setting("transaction.boundary.interval.ms", None, whole_number(0, _LONG_MAX))
    """Without it, `offset.flush.interval.ms` counts."""
