"""The task of a sink into tables: buffers rows by partition, and commits them at an interval."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.sink import Offsets, SinkTask
from penstock.connect.connectors.lake.bad_records import report_or_raise
from penstock.connect.connectors.lake.columns.arrow_types import ArrowTypes
from penstock.connect.connectors.lake.tables.changes import Change, KeyedChanges
from penstock.connect.connectors.lake.tables.lake_table import LakeTable, OffsetsTaken
from penstock.connect.connectors.lake.tables.pending import PendingRows
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError, DataError, RetriableError

log = logging.getLogger(__name__)

BUFFER_BYTES: Final = "buffer.max.bytes"
BUFFER_BYTES_DEFAULT: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class TableSettings:
    """The settings of the task that all formats have."""

    commit_interval_ms: int
    buffer_bytes_max: int
    types: ArrowTypes


class TableSinkTask(SinkTask):
    """Writes records to tables; the offsets are in the tables, in the commits of the rows."""

    @abstractmethod
    def configure(self, config: Mapping[str, Any]) -> TableSettings:
        """Read the configuration."""

    @abstractmethod
    def table_names(self, record: SinkRecord) -> Sequence[str]:
        """Return the tables that get a record."""

    @abstractmethod
    def open_table(self, name: str) -> LakeTable:
        """Return a table, which need not exist yet."""

    @abstractmethod
    def keyed(self, name: str) -> KeyedChanges | None:
        """Return how changes of a table are read from records; None if the table only grows."""

    def start(self, config: Mapping[str, Any]) -> None:
        self._settings = self.configure(config)
        self._tables: dict[str, PendingRows] = {}
        self._keyed: dict[str, KeyedChanges | None] = {}
        self._must_retry = False
        self._read_again: dict[TopicPartition, int] = {}
        """Where partitions continue that were set back, until their first record arrives."""
        self._skipped: set[tuple[str, TopicPartition]] = set()
        self._caught_up: set[tuple[str, TopicPartition]] = set()
        """Tables and partitions of which a record was added since the partition was assigned or set back."""
        self._committed_s = time.monotonic()

    def put(self, records: Sequence[SinkRecord]) -> None:
        try:
            if self._must_retry:
                self._commit()
        except OffsetsTaken as error:
            self._begin_again(error, records)
            return
        for record in records:
            self._add(record)  # this may raise RetriableError: records that come again are not added twice
        if self._is_due():
            self._try_to_commit()
        self._wait_for_next_commit()

    def pre_commit(self, offsets: Offsets) -> Offsets:
        first = self._first_offsets()
        return {tp: min(offset, first.get(tp, offset)) for tp, offset in offsets.items()}

    def close(self, partitions: Collection[TopicPartition]) -> None:
        first = self._first_offsets()  # of all tables: one may lack records before those of another's batch
        affected = {tp for pending in self._tables.values() for tp in pending.forget(partitions)}
        again = {tp: first[tp] for tp in affected}
        for pending in self._tables.values():
            pending.forget(again)
        self._caught_up = {each for each in self._caught_up if each[1] not in affected.union(partitions)}
        self._must_retry = False
        self._read_again = {tp: at for tp, at in self._read_again.items() if tp not in partitions} | again
        if again:
            self.context.seek(again)

    def _add(self, record: SinkRecord) -> None:
        tp = TopicPartition(record.original_topic, record.original_partition)
        self._read_again.pop(tp, None)
        try:
            names = self.table_names(record)
            changes = [(name, self._change(name, record)) for name in names]
        except DataError as error:
            self._report(record, error)
            return
        for name, change in changes:
            pending = self._pending(name)
            if record.original_offset >= pending.next_offset(tp):
                pending.add(record, change)
                self._caught_up.add((name, tp))
            elif record.original_offset < pending.written(tp):
                self._skip(name, tp, record.original_offset, pending.written(tp))

    def _skip(self, name: str, tp: TopicPartition, offset: int, written: int) -> None:
        """Leave out a record that a table has. Raises ConnectError if it must be another record.

        After a crash or a rebalance, a partition begins again before the offset that the table has. It does
        not go back later, unless its topic was created again.
        """
        if (name, tp) in self._caught_up:
            raise ConnectError(
                f"{tp} goes on at offset {offset}, expected {written} or more, which the table {name} has "
                "reached: if the topic was deleted and created again, set another id for the offsets"
            )
        if (name, tp) not in self._skipped:
            self._skipped.add((name, tp))
            log.warning(
                "records are skipped, the table has them partition=%s first=%d below=%d table=%s",
                *(tp, offset, written, name),
            )

    def _change(self, name: str, record: SinkRecord) -> Change:
        if name not in self._keyed:
            self._keyed[name] = self.keyed(name)
        keyed = self._keyed[name]
        if keyed is not None:
            return keyed.of(record)
        if record.value is None:
            raise DataError("a record without a value has no row; a table with keys would delete by it")
        return Change(record.value_schema, record.value)

    def _pending(self, name: str) -> PendingRows:
        found = self._tables.get(name)
        if found is None:
            has_keys = self._keyed[name] is not None
            found = PendingRows(self.open_table(name), self._settings.types, self._report, has_keys=has_keys)
            self._tables[name] = found
        return found

    def _report(self, record: SinkRecord, error: Exception) -> None:
        report_or_raise(self.context, record, error)

    def _is_due(self) -> bool:
        if self._due_in_s() <= 0:
            return True
        return sum(pending.nbytes for pending in self._tables.values()) >= self._settings.buffer_bytes_max

    def _due_in_s(self) -> float:
        return self._committed_s + self._settings.commit_interval_ms / 1000 - time.monotonic()

    def _try_to_commit(self) -> None:
        """Commit; after a failure that may pass, the next `put` does."""
        try:
            self._commit()
        except RetriableError as error:
            self._must_retry = True
            log.warning("tables are not committed, retrying error=%s", error)
        except OffsetsTaken as error:
            self._begin_again(error, ())

    def _begin_again(self, error: OffsetsTaken, records: Sequence[SinkRecord]) -> None:
        """Read all that waits, and these records, again: a task that was stopped late has written some of it.

        Records that the table has by then are skipped. The late task itself may not set its partitions back,
        because they are not its own any longer, and fails.
        """
        log.warning("rows are read again error=%s", error)
        again = self._first_offsets()
        for record in records:
            tp = TopicPartition(record.original_topic, record.original_partition)
            again[tp] = min(record.original_offset, again.get(tp, record.original_offset))
        for pending in self._tables.values():
            pending.forget(again)
        self._caught_up = {each for each in self._caught_up if each[1] not in again}
        self._must_retry = False
        self._read_again = again
        self.context.seek(again)

    def _first_offsets(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that may not be in all tables."""
        first = dict(self._read_again)
        for pending in self._tables.values():
            for tp, offset in pending.first_offsets.items():
                first[tp] = min(offset, first.get(tp, offset))
        return first

    def _commit(self) -> None:
        has_committed = False
        for pending in self._tables.values():
            has_committed = pending.commit() or has_committed
        self._must_retry = False
        self._committed_s = time.monotonic()
        if has_committed:
            self.context.request_commit()

    def _wait_for_next_commit(self) -> None:
        """Have `put` called once rows are due, though there are no new records."""
        if self._must_retry:
            self.context.timeout(1000)
        elif any(pending.first_offsets for pending in self._tables.values()):
            self.context.timeout(max(1, round(self._due_in_s() * 1000)))
