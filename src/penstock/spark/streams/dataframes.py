"""Stages of an application as DataFrames, and DataFrames as its sources.

`stage_frame` returns the query plan of the nodes above a stage, without our sink: the DataFrame's own query
keeps their state in its checkpoint and writes nothing to the application's topics.

`packed_frame` returns the rows of a DataFrame as blocks, to be read beside those of the topics in one query.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType, TimestampType

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.spark.sink.options import parse_sink
from penstock.spark.source.options import parse_streaming
from penstock.spark.streams.operator import PACKED
from penstock.spark.streams.packing import Block, Kind
from penstock.spark.streams.plan import LAYOUT, StreamsPlan, map_side_parts, shuffled_topics
from penstock.spark.streams.planning import BATCH_RECORDS
from penstock.spark.streams.preparation import client_properties, read_topics
from penstock.spark.streams.rows import row_batches
from penstock.spark.streams.source import ROWS
from penstock.spark.streams.typed_columns import Column, column_of
from penstock.spark.streams.worker import worker_for
from penstock.topology.errors import StreamsError, TopologyError
from penstock.topology.graph import Node, Topology
from penstock.topology.pruning import records_of
from penstock.topology.records import NO_HEADERS, Output
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
    from penstock.spark.streams.running import packed_rows  # that module imports `packed_frame`

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
        replace(source, layout=LAYOUT),
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


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """A DataFrame as a source: the columns to read, and the serdes of key and value.

    If ``value`` is None, all columns but the key and the timestamp form one dict.
    """

    frame: DataFrame
    key: str | None
    value: str | None
    timestamp: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]


def packed_frame(name: str, of: FrameColumns, plan_text: str) -> DataFrame:
    """Return the rows of a DataFrame as rows of the query."""
    frame = of.frame
    names = [column for column in (of.key, of.value, of.timestamp) if column is not None]
    missing = [column for column in names if column not in frame.columns]
    if missing:
        raise TopologyError(
            f"the DataFrame {name} has no column {', '.join(missing)}; it has {', '.join(frame.columns)}"
        )
    if not frame.isStreaming:
        raise TopologyError(
            f"the DataFrame {name} is a batch: a source of an application is read with readStream"
        )
    kind = frame.schema[of.timestamp].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise TopologyError(
            f"the column {of.timestamp} of the DataFrame {name} has the type {kind.simpleString()}, expected "
            "timestamp"
        )
    packer = _Packer(name, of.key, of.value, of.timestamp, of.key_serde, of.value_serde, plan_text)
    return frame.mapInArrow(packer, PACKED)


@dataclass(frozen=True, slots=True)
class _Packer:
    """Packs rows in the tasks that hold the DataFrame's rows."""

    name: str
    key: str | None
    value: str | None
    timestamp: str
    key_serde: Serde[Any]
    value_serde: Serde[Any]
    plan_text: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        worker = worker_for(self.plan_text)
        context = TaskContext.get()
        assert context is not None, "a packer runs in a task"
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held)
        stores, note = worker.global_stores_now()
        times_ms = pc.divide(table.column(self.timestamp).cast(pa.int64()), 1000)
        # Sort by time, as a DataFrame's partitions have no order. Rows of the same time keep their order.
        order = pc.sort_indices(pa.table({"time": times_ms}), [("time", "ascending")])
        outputs = self._records(table.take(order), times_ms.take(order).to_pylist())
        clock_ms = time.time_ns() // 1_000_000
        rows = worker.map_side.frame_rows(self.name, context.partitionId(), outputs, clock_ms, stores, note)
        yield from row_batches(rows, ROWS)

    def _records(self, table: pa.Table, times_ms: list[int | None]) -> list[Output]:
        keys = [None] * table.num_rows if self.key is None else table.column(self.key).to_pylist()
        if self.value is None:
            values = table.drop_columns([c for c in (self.key, self.timestamp) if c is not None]).to_pylist()
        else:
            values = table.column(self.value).to_pylist()
        records: list[Output] = []
        for key, value, at_ms in zip(keys, values, times_ms, strict=True):
            if at_ms is None:
                raise TopologyError(f"a row of the DataFrame {self.name} has null in {self.timestamp}")
            key_bytes = self._bytes(self.key_serde, key, "key")
            value_bytes = self._bytes(self.value_serde, value, "value")
            records.append((self.name, None, key_bytes, value_bytes, at_ms, NO_HEADERS))
        return records

    def _bytes(self, serde: Serde[Any], value: Any, what: str) -> bytes | None:
        if value is None:
            return None
        try:
            return serde.serialize(value)
        except Exception as error:
            raise TopologyError(f"the {what} of a row of the DataFrame {self.name}: {error}") from error
