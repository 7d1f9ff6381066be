"""The authorizer's Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from penstock.security.authorizer import Authorizer


def authorizer_metrics(authorizer: Authorizer | None) -> Iterable[Metric]:
    """The ACLs and the decisions; nothing without an authorizer."""
    decisions = CounterMetricFamily(
        "penstock_authorizer_decisions",
        "Permissions that requests asked for, by the authorizer's decision.",
        labels=["decision"],
    )
    acls = GaugeMetricFamily("penstock_authorizer_acls", "Access control lists in force on this node.")
    if authorizer is not None:
        decisions.add_metric(["allowed"], authorizer.allowed)
        decisions.add_metric(["denied"], authorizer.denied)
        acls.add_metric([], len(authorizer.ids))
    return decisions, acls
