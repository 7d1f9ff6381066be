"""The writers: rows to record batches to partition leaders, all acknowledged before a task counts as done.

At least once: a task that fails is run again, and what its first attempt wrote stays. Within an attempt the
idempotent producer writes each row once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.protocol.columns import encode_batches
from penstock.spark.connections import discard_producer, shared_cluster, shared_producer
from penstock.spark.sink.columns import SinkColumns, find_columns, row_columns
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.partitioner import Partitioner, RowRefused


@dataclass(frozen=True, slots=True)
class TaskWritten(WriterCommitMessage):
    """What a task reports: every one of its rows is acknowledged."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = WriteTask(options, find_columns(schema, options.topic is not None))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._task.run(iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = WriteTask(options, find_columns(schema, options.topic is not None))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._task.run(iterator)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One task's rows; picklable, connects where it runs."""

    options: SinkOptions
    columns: SinkColumns

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write and wait for all acknowledgements. Raises RowRefused, ClientError."""
        options = self.options
        producer = shared_producer(options.client, options.producer)
        partitioners: dict[str, Partitioner] = {}
        rows = 0
        try:
            for batch in batches:
                for topic, part in self._by_topic(batch):
                    if topic not in partitioners:
                        known = shared_cluster(options.client).require_topics([topic], create=True)
                        partitioners[topic] = Partitioner(topic, len(known[topic].partitions))
                    for partition, encoded in self._encode(part, partitioners[topic]):
                        producer.send(topic, partition, encoded)
                rows += batch.num_rows
            producer.flush()
        except BaseException:
            discard_producer(options.client, options.producer)
            raise
        return TaskWritten(rows)

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if batch.num_rows == 0:
            return
        if self.columns.topic is None:
            assert self.options.topic is not None  # find_columns saw to it
            yield self.options.topic, batch
            return
        topics = batch.column(self.columns.topic)
        if topics.null_count:
            raise RowRefused(
                "the column 'topic' is null in a row: give every row a topic, or set the option 'topic'"
            )
        names = pc.unique(topics)
        for name in names:
            only = batch if len(names) == 1 else batch.filter(pc.equal(topics, name))
            yield name.as_py(), only

    def _encode(self, batch: pa.RecordBatch, partitioner: Partitioner) -> Iterator[tuple[int, bytearray]]:
        settings = self.options.batch
        columns = row_columns(batch, self.columns)
        partition = None if self.columns.partition is None else batch.column(self.columns.partition)
        now_ms = int(time.time() * 1000)
        for number, indices in partitioner.share_out(batch.num_rows, columns.key, partition):
            for encoded in encode_batches(
                columns,
                default_timestamp=now_ms,
                indices=indices,
                max_batch_bytes=settings.batch_bytes,
                compression=settings.codec,
                level=settings.level,
            ):
                yield number, encoded if isinstance(encoded, bytearray) else bytearray(encoded)
