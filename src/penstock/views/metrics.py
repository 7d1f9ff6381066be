"""The metrics of a node that serves views: its partitions, how far they are behind, and the other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from penstock.views.replica import Replica
from penstock.web.metrics import OTHER

_PARTITION: Final = ("store", "partition")
_WITHOUT_NAMES: Final = frozenset({b"/stores", b"/health", b"/health/ready", b"/metrics"})


class ViewMetrics(Collector):
    """The collector of a node.

    Args:
        held: returns the partitions that the node holds, each with the name of its store.
        members: returns how many nodes the group has.
        is_following: returns whether the logs can be read now.
    """

    def __init__(
        self,
        held: Callable[[], Iterable[tuple[str, Replica]]],
        members: Callable[[], int],
        is_following: Callable[[], bool],
    ) -> None:
        self._held = held
        self._members = members
        self._is_following = is_following

    def collect(self) -> Iterable[Metric]:
        entries = GaugeMetricFamily(
            "penstock_view_entries", "Keys, windows or versions that the node holds.", labels=_PARTITION
        )
        lag = GaugeMetricFamily(
            "penstock_view_lag",
            "Offsets from the node's position to the end of the committed records at the last fetch.",
            labels=_PARTITION,
        )
        ready = GaugeMetricFamily(
            "penstock_view_ready", "1 once the node has read the partition to its end.", labels=_PARTITION
        )
        applied = CounterMetricFamily(
            "penstock_view_records_applied",
            "Records of the log that the node has applied.",
            labels=_PARTITION,
        )
        for store, kept in self._held():
            labels = [store, str(kept.tp.partition)]
            entries.add_metric(labels, len(kept))
            lag.add_metric(labels, kept.lag)
            ready.add_metric(labels, int(kept.is_ready))
            applied.add_metric(labels, kept.records)
        yield from (entries, lag, ready, applied)
        yield GaugeMetricFamily(
            "penstock_view_following", "0 while reading the logs fails.", int(self._is_following())
        )
        yield GaugeMetricFamily(
            "penstock_view_members", "Nodes in the group, this one included.", self._members()
        )


def endpoint_of(scope: Scope) -> str:
    """Return the path of a request without the names of stores and keys."""
    raw: bytes = scope["raw_path"]
    path = raw.partition(b"?")[0]
    if path in _WITHOUT_NAMES:
        return path.decode()
    match path.split(b"/"):
        case [b"", b"stores", _, b"keys", _]:
            return "/stores/{store}/keys/{key}"
        case [b"", b"stores", _, b"keys", _, (b"windows" | b"versions") as kind]:
            return f"/stores/{{store}}/keys/{{key}}/{kind.decode()}"
        case [b"", b"stores", _, (b"entries" | b"count") as kind]:
            return f"/stores/{{store}}/{kind.decode()}"
    return OTHER
