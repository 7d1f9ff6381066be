"""The columns of a topic as Spark types them: those of its own Kafka source, in the formats asked for."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.arrow.layout import Layout


def source_schema(layout: Layout) -> StructType:
    """The schema for Spark, which expects Arrow batches of exactly ``layout.schema`` for it."""
    made: StructType = from_arrow_schema(layout.schema, prefer_timestamp_ntz=True)
    return made
