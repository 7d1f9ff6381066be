"""Streams and tables of an application as Spark DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.streams.builder import Builder
from penstock.topology.graph import Node
from penstock.topology.serdes import Serde

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType


def stage_as_frame(
    builder: Builder,
    node: Node,
    key: Serde[Any] | None,
    value: Serde[Any] | None,
    *,
    is_table: bool,
    bootstrap_servers: str,
    spark: SparkSession | None,
    schema: str | DataType | None,
    starting_offsets: str,
    shuffle_partitions: int | None,
    options: Mapping[str, str] | None,
) -> DataFrame:
    """Return one stage of the application as a DataFrame: see `penstock.streams.Stream.df`."""
    from penstock.spark.launching.session import (
        build_session,  # only applications that run on Spark import pyspark
    )
    from penstock.spark.streams.stages.frames import stage_frame

    where = f"{node.name} as a DataFrame"
    topology = builder.topology
    return stage_frame(
        topology,
        node,
        builder.key_serde(key, where),
        builder.value_serde(value, where),
        is_table=is_table,
        bootstrap_servers=bootstrap_servers,
        spark=spark if spark is not None else build_session(topology.application),
        schema=schema,
        starting_offsets=starting_offsets,
        shuffle_partitions=shuffle_partitions,
        options=options,
    )
