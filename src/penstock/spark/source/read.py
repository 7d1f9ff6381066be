"""What a task does: fetch one range of a partition and hand it to Spark as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.client.cluster import Cluster
from penstock.client.errors import OffsetOutOfRange, UnknownPartition
from penstock.client.fetcher import PartitionRange
from penstock.client.offsets import EARLIEST, LATEST, list_offsets
from penstock.spark.connections import shared_cluster, shared_fetcher
from penstock.spark.source.arrow import arrow_batches
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.planning import LossRule

logger = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """One task's work; ``value`` is a `PartitionRange`."""

    value: PartitionRange


def loss_rule(options: SourceOptions) -> LossRule:
    return LossRule(options.fail_on_data_loss, logger.warning)


def read_range(options: SourceOptions, wanted: PartitionRange) -> Iterator[pa.RecordBatch]:
    """All records of a range, in order. What is missing goes by ``failOnDataLoss``.

    Raises DataLoss, ClientError.
    """
    fetcher = shared_fetcher(options.client, options.fetch)
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
            remaining = _after_loss(remaining, gone, shared_cluster(options.client), loss)
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
