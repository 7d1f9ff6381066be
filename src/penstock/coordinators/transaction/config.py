"""The settings a coordinator needs, already typed; names follow Kafka's."""

from dataclasses import dataclass

__all__ = ["TransactionCoordinatorConfig"]


@dataclass(frozen=True, slots=True)
class TransactionCoordinatorConfig:
    """Defaults are Kafka's."""

    transaction_max_timeout_ms: int = 15 * 60 * 1000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    #: A transaction is aborted when its time is up; this is how long it takes until a failed try is repeated.
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 60 * 60 * 1000
    transaction_two_phase_commit_enable: bool = False
