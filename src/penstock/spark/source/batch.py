"""The batch reader: a DataFrame of the records between two positions of topics."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.client.admin.log_dirs import partition_bytes
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError
from penstock.client.reading.fetcher import PartitionRange
from penstock.client.reading.offsets import EARLIEST, LATEST, list_offsets
from penstock.client.settings import ConfigError
from penstock.spark.source.offsets import Offsets, resolve
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.planning import plan_ranges, share_by_size, share_whole, split_ranges
from penstock.spark.source.read import RangePartition, loss_rule, read_ranges

log = logging.getLogger(__name__)

# Spark does not tell a Python source how many cores the executors have, so the driver's own cores stand for
# them.
TASKS_PER_CORE: Final = 4
"""The number of tasks for each core, so that the slowest task does not delay the rest."""
TASK_BYTES_MIN: Final = 4 << 20
"""The smallest size at which a task is worth its start."""
TASK_BYTES_MAX: Final = 64 << 20
"""The largest size at which a failed task is cheap to repeat."""


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Plan tasks of similar size, or by the rules of Spark's own source if options ask for those."""
        with Cluster(self._options.client) as cluster:
            cluster.require_listener()
            return [RangePartition(*ranges) for ranges in self._plan(cluster)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's placeholder if there are no partitions
            return iter(())
        return read_ranges(self._options, partition.value)

    def _plan(self, cluster: Cluster) -> list[list[PartitionRange]]:
        options = self._options
        start, end = self._resolve(cluster)
        for tp in sorted(end):
            if start[tp] > end[tp]:
                raise ConfigError(
                    f"the start of {tp} is offset {start[tp]}: expected one up to its end, {end[tp]}"
                )
        topics = cluster.metadata.topics
        ranges = [
            part._replace(topic_id=topics[part.topic].topic_id)
            for part in plan_ranges(start, end, lambda added: {}, loss_rule(options))
        ]
        if options.max_partitions is not None and len(ranges) > options.max_partitions:
            return share_whole(ranges, options.max_partitions)
        if options.min_partitions or options.max_records_per_partition:
            parts = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
            return [[part] for part in parts]
        return self._share(ranges, cluster)

    def _resolve(self, cluster: Cluster) -> tuple[Offsets, Offsets]:
        options = self._options
        partitions = options.subscription.existing(cluster)
        isolation = options.fetch.isolation
        start = resolve(options.starting, partitions, cluster, isolation, "startingOffsets")
        return start, resolve(options.ending, partitions, cluster, isolation, "endingOffsets")

    def _share(self, ranges: list[PartitionRange], cluster: Cluster) -> list[list[PartitionRange]]:
        if not ranges:
            return []
        densities = self._bytes_per_offset([part.topic_partition for part in ranges], cluster)
        if not densities:
            return [[part] for part in ranges]
        mean = sum(densities.values()) / len(densities)
        total = sum((r.end - r.start) * densities.get(r.topic_partition, mean) for r in ranges)
        target = self._options.max_bytes_per_partition or task_bytes(total, os.cpu_count() or 1)
        shared = share_by_size(ranges, densities, target)
        if self._options.max_partitions is not None and len(shared) > self._options.max_partitions:
            return share_by_size(ranges, densities, total / self._options.max_partitions)
        return shared

    def _bytes_per_offset(
        self, partitions: list[TopicPartition], cluster: Cluster
    ) -> dict[TopicPartition, float]:
        """Estimate the average size of an offset: brokers report the size of whole logs only."""
        try:
            sizes = partition_bytes(cluster, partitions)
        except ClientError as error:
            log.warning("log sizes not available, planning tasks by topic partition error=%s", error)
            return {}
        earliest = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        latest = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        return {
            tp: size / (latest[tp].offset - earliest[tp].offset)
            for tp, size in sizes.items()
            if size and latest[tp].offset > earliest[tp].offset
        }


def task_bytes(total: float, cores: int) -> float:
    """The size to aim at for each task when together they read ``total`` bytes."""
    return min(TASK_BYTES_MAX, max(TASK_BYTES_MIN, total / (cores * TASKS_PER_CORE)))
