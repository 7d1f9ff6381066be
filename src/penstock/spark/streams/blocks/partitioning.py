"""The partitions of records that one stage of a query passes to another, as Kafka chooses them."""

from __future__ import annotations

import numpy as np

from penstock.protocol.columns import BinaryColumn, partition_keys
from penstock.spark.streams.blocks.packing import Binary


def partitions_of(
    keys: Binary, counts: np.ndarray, chosen: np.ndarray | None, keyless: np.ndarray
) -> np.ndarray:
    """Return the partition (int32) of each record, as Kafka's partitioner chooses it.

    ``counts`` is the number of partitions of each record's topic. ``chosen`` has partitions that were given
    (-1: none). The numbers ``keyless`` decide for records without a key, so that a repeated batch sends them
    to the same partition.
    """
    partitions: np.ndarray = keyless % counts
    has_key = keys.lengths >= 0
    column = BinaryColumn(keys.ends.data, keys.data)
    for count in set(counts.tolist()):
        hashed = np.frombuffer(partition_keys(column, 0, len(counts), count), np.int32)
        partitions = np.where(has_key & (counts == count), hashed, partitions)
    if chosen is not None:
        partitions = np.where(chosen >= 0, chosen, partitions)
    return partitions.astype(np.int32)
