"""Metrics of log directories, and of appends that failed: a full disk shows here first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.storage.directories.log_manager import LogManager


def storage_metrics(logs: LogManager, replicas: ReplicaManager) -> Iterator[Metric]:
    """The space in each log directory, failed writes, and refused batches of producers."""
    free = GaugeMetricFamily(
        "penstock_log_directory_free_bytes",
        "Bytes that the node may still write to the file system of a log directory.",
        labels=["directory"],
    )
    total = GaugeMetricFamily(
        "penstock_log_directory_total_bytes",
        "Size of the file system of a log directory.",
        labels=["directory"],
    )
    failures = CounterMetricFamily(
        "penstock_log_write_failures",
        "Writes and syncs that the file system of a log directory refused.",
        labels=["directory"],
    )
    for directory in list(logs.directories):
        label = [str(directory.path)]
        failures.add_metric(label, logs.io_errors[directory.path])
        try:
            volume = os.statvfs(directory.path)
        except OSError:
            continue
        free.add_metric(label, volume.f_frsize * volume.f_bavail)
        total.add_metric(label, volume.f_frsize * volume.f_blocks)
    yield from (free, total, failures)
    yield GaugeMetricFamily(
        "penstock_log_directories_offline", "Log directories out of service.", len(logs.offline)
    )
    refused = CounterMetricFamily(
        "penstock_refused_appends",
        "Batches of producers that were answered with an error, by that error.",
        labels=["error"],
    )
    for code, count in list(replicas.refused_appends.items()):
        refused.add_metric([ErrorCode.of(code).name], count)
    yield refused
