"""The group coordinators' Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
from penstock.coordinators.group.states import ClassicGroupState

__all__ = ["group_metrics"]


def group_metrics(groups: GroupCoordinatorRuntime) -> Iterable[Metric]:
    """Groups by state, offsets, and counters since their partitions were loaded."""
    counts, counters = groups.group_counts(), groups.counters()
    by_state = GaugeMetricFamily("penstock_groups", "Classic groups coordinated here.", labels=["state"])
    for state in ClassicGroupState:
        by_state.add_metric([state.value], counts[state])
    yield by_state
    yield GaugeMetricFamily("penstock_group_offsets", "Committed offsets held.", groups.offset_count())
    yield GaugeMetricFamily(
        "penstock_group_uncommitted_appends",
        "Appends to __consumer_offsets that followers do not have yet.",
        groups.uncommitted,
    )
    for name, text, value in (
        ("rebalances", "Rebalances completed.", counters.completed_rebalances),
        ("offset_commits", "Offsets committed.", counters.offset_commits),
        ("offset_deletions", "Offsets deleted on request.", counters.offset_deletions),
        ("offset_expirations", "Offsets expired.", counters.offset_expirations),
    ):
        yield CounterMetricFamily(f"penstock_group_{name}", text, value)
