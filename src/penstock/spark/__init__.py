"""Penstock in Spark: the data source ``penstock``, which reads and writes topics.

    spark.read.format("penstock").options(**{"bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}).load()

Spark finds the source by itself where this package is installed (see ``pyspark_penstock``); sessions that
don't search for data sources call `register`. The package holds everything that runs inside Spark: source,
sink, streams applications, sessions and their Java. Code that works without Spark belongs elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.progress import Lag, Progress, lag, read_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Lag", "Progress", "lag", "read_progress", "register"]


def register(spark: SparkSession) -> None:
    """Register ``format("penstock")`` with a session. Registering twice does no harm."""
    from penstock.spark.datasource import PenstockDataSource

    spark.dataSource.register(PenstockDataSource)
