"""The end of the query: unpack blocks into the columns of the ``penstock`` sink, which writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.arrow.layout import HEADERS
from penstock.spark.sink.exactly_once import ExactlyOnceStreamWriter
from penstock.spark.sink.staged import GroupNote, TaskStaged
from penstock.spark.sink.writer import StreamWriter
from penstock.spark.streams.blocks.dropped import dropped_in
from penstock.spark.streams.blocks.merging import arrange
from penstock.spark.streams.blocks.packing import Block, Kind
from penstock.spark.streams.planning.plan import StreamsPlan
from penstock.spark.streams.query.counting import (
    DeadLetterCount,
    DeadLettersSeen,
    DroppedCount,
    with_counts,
)
from penstock.spark.streams.state.times import note_of_times

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
COLUMNS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("timestamp", TimestampType()),
        StructField("headers", ArrayType(_HEADER)),
    ]
)
_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("headers", HEADERS),
    ]
)


class _StreamsWriter(DataSourceStreamArrowWriter):
    """A mixin that unpacks blocks into rows for another writer, and merges those that several tasks wrote.

    It counts in the checkpoint the rows that go to the dead-letter topic, and the records that nodes dropped.
    """

    def of_plan(self, plan: StreamsPlan) -> None:
        assert plan.sink.checkpoint is not None
        self._letters = DeadLetterCount(plan.sink.checkpoint)
        self._dropped = DroppedCount(plan.sink.checkpoint, plan.topology.application)
        self._letter_topic = plan.topology.errors.dead_letter_topic
        self._is_merging = plan.has_shuffle and bool(plan.read_back)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        seen = DeadLettersSeen(self._letter_topic)
        found = _blocks(iterator)
        blocks = Unpacking(arrange(found) if self._is_merging else found)
        report = super().write(seen.passing(blocks.rows()))  # type: ignore[safe-super]  # of the other base
        return blocks.with_times(with_counts(report, seen.count, blocks.dropped))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        self._letters.add(messages, batchId)
        self._dropped.add(messages, batchId)


class ExactlyOnceStreamsWriter(_StreamsWriter, ExactlyOnceStreamWriter):
    def __init__(self, plan: StreamsPlan) -> None:
        super().__init__(plan.sink, COLUMNS, plan.driver)
        self.of_plan(plan)


class AtLeastOnceStreamsWriter(_StreamsWriter, StreamWriter):
    def __init__(self, plan: StreamsPlan) -> None:
        super().__init__(plan.sink, COLUMNS)
        self.of_plan(plan)


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[Block]:
    for batch in batches:
        for data in batch.column("block"):
            yield Block.unpack(data.as_py())


class Unpacking:
    """The blocks of one task, converted to the sink's input."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self._times: list[GroupNote] = []
        self.dropped: Counter[str] = Counter()
        """Dropped records by node, complete once all rows were taken."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield each block of outputs as one batch of rows for one topic.

        Blocks of other kinds are for tasks and have no output. Without a shuffle they come directly from the
        source.
        """
        for block in self._blocks:
            if block.kind is Kind.OUTPUTS and block.rows:
                yield block.to_arrow(_SCHEMA)
            elif block.kind is Kind.TIMES:
                self._times.append(note_of_times(block))
            elif block.kind is Kind.DROPPED:
                self.dropped.update(dropped_in(block))

    def with_times(self, report: WriterCommitMessage) -> WriterCommitMessage:
        """Add the times to the task's report, once all rows were taken; only a transaction keeps times."""
        if self._times and isinstance(report, TaskStaged):
            return replace(report, notes=tuple(self._times))
        return report
