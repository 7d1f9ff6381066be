"""The memory bound of Spark sessions that tests start."""

from __future__ import annotations

from pyspark.sql import SparkSession

HEAP_BYTES_MAX = 1 << 30


def test_the_heap_of_the_session_is_bound(spark: SparkSession) -> None:
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    assert runtime.maxMemory() <= HEAP_BYTES_MAX
