"""Streams and tables of an application as Spark DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.streams.construction.handles import StreamHandle, TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType


def stage_as_frame(
    stage: StreamHandle[Any, Any] | TableHandle[Any, Any],
    *,
    bootstrap_servers: str,
    spark: SparkSession | None,
    schema: str | DataType | None,
    starting_offsets: str,
    shuffle_partitions: int | None,
    options: Mapping[str, str] | None,
) -> DataFrame:
    """Return one stage of the application as a DataFrame: see `penstock.streams.Stream.df`."""
    # Only applications that run on Spark import pyspark.
    from penstock.spark.launching.session import build_session
    from penstock.spark.streams.stages.frames import stage_frame

    where = f"{stage.node.name} as a DataFrame"
    topology = stage.builder.topology
    return stage_frame(
        topology,
        stage.node,
        stage.builder.key_serde(stage.key, where),
        stage.builder.value_serde(stage.value, where),
        is_table=isinstance(stage, TableHandle),
        bootstrap_servers=bootstrap_servers,
        spark=spark if spark is not None else build_session(topology.application),
        schema=schema,
        starting_offsets=starting_offsets,
        shuffle_partitions=shuffle_partitions,
        options=options,
    )
