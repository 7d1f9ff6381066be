"""The Prometheus metrics of logins by SASL, which Kafka counts for each of its network threads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, Metric

if TYPE_CHECKING:
    from penstock.broker.sasl.listeners import NodeSasl

_LABELS = ["listener", "mechanism"]


def sasl_metrics(sasl: NodeSasl) -> Iterable[Metric]:
    """The logins by listener and mechanism; one that failed before it had a mechanism has `none`."""
    succeeded = CounterMetricFamily(
        "penstock_sasl_authentications",
        "Connections that authenticated. Kafka: `successful-authentication-total`.",
        labels=_LABELS,
    )
    failed = CounterMetricFamily(
        "penstock_sasl_authentications_failed",
        "Connections closed because authentication failed, of mechanism `none` if it failed before there was "
        "one. Kafka: `failed-authentication-total`.",
        labels=_LABELS,
    )
    succeeded_again = CounterMetricFamily(
        "penstock_sasl_reauthentications",
        "Authentications again before a session ends. Kafka: `successful-reauthentication-total`.",
        labels=_LABELS,
    )
    failed_again = CounterMetricFamily(
        "penstock_sasl_reauthentications_failed",
        "Connections closed because they did not authenticate again as before. Kafka: "
        "`failed-reauthentication-total`.",
        labels=_LABELS,
    )
    expired = CounterMetricFamily(
        "penstock_sasl_sessions_expired",
        "Connections closed for a request after the end of their session. Kafka: "
        "`expired-connections-killed-count`.",
        labels=_LABELS,
    )
    for listener in sasl:
        for mechanism, logins in listener.logins.items():
            labels = [listener.name, mechanism]
            succeeded.add_metric(labels, logins.succeeded)
            failed.add_metric(labels, logins.failed)
            succeeded_again.add_metric(labels, logins.succeeded_again)
            failed_again.add_metric(labels, logins.failed_again)
            expired.add_metric(labels, logins.expired)
    return succeeded, failed, succeeded_again, failed_again, expired
