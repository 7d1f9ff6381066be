"""The Prometheus metrics of the quota of mutations: Kafka's group ControllerMutation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from penstock.broker.quotas.mutations import MutationQuotas

_LABELS = ["user", "client_id"]


def mutation_metrics(quotas: MutationQuotas, now_ms: int) -> Iterable[Metric]:
    """The use of clients with a quota, by the user and the client id that share it.

    An empty label stands for all. Only the active controller counts.
    """
    tokens = GaugeMetricFamily(
        "penstock_quota_mutation_tokens",
        "Partitions that clients may create or delete at once; negative while they have to wait.",
        labels=_LABELS,
    )
    mutations = CounterMetricFamily(
        "penstock_quota_mutations",
        "Partitions that clients with a quota were charged: created, deleted or only validated.",
        labels=_LABELS,
    )
    throttles = CounterMetricFamily(
        "penstock_quota_mutation_throttles",
        "Requests that were refused or throttled because of the quota of mutations.",
        labels=_LABELS,
    )
    for labels, bucket in quotas.buckets():
        tokens.add_metric(labels, bucket.tokens_at(now_ms))
        mutations.add_metric(labels, bucket.taken)
        throttles.add_metric(labels, bucket.throttles)
    return tokens, mutations, throttles
