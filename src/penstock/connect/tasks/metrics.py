"""Counts of what tasks do, by the names of Connect's metrics, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.connect.stores import State
from penstock.connect.task_id import ConnectorTaskId


@dataclass(slots=True)
class ErrorMetrics:
    """Connect's group `task-error-metrics`. Written by the task's thread, read by any."""

    failures: int = 0
    """Failed attempts (`total-record-failures`)."""
    errors: int = 0
    """Operations that failed for good (`total-record-errors`)."""
    skipped: int = 0
    retries: int = 0
    logged: int = 0
    dead_letter_requests: int = 0
    dead_letter_failures: int = 0
    last_error_s: float = 0.0


@dataclass(slots=True)
class TaskMetrics:
    """The counts of one task: Connect's groups `connector-task`, `source-task` and `sink-task`."""

    task_id: ConnectorTaskId
    is_source: bool
    state: State = State.UNASSIGNED
    errors: ErrorMetrics = field(default_factory=ErrorMetrics)
    received: int = 0
    """Records that a source has returned from `poll`, or that a sink has consumed."""
    sent: int = 0
    """Records that are in their topics, or that `put` has taken."""
    batches: int = 0
    batch_seconds: float = 0.0
    """The time in `poll` of calls with records, or in `put`."""
    active: int = 0
    """Records that a source has returned and that are not in their topics yet."""
    partitions: int = 0
    commits: int = 0
    commit_failures: int = 0
    commit_seconds: float = 0.0
    transactions: int = 0
    transaction_records: int = 0
    gauges: Callable[[], Mapping[str, float]] = dict
    """The numbers of a source's own."""

    def count_commit(self, began_s: float, *, succeeded: bool) -> None:
        """Count a commit of offsets that began at this time of the monotonic clock."""
        self.commit_seconds += time.monotonic() - began_s
        if succeeded:
            self.commits += 1
        else:
            self.commit_failures += 1


_ERRORS: Final = {
    "failures": ("total_record_failures", "Failed attempts of operations on records."),
    "errors": ("total_record_errors", "Records for which an operation failed for good."),
    "skipped": ("total_records_skipped", "Records skipped because of errors."),
    "retries": ("total_retries", "Operations that were retried."),
    "logged": ("total_errors_logged", "Errors written to the log."),
    "dead_letter_requests": ("deadletterqueue_produce_requests", "Records for the dead letter topic."),
    "dead_letter_failures": ("deadletterqueue_produce_failures", "Dead letters that could not be written."),
}
_SOURCE: Final = {
    "received": ("source_record_poll", "Records that the task has returned from poll."),
    "sent": ("source_record_write", "Records that are in their topics."),
    "batches": ("source_batch_poll", "Batches that the task has returned from poll."),
    "batch_seconds": ("source_poll_batch_time_seconds", "Time in poll of calls with records."),
    "transactions": ("source_transaction", "Transactions that were committed."),
    "transaction_records": ("source_transaction_size", "Records in committed transactions."),
}
_SINK: Final = {
    "received": ("sink_record_read", "Records consumed from topics."),
    "sent": ("sink_record_send", "Records that the task has taken."),
    "batches": ("sink_batch_put", "Batches that the task has taken."),
    "batch_seconds": ("sink_put_batch_time_seconds", "Time in put."),
}
_COMMON: Final = {
    "commits": ("offset_commit_success", "Offset commits that succeeded."),
    "commit_failures": ("offset_commit_failure", "Offset commits that failed."),
    "commit_seconds": ("offset_commit_time_seconds", "Time of all offset commits."),
}
_PREFIX: Final = "penstock_connect_task_"


class TaskCollector(Collector):
    """The collector of all tasks that ``tasks`` returns."""

    def __init__(self, tasks: Callable[[], Iterable[TaskMetrics]]) -> None:
        self._tasks = tasks

    def collect(self) -> Iterable[Metric]:
        tasks = list(self._tasks())
        for kind, names in ((True, _SOURCE), (False, _SINK)):
            of_kind = [task for task in tasks if task.is_source is kind]
            yield from _counters(names, of_kind, of_kind)
        yield from _counters(_COMMON, tasks, tasks)
        yield from _counters(_ERRORS, tasks, [task.errors for task in tasks])
        yield _gauge(
            "source_record_active_count",
            "Records polled but not in their topics.",
            {task.task_id: task.active for task in tasks if task.is_source},
        )
        yield _gauge(
            "sink_partition_count",
            "Partitions that the task reads.",
            {task.task_id: task.partitions for task in tasks if not task.is_source},
        )
        yield _gauge(
            "last_error_timestamp_seconds",
            "The time of the last error, 0 if there was none.",
            {task.task_id: task.errors.last_error_s for task in tasks},
        )
        own: dict[str, dict[ConnectorTaskId, float]] = {}
        for task in tasks:
            for name, value in task.gauges().items():
                own.setdefault(name, {})[task.task_id] = value
        for name, values in own.items():
            yield _gauge(f"source_{name}", "A number of the source's own.", values)
        states = GaugeMetricFamily(
            f"{_PREFIX}status", "1 for the state that the task is in.", labels=["connector", "task", "state"]
        )
        for task in tasks:
            states.add_metric([task.task_id.connector, str(task.task_id.task), task.state.value.lower()], 1)
        yield states


def _counters(
    names: Mapping[str, tuple[str, str]],
    tasks: Iterable[TaskMetrics],
    counts: Iterable[TaskMetrics | ErrorMetrics],
) -> Iterable[Metric]:
    pairs = list(zip(tasks, counts, strict=True))
    for attribute, (name, text) in names.items():
        family = CounterMetricFamily(f"{_PREFIX}{name}", text, labels=["connector", "task"])
        for task, count in pairs:
            family.add_metric([task.task_id.connector, str(task.task_id.task)], getattr(count, attribute))
        yield family


def _gauge(name: str, text: str, values: Mapping[ConnectorTaskId, float]) -> Metric:
    family = GaugeMetricFamily(f"{_PREFIX}{name}", text, labels=["connector", "task"])
    for task_id, value in values.items():
        family.add_metric([task_id.connector, str(task_id.task)], value)
    return family
