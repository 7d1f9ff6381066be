"""Penstock in Spark: the data source ``penstock``, which reads and writes topics.

    spark.read.format("penstock").options(**{"bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}).load()

Spark finds the source by itself where this package is installed (see ``pyspark_penstock``); sessions that
don't search for data sources call `register`. The package holds everything that runs inside Spark: source,
sink, streams applications, sessions and their Java. Code that works without Spark belongs elsewhere.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock.extras import needs_extra
from penstock.spark.progress import Lag, Progress, lag, read_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.changes.applying import apply_changes
    from penstock.spark.changes.envelope import read_changes
    from penstock.spark.changes.targets.delta import DeltaTarget
    from penstock.spark.changes.targets.iceberg import IcebergTarget
    from penstock.spark.changes.targets.table import Edit, TargetTable
    from penstock.spark.launching.java import JavaNotFound
    from penstock.spark.launching.session import build_session
    from penstock.spark.launching.shipping import CannotShip, Library, make_library
    from penstock.spark.sink.checkpoint import CheckpointError
    from penstock.spark.sink.marker import MarkerDamaged
    from penstock.spark.sink.ownership import CheckpointOutdated, RunFenced
    from penstock.spark.sink.publisher import MarkerMismatch, MarkerMissing, TopicReplaced

__all__ = [
    "CannotShip",
    "CheckpointError",
    "CheckpointOutdated",
    "DeltaTarget",
    "Edit",
    "IcebergTarget",
    "JavaNotFound",
    "Lag",
    "Library",
    "MarkerDamaged",
    "MarkerMismatch",
    "MarkerMissing",
    "Progress",
    "RunFenced",
    "TargetTable",
    "TopicReplaced",
    "apply_changes",
    "build_session",
    "lag",
    "make_library",
    "read_changes",
    "read_progress",
    "register",
]

_MODULES: Final = {
    "CannotShip": "penstock.spark.launching.shipping",
    "CheckpointError": "penstock.spark.sink.checkpoint",
    "CheckpointOutdated": "penstock.spark.sink.ownership",
    "DeltaTarget": "penstock.spark.changes.targets.delta",
    "Edit": "penstock.spark.changes.targets.table",
    "IcebergTarget": "penstock.spark.changes.targets.iceberg",
    "JavaNotFound": "penstock.spark.launching.java",
    "Library": "penstock.spark.launching.shipping",
    "MarkerDamaged": "penstock.spark.sink.marker",
    "MarkerMismatch": "penstock.spark.sink.publisher",
    "MarkerMissing": "penstock.spark.sink.publisher",
    "RunFenced": "penstock.spark.sink.ownership",
    "TargetTable": "penstock.spark.changes.targets.table",
    "TopicReplaced": "penstock.spark.sink.publisher",
    "apply_changes": "penstock.spark.changes.applying",
    "build_session": "penstock.spark.launching.session",
    "make_library": "penstock.spark.launching.shipping",
    "read_changes": "penstock.spark.changes.envelope",
}


def __getattr__(name: str) -> object:
    """Import these names on their first use: every Python worker of Spark imports this package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("spark", f"penstock.spark.{name}"):
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def register(spark: SparkSession) -> None:
    """Register ``format("penstock")`` with a session. Registering twice does no harm on Spark 4.3.

    Warns if the Python of the session's workers cannot import this package. Batch reads also work with Spark
    4.0, 4.1 and 4.2. Raises MissingExtra without pyspark, and ImportError
    for other versions.
    """
    from penstock.spark.launching.versions import require_spark_of_batch_reads

    require_spark_of_batch_reads()
    from penstock.spark.datasource import PenstockDataSource
    from penstock.spark.launching.worker_python import warn_of_python

    context = getattr(spark, "sparkContext", None)  # sessions of Spark Connect have none
    if context is not None:
        warn_of_python(context.pythonExec)
    spark.dataSource.register(PenstockDataSource)
