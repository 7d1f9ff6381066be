"""The metrics of one instance of the registry: schemas, checks of compatibility and the leader."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from penstock.registry.subjects import RequestRefused
from penstock.registry.subjects.listing import Counts
from penstock.web.metrics import OTHER

ENDPOINT: Final = "penstock.endpoint"
"""The key in a request's scope under which the application notes the path of the resource."""


class RegistryMetrics(Collector):
    """The collector of one instance. ``counts`` returns those of its store and may raise RequestRefused."""

    def __init__(self, counts: Callable[[], Counts], is_leader: Callable[[], bool]) -> None:
        self._counts = counts
        self._is_leader = is_leader
        self._checks: Counter[bool] = Counter()
        self._lock = threading.Lock()

    def checked(self, is_compatible: bool) -> None:
        """Count the answer to a check of compatibility."""
        with self._lock:
            self._checks[is_compatible] += 1

    def collect(self) -> Iterable[Metric]:
        checks = CounterMetricFamily(
            "penstock_registry_compatibility_checks",
            "Checks of a schema by requests to /compatibility, by result.",
            labels=["result"],
        )
        for is_compatible, result in ((True, "compatible"), (False, "incompatible")):
            checks.add_metric([result], self._checks[is_compatible])
        yield checks
        yield GaugeMetricFamily(
            "penstock_registry_leader",
            "1 on the instance that leads, which decides writes.",
            int(self._is_leader()),
        )
        subjects = GaugeMetricFamily(
            "penstock_registry_subjects", "Subjects that have a version which is not deleted."
        )
        versions = GaugeMetricFamily(
            "penstock_registry_versions",
            "Versions of all subjects; deleted ones are those that were deleted softly.",
            labels=["format", "state"],
        )
        try:
            counts = self._counts()
        except RequestRefused:  # the topic is not read: no figure is better than a wrong one
            pass
        else:
            subjects.add_metric([], counts.subjects)
            for kind, count in counts.versions.items():
                versions.add_metric([kind.format, "deleted" if kind.is_deleted else "active"], count)
        yield from (subjects, versions)


def endpoint_of(scope: Scope) -> str:
    """Return the path of the resource that answered a request."""
    endpoint: str = scope.get(ENDPOINT, OTHER)
    return endpoint
