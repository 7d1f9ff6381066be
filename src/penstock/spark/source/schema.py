"""The columns of a topic in Spark's types: those of Spark's own Kafka source, in the chosen formats."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.arrow.layout import Layout


def source_schema(layout: Layout) -> StructType:
    """Return the schema for Spark, which then expects Arrow batches of exactly ``layout.schema``."""
    made: StructType = from_arrow_schema(layout.schema, prefer_timestamp_ntz=True)
    return made
