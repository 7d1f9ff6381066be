"""Observe queries while they run, through Prometheus metrics and on the console.

    from penstock.spark.observing import observe

    observe(spark, metrics_port=9464)  # before queries are started

The package holds watchers of Spark's progress reports; a watcher must not change the query it watches.
"""

from penstock.spark.observing.console import ProgressView
from penstock.spark.observing.listener import Watcher
from penstock.spark.observing.observation import MetricsEndpoint, MetricsPortTaken, Observation, observe
from penstock.spark.observing.query_metrics import QueryMetrics

__all__ = [
    "MetricsEndpoint",
    "MetricsPortTaken",
    "Observation",
    "ProgressView",
    "QueryMetrics",
    "Watcher",
    "observe",
]
