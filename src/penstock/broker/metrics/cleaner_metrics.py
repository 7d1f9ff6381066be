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
        ("active", "Cleans in progress.", cleaner.jobs),
        (
            "max_buffer_utilization_ratio",
            "Highest fill ratio of the key map in the workers' last cleans.",
            max((stats.buffer_utilization for stats in last), default=0.0),
        ),
        (
            "recopy_ratio",
            "Bytes written per byte read in the workers' last cleans.",
            written_bytes / max(read_bytes, 1),
        ),
        (
            "max_clean_time_seconds",
            "Longest duration of a worker's last clean.",
            max((stats.elapsed_s for stats in last), default=0.0),
        ),
        (
            "max_compaction_delay_seconds",
            "Longest time by which a log exceeds max.compaction.lag.ms.",
            cleaner.max_compaction_delay_ms / 1000,
        ),
        ("max_dirty_ratio", "Dirty ratio of the dirtiest log.", cleaner.max_dirty_ratio),
        (
            "since_last_run_seconds",
            "Time since the last check of the logs.",
            (now_ms - cleaner.last_run_ms) / 1000,
        ),
        (
            "uncleanable_partitions",
            "Partitions that are not cleaned because a clean failed.",
            len(cleaner.uncleanable),
        ),
        (
            "uncleanable_bytes",
            "Bytes in uncleanable partitions that need a clean.",
            cleaner.uncleanable_bytes(),
        ),
    ):
        yield GaugeMetricFamily(f"penstock_cleaner_{name}", text, value)
