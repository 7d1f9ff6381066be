"""Assign rows to partitions by the rules of Kafka's own producer.

The column ``partition`` comes first, then the murmur2 hash of the key. Rows without key stay with one
partition for a while (KIP-480) and then move on to the next.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.protocol.columns import BinaryColumn, group_by_partition, partition_keys

Share: TypeAlias = tuple[int, memoryview | None]
"""A partition and the indices of its rows; None means all rows."""


class RowRefused(ValueError):
    """A row cannot be written to any partition; the message names the reason."""


class Partitioner:
    """The partitioner of one topic with ``partitions`` partitions, for all rows of a task."""

    def __init__(self, topic: str, partitions: int, rng: random.Random | None = None) -> None:
        self._topic = topic
        self._partitions = partitions
        self._sticky = (rng or random.Random()).randrange(partitions)

    def share_out(self, rows: int, key: BinaryColumn | None, partition: pa.Array | None) -> Iterator[Share]:
        """Assign every row to one partition, in order within a partition. Raises RowRefused."""
        self._sticky = (self._sticky + 1) % self._partitions
        if partition is None and (self._partitions == 1 or key is None or key.null_count == rows):
            yield self._sticky, None
            return
        if key is None or key.null_count == rows:
            ids = np.full(rows, -1, np.int32)
        else:
            ids = np.frombuffer(partition_keys(key, 0, rows, self._partitions), np.int32).copy()
        if partition is not None:
            self._place_by_column(ids, partition)
        ids[ids < 0] = self._sticky
        yield from group_by_partition(ids.data, self._partitions)

    def _place_by_column(self, ids: np.ndarray, partition: pa.Array) -> None:
        chosen = partition.is_valid().to_numpy(zero_copy_only=False)
        wanted = partition.fill_null(0).to_numpy()
        bad = chosen & ((wanted < 0) | (wanted >= self._partitions))
        if bad.any():
            raise RowRefused(
                f"the column 'partition' holds {wanted[bad][0]}, but topic '{self._topic}' has the "
                f"partitions 0 to {self._partitions - 1}"
            )
        np.copyto(ids, wanted, where=chosen)
