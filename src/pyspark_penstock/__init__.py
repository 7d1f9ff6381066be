"""Where Spark looks for Python data sources: modules called ``pyspark_*`` with a `DefaultSource` in them."""

from penstock.spark.datasource import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
