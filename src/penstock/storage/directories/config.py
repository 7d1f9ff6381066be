"""The broker configs that apply to all logs of a node."""

from __future__ import annotations

from typing import NamedTuple

from penstock.storage.partition.log import PRODUCER_ID_EXPIRATION_MS


class LogManagerConfig(NamedTuple):
    """The broker configs that storage applies, under Kafka's names and with Kafka's defaults."""

    num_recovery_threads_per_data_dir: int = 2
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_flush_scheduler_interval_ms: int = 2**63 - 1
    log_retention_check_interval_ms: int = 300_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    producer_id_expiration_check_interval_ms: int = 600_000
    penstock_trust_page_cache: bool = True
