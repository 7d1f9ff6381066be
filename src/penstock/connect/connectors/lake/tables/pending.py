"""The records of one table that are not committed yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connectors.lake.columns.acceptance import AcceptedColumns
from penstock.connect.connectors.lake.columns.arrow_types import ArrowTypes
from penstock.connect.connectors.lake.columns.row_buffer import Report, RowBuffer
from penstock.connect.connectors.lake.tables.changes import Change
from penstock.connect.connectors.lake.tables.lake_table import Covered, LakeTable, Staged
from penstock.connect.data.records import SinkRecord


@dataclass(slots=True)
class Batch:
    """Rows on their way into the table, and the offsets that they cover. ``staged`` follows ``rows``."""

    rows: list[pa.Table]
    covered: Covered
    staged: Staged | None = None


class PendingRows:
    """A table, the rows that wait for the next commit, and the batch of a commit that may not be done.

    ``batch`` is set between the beginning and the end of a commit. No row is added while there is one.
    """

    def __init__(self, table: LakeTable, types: ArrowTypes, report: Report, *, has_keys: bool) -> None:
        self._table = table
        self._types = types
        self._report = report
        self._has_keys = has_keys
        self._buffers: dict[TopicPartition, RowBuffer] = {}
        self._covered: dict[TopicPartition, range] = {}
        self._batch: Batch | None = None
        self._written: dict[TopicPartition, int] = {}
        """The offsets behind what the table has, for the partitions that were asked for."""
        self._columns = self._current_columns()

    def written(self, tp: TopicPartition) -> int:
        """The offset behind the last record of a partition that the table has."""
        if tp not in self._written:
            self._written[tp] = self._table.offsets([tp]).get(tp, 0)
        return self._written[tp]

    def next_offset(self, tp: TopicPartition) -> int:
        """The offset behind the last record of a partition that the table has, or that waits for it."""
        offsets = self._covered.get(tp)
        return self.written(tp) if offsets is None else offsets.stop

    def add(self, record: SinkRecord, change: Change) -> None:
        """Keep a record's row for the next commit."""
        tp = TopicPartition(record.original_topic, record.original_partition)
        buffer = self._buffers.get(tp)
        if buffer is None:
            buffer = self._buffers[tp] = RowBuffer(
                self._types, self._report, self._accept, marks_deleted=self._has_keys
            )
        offsets = self._covered.get(tp)
        first = record.original_offset if offsets is None else offsets.start
        self._covered[tp] = range(first, record.original_offset + 1)
        buffer.add(record, change.schema, change.value, change.is_deleted)

    @property
    def nbytes(self) -> int:
        return sum(buffer.nbytes for buffer in self._buffers.values())

    @property
    def first_offsets(self) -> Mapping[TopicPartition, int]:
        """The first offset of each partition that is not known to be committed."""
        covered = self._covered if self._batch is None else self._batch.covered
        return {tp: offsets.start for tp, offsets in covered.items()}

    def commit(self) -> bool:
        """Stage and commit all rows, and return whether there were any.

        After a failure, the next call goes on where this one has stopped.
        """
        if self._batch is None:
            if not self._covered:
                return False
            rows = [table for buffer in self._buffers.values() for table in buffer.take()]
            self._batch = Batch(rows, self._covered)
            self._covered = {}
        batch = self._batch
        if batch.staged is None and batch.rows:
            batch.staged = self._table.stage(batch.rows)
            batch.rows = []
        if batch.staged is not None:  # all rows may have been bad
            self._table.commit([batch.staged], batch.covered)
        self._written |= {tp: offsets.stop for tp, offsets in batch.covered.items()}
        self._batch = None
        self._columns = self._current_columns()
        return True

    def forget(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Drop the rows of partitions that another task reads now.

        A batch has rows of several partitions, so all of it is dropped. Returns the other partitions that
        must be read again for that.
        """
        dropped = set(partitions)
        again: set[TopicPartition] = set()
        if self._batch is not None:
            again = self._batch.covered.keys() - dropped
            self._batch = None
        for tp in dropped | again:
            for kept in (self._buffers, self._covered, self._written):
                kept.pop(tp, None)
        return again

    def _accept(self, rows: pa.Table) -> None:
        self._columns.accept(rows)

    def _current_columns(self) -> AcceptedColumns:
        table = self._table
        return AcceptedColumns(table.columns(), evolves=table.evolves, widens=table.widens)
