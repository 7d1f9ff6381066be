"""The Prometheus metrics of the transaction coordinators."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
from penstock.coordinators.transaction.states import TransactionState

__all__ = ["transaction_metrics"]

SHOWN_STATES = tuple(
    state
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
)
"""The states in which a transactional id may remain; it never rests in the two others."""


def transaction_metrics(transactions: TransactionCoordinatorRuntime) -> Iterable[Metric]:
    """Yield the transactional ids by state, and the results of their transactions since they were loaded."""
    counts, counters, markers = transactions.state_counts(), transactions.counters(), transactions.markers
    by_state = GaugeMetricFamily(
        "penstock_transactional_ids", "Transactional ids coordinated here.", labels=["state"]
    )
    for state in SHOWN_STATES:
        by_state.add_metric([state.value], counts[state])
    yield by_state
    yield GaugeMetricFamily(
        "penstock_transactions_pending",
        "Decided transactions with partitions that have no marker yet.",
        markers.pending,
    )
    yield GaugeMetricFamily(
        "penstock_transaction_uncommitted_appends",
        "Appends to __transaction_state that followers do not have yet.",
        transactions.uncommitted,
    )
    for name, text, value in (
        ("transactions_committed", "Transactions committed.", counters.committed),
        ("transactions_aborted", "Transactions aborted, including those that timed out.", counters.aborted),
        ("transactions_timed_out", "Transactions aborted because they took too long.", counters.timed_out),
        ("transactional_ids_expired", "Transactional ids expired.", counters.expired),
        ("transaction_markers_written", "Markers written to partitions.", markers.written),
        ("transaction_marker_retries", "Retries of transactions' failed markers.", markers.retries),
    ):
        yield CounterMetricFamily(f"penstock_{name}", text, value)
