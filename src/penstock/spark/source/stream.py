"""The streaming reader: what Spark asks of a source between micro-batches, answered on the driver.

Offsets are those of Spark's own Kafka source, ``{"topic": {"0": 123}}`` with the next offset to read.

Spark writes the end of a batch to the checkpoint before it runs the batch, but nobody writes the first start:
after a crash in batch 0 it asks `initialOffset` again. Where that answer moves (``latest``, timestamps), the
records between the two answers would be lost, so such a query begins with an empty batch that pins its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.cluster import Cluster
from penstock.client.fetcher import PartitionRange
from penstock.client.metadata import TopicPartition
from penstock.client.offsets import EARLIEST, list_offsets
from penstock.spark.source.offsets import Offsets, from_json, resolve, to_json
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.planning import limit_rows, plan_ranges, split_ranges
from penstock.spark.source.read import RangePartition, loss_rule, read_ranges
from penstock.spark.source.tail import Tail

JsonOffsets = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._driver: _Driver | None = None

    @property
    def _here(self) -> _Driver:
        """The state on the driver; executors, who get a pickled reader, never need it."""
        if self._driver is None:
            self._driver = _Driver(self._options)
        return self._driver

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_driver": None}

    def initialOffset(self) -> JsonOffsets:
        return to_json(self._here.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(self._here.latest(from_json(start), max_rows))

    def reportLatestOffset(self) -> JsonOffsets | None:
        return to_json(self._here.tail.last_listed) or None

    def prepareForTriggerAvailableNow(self) -> None:
        self._here.stop_at_the_present_end()

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        return [RangePartition(part) for part in self._here.plan(from_json(start), from_json(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(self._options, partition.value)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()


class _Driver:
    """One query's source in its life on the driver."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.client)
        self.tail = Tail(self._cluster, options.subscription, options.fetch.isolation)
        self._initial: Offsets | None = None
        self._final: Offsets | None = None
        self._was_asked = False

    def close(self) -> None:
        self.tail.close()
        self._cluster.close()

    def initial(self) -> Offsets:
        """Where a query without a checkpoint starts; the same answer however often Spark asks."""
        if self._initial is None:
            partitions = self._options.subscription.existing(self._cluster)
            isolation = self._options.fetch.isolation
            self._initial = resolve(
                self._options.starting, partitions, self._cluster, isolation, "startingOffsets"
            )
        return self._initial

    def stop_at_the_present_end(self) -> None:
        self.tail.list_now()
        self._final = self.tail.last_listed

    def latest(self, start: Offsets, max_rows: int | None) -> Offsets:
        """The end of the next batch that starts at ``start``."""
        is_first = not self._was_asked
        self._was_asked = True
        if is_first and start == self._initial and self._options.start_moves:
            return start
        end = self.tail.ends(start) if self._final is None else self._final
        if max_rows is None or end == start:
            return end
        return limit_rows(start, end, self._earliest(end.keys() - start.keys()), max_rows)

    def plan(self, start: Offsets, end: Offsets) -> list[PartitionRange]:
        """The ranges of a batch. Raises DataLoss."""
        if not self._was_asked and start == self._initial and self._options.start_moves:
            return []  # batch 0 once more: it pinned the start at its end and held nothing
        options = self._options
        ranges = plan_ranges(start, end, self._earliest, loss_rule(options))
        parts = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        topics = self._cluster.topics({part.topic for part in parts})
        return [
            part._replace(topic_id=topics[part.topic].topic_id) if part.topic in topics else part
            for part in parts
        ]

    def _earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        listed = list_offsets(self._cluster, dict.fromkeys(partitions, EARLIEST))
        return {tp: found.offset for tp, found in listed.items()}
