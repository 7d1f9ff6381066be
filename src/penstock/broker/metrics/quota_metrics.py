"""The Prometheus metrics of quotas: Kafka's Produce, Fetch and Request groups, and those of its acceptors.

Kafka has averages of throttle times. Here they are counters, from which Prometheus computes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from penstock.broker.network.server import Server
    from penstock.broker.quotas.client_quotas import ClientQuotas
    from penstock.broker.quotas.connections import ConnectionQuotas

_LABELS = ["quota", "user", "client_id"]


def client_quota_metrics(quotas: ClientQuotas, server: Server, now_ms: int) -> Iterable[Metric]:
    """The use of clients by the user and the client id that share a limit; an empty label stands for all."""
    rate = GaugeMetricFamily(
        "penstock_quota_rate",
        "The use of clients while there are quotas: bytes a second, for `request` percent of the event loop.",
        labels=_LABELS,
    )
    limit = GaugeMetricFamily("penstock_quota_limit", "The limit of this use, if any.", labels=_LABELS)
    throttles = CounterMetricFamily(
        "penstock_quota_throttles", "Requests that were throttled because of this use.", labels=_LABELS
    )
    seconds = CounterMetricFamily(
        "penstock_quota_throttle_seconds", "Throttle times because of this use.", labels=_LABELS
    )
    kinds = (("produce", quotas.produce), ("fetch", quotas.fetch), ("request", quotas.request))
    for kind, meters in kinds:
        for meter in meters:
            labels = [kind, meter.user, meter.client_id]
            rate.add_metric(labels, meter.rate.per_second(now_ms))
            if meter.limit is not None:
                limit.add_metric(labels, meter.limit)
            throttles.add_metric(labels, meter.throttles)
            seconds.add_metric(labels, meter.throttled_ms / 1000)
    return (
        rate,
        limit,
        throttles,
        seconds,
        CounterMetricFamily(
            "penstock_quota_exempt_request_seconds",
            "Time of requests that no quota limits, while there are quotas of request times.",
            quotas.exempt_ns / 1e9,
        ),
        GaugeMetricFamily(
            "penstock_connections_muted",
            "Connections that are not read because their client exceeds a quota.",
            sum(connection.is_muted for connection in list(server.connections.values())),
        ),
    )


def connection_quota_metrics(quotas: Iterable[ConnectionQuotas], now_ms: int) -> Iterable[Metric]:
    """The new connections by listener, and how they were throttled."""
    rate = GaugeMetricFamily(
        "penstock_connection_creation_rate", "New connections a second.", labels=["listener"]
    )
    throttles = CounterMetricFamily(
        "penstock_connection_throttles",
        "New connections beyond a rate: that of the broker or the `listener`, which then waits, or that of "
        "their `ip`, so that they were closed.",
        labels=["listener", "rate"],
    )
    seconds = CounterMetricFamily(
        "penstock_connection_throttle_seconds",
        "Time in which a listener accepted no connections because of the rate of the broker or its own.",
        labels=["listener"],
    )
    for each in quotas:
        for name, arrivals in each.listeners.items():
            rate.add_metric([name], arrivals.rate.per_second(now_ms))
            throttles.add_metric([name, "listener"], arrivals.throttles)
            throttles.add_metric([name, "ip"], arrivals.address_throttles)
            seconds.add_metric([name], arrivals.throttled_ms / 1000)
    return rate, throttles, seconds
