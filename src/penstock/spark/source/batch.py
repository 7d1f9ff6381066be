"""The batch reader: a DataFrame of what topics hold between two positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.client.cluster import Cluster
from penstock.client.fetcher import PartitionRange
from penstock.spark.source.offsets import resolve
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.planning import plan_ranges, split_ranges
from penstock.spark.source.read import RangePartition, loss_rule, read_ranges


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """One Spark partition for each topic partition with something to read, or more if asked for."""
        with Cluster(self._options.client) as cluster:
            return [RangePartition(part) for part in self._plan(cluster)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's stand-in where there are no partitions
            return iter(())
        return read_ranges(self._options, partition.value)

    def _plan(self, cluster: Cluster) -> list[PartitionRange]:
        options = self._options
        partitions = options.subscription.existing(cluster)
        isolation = options.fetch.isolation
        start = resolve(options.starting, partitions, cluster, isolation, "startingOffsets")
        end = resolve(options.ending, partitions, cluster, isolation, "endingOffsets")
        ranges = plan_ranges(start, end, lambda added: {}, loss_rule(options))
        parts = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
        topics = cluster.metadata.topics
        return [part._replace(topic_id=topics[part.topic].topic_id) for part in parts]
