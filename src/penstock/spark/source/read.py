"""The work of a reading task: fetch ranges of partitions and pass them to Spark as Arrow batches.

A thread of the task fetches, so that the next responses arrive while Spark processes the current batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.arrow.loss import LossRule
from penstock.arrow.ranges import fetch_ranges
from penstock.arrow.scan import scan
from penstock.client.reading.fetcher import Fetched, PartitionRange
from penstock.spark.source.dead_letters import DeadLetterTopic
from penstock.spark.source.options import SourceOptions
from penstock.spark.workers.connections import give_back_reader, take_reader
from penstock.spark.workers.ending import end_worker_quietly
from penstock.spark.workers.memory import settle_worker

log = logging.getLogger(__name__)

_LOSS_ADVICE: Final = "set the option failOnDataLoss to false; to start again, use another checkpoint"


class RangePartition(InputPartition):
    """One task's work: one range, or ranges of several partitions."""

    value: tuple[PartitionRange, ...]

    def __init__(self, *ranges: PartitionRange) -> None:
        super().__init__(ranges)


def loss_rule(options: SourceOptions) -> LossRule:
    return LossRule(
        options.fail_on_data_loss,
        partial(log.warning, "records lost, continuing with the rest reason=%s"),
        _LOSS_ADVICE,
    )


def read_ranges(options: SourceOptions, ranges: Sequence[PartitionRange]) -> Iterator[pa.RecordBatch]:
    """Yield all records of some ranges, in order within each; ``failOnDataLoss`` applies to lost records.

    Raises DataLoss, UndecodableRecord, ClientError.
    """
    settle_worker()
    end_worker_quietly()
    fetched = _fetched(options, ranges)
    check_crcs = options.fetch.check_crcs
    if options.dead_letter_topic is None:
        for scanned in scan(fetched, options.layout, check_crcs=check_crcs):
            yield scanned.batch
        return
    letters = DeadLetterTopic(options.task_client, options.dead_letter_topic)
    is_done = False
    try:
        for scanned in scan(fetched, options.layout, check_crcs=check_crcs, dead_letters=letters.keep):
            yield scanned.batch
        letters.flush()
        is_done = True
    finally:
        if not is_done:
            letters.give_up()


def _fetched(options: SourceOptions, ranges: Sequence[PartitionRange]) -> Iterator[Fetched]:
    """Fetch in a thread, on its own connections, since it may outlive a task that is abandoned."""
    reader = take_reader(options.task_client, options.fetch)
    is_done = False
    try:
        yield from fetch_ranges(reader.fetcher, reader.cluster, ranges, loss_rule(options))
        is_done = True
    finally:
        if is_done:
            give_back_reader(reader)
        else:
            reader.close()
