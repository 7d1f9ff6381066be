"""The typed settings of a transaction coordinator, under Kafka's names."""

from dataclasses import dataclass

__all__ = ["TransactionCoordinatorConfig"]


@dataclass(frozen=True, slots=True)
class TransactionCoordinatorConfig:
    """The settings of one transaction coordinator; the defaults are Kafka's."""

    transaction_max_timeout_ms: int = 15 * 60 * 1000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    """The delay before a failed abort is retried; the first attempt runs when the transaction times out."""
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 60 * 60 * 1000
    transaction_two_phase_commit_enable: bool = False
