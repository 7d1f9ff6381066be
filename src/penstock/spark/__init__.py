"""Penstock in Spark: the data source ``penstock`` for reading and writing topics.

    spark.read.format("penstock").options(**{"bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}).load()

Spark finds the source by itself where this package is installed (see ``pyspark_penstock``); `register` is for
sessions in which it does not look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.progress import Lag, Progress, lag, read_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Lag", "Progress", "lag", "read_progress", "register"]


def register(spark: SparkSession) -> None:
    """Make ``format("penstock")`` known to a session. Registering twice does no harm."""
    from penstock.spark.datasource import PenstockDataSource

    spark.dataSource.register(PenstockDataSource)
