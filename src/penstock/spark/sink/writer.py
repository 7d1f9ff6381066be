"""At-least-once writing: tasks send record batches to partition leaders and end once all are acknowledged.

Spark runs a failed task again, and the records of its first attempt stay. Within an attempt the idempotent
producer writes each row once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.spark.sink.columns import SinkColumns, find_columns
from penstock.spark.sink.encoding import RowEncoder, TopicLimits
from penstock.spark.sink.options import SinkOptions
from penstock.spark.workers.connections import WrittenTopics, discard_producer, shared_producer
from penstock.spark.workers.memory import settle_worker


@dataclass(frozen=True, slots=True)
class TaskWritten(WriterCommitMessage):
    """A task's report, sent once all its rows are acknowledged."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = WriteTask(
            options, find_columns(schema, options.topic is not None, options.encoded_parts)
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._task.run(iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._task = WriteTask(
            options, find_columns(schema, options.topic is not None, options.encoded_parts)
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._task.run(iterator)


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The writing of one task's rows; it is picklable and connects in the process that runs it."""

    options: SinkOptions
    columns: SinkColumns

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write the rows and wait for all acknowledgements. Raises RowRefused, ClientError."""
        settle_worker()
        options = self.options
        producer = shared_producer(options.client, options.producer)
        encoder = _Encoder(options, self.columns)
        rows = 0
        try:
            for batch in batches:
                for encoded in encoder.encode(batch):
                    producer.send(encoded.topic, encoded.partition, encoded.data)
                rows += batch.num_rows
            producer.flush()
        except BaseException:
            discard_producer(options.client, options.producer)
            raise
        return TaskWritten(rows)


class _Encoder(RowEncoder):
    """An encoder without size limits: if a broker rejects a batch as too large, the producer splits it."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        super().__init__(columns, options.topic, options.batch, encodings=options.encodings)
        self._written = WrittenTopics(options.client)

    def limits_of(self, topic: str) -> TopicLimits:
        return TopicLimits(len(self._written[topic].partitions))
