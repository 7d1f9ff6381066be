"""The log cleaner's Prometheus metrics: Kafka's LogCleaner and LogCleanerManager metrics, in base units."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from penstock.storage.compaction.log_cleaner import LogCleaner

__all__ = ["cleaner_metrics"]


def cleaner_metrics(cleaner: LogCleaner, now_ms: int) -> Iterable[Metric]:
    """The results of each worker's last clean, and the work that is pending."""
    last = list(cleaner.last_stats)
    read_bytes = sum(stats.bytes_read for stats in last)
    written_bytes = sum(stats.bytes_written for stats in last)
    for name, text, value in (
        ("active", "Cleans under way.", cleaner.jobs),
        (
            "max_buffer_utilization_ratio",
            "How full the key map of a worker's last clean was.",
            max((stats.buffer_utilization for stats in last), default=0.0),
        ),
        (
            "recopy_ratio",
            "Bytes written of those read, in the last cleans.",
            written_bytes / max(read_bytes, 1),
        ),
        (
            "max_clean_time_seconds",
            "How long a worker's last clean took.",
            max((stats.elapsed_s for stats in last), default=0.0),
        ),
        (
            "max_compaction_delay_seconds",
            "How long max.compaction.lag.ms of a log was over.",
            cleaner.max_compaction_delay_ms / 1000,
        ),
        ("max_dirty_ratio", "Dirty share of the dirtiest log.", cleaner.max_dirty_ratio),
        ("since_last_run_seconds", "Since logs were last looked at.", (now_ms - cleaner.last_run_ms) / 1000),
        (
            "uncleanable_partitions",
            "Partitions left alone since their clean failed.",
            len(cleaner.uncleanable),
        ),
        ("uncleanable_bytes", "Bytes that wait in them for a clean.", cleaner.uncleanable_bytes()),
    ):
        yield GaugeMetricFamily(f"penstock_cleaner_{name}", text, value)
