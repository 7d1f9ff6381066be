"""What a task does: fetch one range of a partition and hand it to Spark as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.arrow.loss import LossRule
from penstock.client.cluster import Cluster
from penstock.client.errors import OffsetOutOfRange, UnknownPartition
from penstock.client.fetcher import PartitionRange
from penstock.client.offsets import EARLIEST, LATEST, list_offsets
from penstock.spark.connections import shared_cluster, shared_fetcher
from penstock.spark.source.arrow import arrow_batches
from penstock.spark.source.options import SourceOptions

logger = logging.getLogger(__name__)


_LOSS_ADVICE: Final = "set the option failOnDataLoss to false; to begin anew, use another checkpoint"


class RangePartition(InputPartition):
    """One task's work: one range, or ranges of several partitions."""

    value: tuple[PartitionRange, ...]

    def __init__(self, *ranges: PartitionRange) -> None:
        super().__init__(ranges)


def loss_rule(options: SourceOptions) -> LossRule:
    return LossRule(options.fail_on_data_loss, logger.warning, _LOSS_ADVICE)


def read_ranges(options: SourceOptions, ranges: Iterable[PartitionRange]) -> Iterator[pa.RecordBatch]:
    """All records of some ranges, in order within each. What is missing goes by ``failOnDataLoss``.

    Raises DataLoss, ClientError.
    """
    for wanted in ranges:
        yield from _read_range(options, wanted)


def _read_range(options: SourceOptions, wanted: PartitionRange) -> Iterator[pa.RecordBatch]:
    fetcher = shared_fetcher(options.task_client, options.fetch)
    loss = loss_rule(options)
    remaining = wanted
    while remaining.start < remaining.end:
        try:
            for fetched in fetcher.read([remaining]):
                yield from arrow_batches(
                    fetched.batches, remaining, options.include_headers, options.fetch.check_crcs
                )
            return
        except OffsetOutOfRange as gone:
            remaining = _after_loss(remaining, gone, shared_cluster(options.task_client), loss)
        except UnknownPartition as gone:
            loss.report(str(gone))
            return


def _after_loss(
    wanted: PartitionRange, gone: OffsetOutOfRange, cluster: Cluster, loss: LossRule
) -> PartitionRange:
    """What is left of a range after its leader refused an offset. Raises DataLoss."""
    tp = wanted.topic_partition
    earliest = list_offsets(cluster, {tp: EARLIEST})[tp].offset
    latest = list_offsets(cluster, {tp: LATEST})[tp].offset
    loss.report(
        f"offset {gone.offset} of {tp} cannot be read: its log begins at {earliest} and ends before {latest}"
    )
    start = max(gone.offset, earliest) if gone.offset < latest else wanted.end
    return wanted._replace(start=start, end=max(start, min(wanted.end, latest)))
