"""Stages of an application as DataFrames.

`stage_frame` returns the query plan of the nodes above a stage, without our sink: the DataFrame's own query
keeps their state in its checkpoint and writes nothing to the application's topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType, TimestampType

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.spark.sink.options import parse_sink
from penstock.spark.source.options import parse_streaming
from penstock.spark.streams.blocks.packing import Block, Kind
from penstock.spark.streams.planning.options import BATCH_RECORDS, in_blocks
from penstock.spark.streams.planning.plan import StreamsPlan, map_side_parts, shuffled_topics
from penstock.spark.streams.query.packed_rows import packed_rows
from penstock.spark.streams.running.preparation import client_properties, read_topics
from penstock.spark.streams.stages.typed_columns import Column, column_of
from penstock.topology.errors import StreamsError, TopologyError
from penstock.topology.graph import Node, Topology
from penstock.topology.plans.pruning import records_of
from penstock.topology.serdes import Serde

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STAGE: Final = "@stage"
"""The target of a stage's records in its plan; no topic can have this name."""


class NeedsRunningApp(StreamsError):
    """The stage comes after a topic that only the running application writes."""


def stage_frame(
    topology: Topology,
    node: Node,
    key: Serde[Any],
    value: Serde[Any],
    *,
    is_table: bool,
    bootstrap_servers: str,
    spark: SparkSession,
    schema: str | DataType | None = None,
    starting_offsets: str = "earliest",
    shuffle_partitions: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the records of a node as a streaming DataFrame of ``key``, ``value`` and ``timestamp``.

    Raises NeedsRunningApp, TopologyError, SerdeError, MissingTopics, CoPartitioningError, ConfigError.
    """
    part = records_of(topology, node, _STAGE, key, value, is_table=is_table)
    _require_no_topic_between(topology, part, node)
    if part.frames:
        raise TopologyError(
            f"{node.name} comes from the DataFrame {', '.join(sorted(part.frames))}: a stage of an "
            "application can be a DataFrame only if all its sources are topics. Run the application, write "
            "the stage to a topic and read that"
        )
    columns = column_of(key, "the key"), column_of(value, "the value", _parsed(schema))
    session = spark.newSession()
    given = dict(options or {})
    has_state = len(map_side_parts(part)) < len(part.sub_topologies)
    if has_state and "maxoffsetspertrigger" not in {name.lower() for name in given}:
        given["maxOffsetsPerTrigger"] = str(BATCH_RECORDS)
    with Cluster(ClientConfig.from_properties(client_properties(bootstrap_servers, given))) as cluster:
        known = read_topics(cluster, part)
    tasks = shuffle_partitions or session.sparkContext.defaultParallelism
    topics = sorted(known.keys() - part.globals.keys())
    servers = {"kafka.bootstrap.servers": bootstrap_servers}
    source = parse_streaming(
        {"maxPartitions": str(session.sparkContext.defaultParallelism)}
        | given
        | servers
        | {"subscribe": ",".join(topics), "startingOffsets": starting_offsets}
    )
    plan = StreamsPlan(
        part,
        {_STAGE: 1} | part.partition_counts(known),
        tasks,
        in_blocks(source),
        parse_sink(servers),
    )
    kept = StructType(
        [
            StructField("key", columns[0].type),
            StructField("value", columns[1].type),
            StructField("timestamp", TimestampType(), False),
        ]
    )
    return packed_rows(plan, session).mapInArrow(TypedRecords(columns), kept)


def _parsed(schema: str | DataType | None) -> DataType | None:
    return StructType.fromDDL(schema) if isinstance(schema, str) else schema


def _require_no_topic_between(topology: Topology, part: Topology, node: Node) -> None:
    between = sorted({part.topic(name) for name in part.repartitions} - shuffled_topics(part))
    if between:
        raise NeedsRunningApp(
            f"the records of {node.name} come through {', '.join(between)}, which only the running "
            f"application {topology.application} writes. Start it, have it write them to a topic "
            "(….to('topic')), and read that with spark.readStream.format('penstock')"
        )


@dataclass(frozen=True)
class TypedRecords:
    """Unpacks the records of a stage into its columns."""

    columns: tuple[Column, Column]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        key, value = self.columns
        for batch in batches:
            for data in batch.column("block"):
                block = Block.unpack(data.as_py())
                if block.kind is Kind.OUTPUTS and block.targets == (_STAGE,) and block.rows:
                    arrays = [
                        key.read(block.keys.to_arrow()),
                        value.read(block.values.to_arrow()),
                        pa.array(block.timestamps * 1000, pa.timestamp("us", "UTC")),
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, ["key", "value", "timestamp"])
