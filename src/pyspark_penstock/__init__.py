"""The data source ``penstock`` for Spark, which searches modules named ``pyspark_*`` for a `DefaultSource`.

The package holds this name alone; the source itself is in `penstock.spark.datasource`.
"""

from penstock.spark.datasource import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
