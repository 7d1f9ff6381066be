"""Observe queries while they run, through Prometheus metrics and on the console.

    from penstock.spark.observing import observe

    observe(spark, metrics_port=9464)  # before queries are started

The package holds watchers of Spark's progress reports; a watcher must not change the query it watches.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock.spark.observing.console import ProgressView
from penstock.spark.observing.observation import MetricsEndpoint, MetricsPortTaken, Observation, observe
from penstock.spark.observing.query_metrics import QueryMetrics

if TYPE_CHECKING:
    from penstock.spark.observing.listener import Watcher

__all__ = [
    "MetricsEndpoint",
    "MetricsPortTaken",
    "Observation",
    "ProgressView",
    "QueryMetrics",
    "Watcher",
    "observe",
]

_MODULES: Final = {"Watcher": "penstock.spark.observing.listener"}


def __getattr__(name: str) -> object:
    """Import the interface on its first use: its module needs Spark, the metrics and the console do not."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
