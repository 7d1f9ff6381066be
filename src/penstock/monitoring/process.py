"""The metrics of a process itself: its use of the machine, and its build."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.protocol.kernels import IMPLEMENTATION
from penstock.protocol.software import VERSION


class BuildInfo(Collector):
    """The collector of `penstock_build_info`."""

    def collect(self) -> Iterable[Metric]:
        info = GaugeMetricFamily(
            "penstock_build_info",
            "Always 1; the labels hold versions, and whether the kernels are compiled or Python.",
            labels=["version", "python", "kernels"],
        )
        info.add_metric([VERSION, platform.python_version(), IMPLEMENTATION], 1)
        yield info


def registry_of(*collectors: Collector) -> CollectorRegistry:
    """Create a registry of these collectors, the build and Prometheus's `process_*`.

    The latter exist only on Linux.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for collector in (BuildInfo(), *collectors):
        registry.register(collector)
    return registry
