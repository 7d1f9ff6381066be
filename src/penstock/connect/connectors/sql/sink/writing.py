"""Writes batches in transactions, and finds the record that a database refuses by halving its batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connectors.sql.connecting import Database
from penstock.connect.connectors.sql.failures import DatabaseError, is_passing, shown
from penstock.connect.connectors.sql.sink.definition import SinkSettings
from penstock.connect.connectors.sql.sink.offsets import OffsetsMoved, OffsetsTable
from penstock.connect.connectors.sql.sink.operations import Operation, Operations
from penstock.connect.connectors.sql.sink.refusals import RowRefused, place
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError, RetriableError

log = logging.getLogger(__name__)

Report = Callable[[SinkRecord, Exception], Future[None]]
ROW_ERRORS = (ValueError, TypeError, ArithmeticError)
"""Errors of drivers, besides SQLAlchemy's, for values that they cannot send."""


class Writer:
    """Writes the records of one task."""

    def __init__(self, settings: SinkSettings, database: Database) -> None:
        self._database = database
        self._operations = Operations(settings, database)
        self._offsets: OffsetsTable | None = None
        if settings.offsets_table is not None:
            self._offsets = OffsetsTable(database, settings.offsets_table, settings.connector)
            self._offsets.create()
        self._written: dict[TopicPartition, int] = {}
        """The offsets behind the records that are written; with a table of offsets, those in it."""
        self._partitions: set[TopicPartition] = set()
        self._reported: set[tuple[TopicPartition, int]] = set()
        """Records that were reported already, in case their batch comes again."""
        self._reports: list[Future[None]] = []
        """Reports that may not have arrived yet."""

    def open(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Begin with partitions; return the offsets from which to read, as far as the database has them.

        Raises:
            RetriableError: the database cannot be read now.
        """
        self.close(partitions)
        self._partitions.update(partitions)
        if self._offsets is None:
            return {}
        found = self._stored(self._offsets, partitions)
        self._written |= found
        return found

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions."""
        for each in partitions:
            self._written.pop(each, None)
            self._partitions.discard(each)
        self._reported = {each for each in self._reported if each[0] in self._partitions}

    def write(self, records: Sequence[SinkRecord], report: Report | None) -> None:
        """Write records, in one transaction if none is refused.

        Records that cannot be written are reported; without ``report`` nothing is written.

        Raises:
            RetriableError: the database cannot be reached, or a lock was not granted.
            ConnectError: a record cannot be written, and there is nobody to report it to.
        """
        from sqlalchemy.exc import SQLAlchemyError

        try:
            if not self._apply_whole(list(self._collect(records, report))):
                self._apply(list(self._collect(records, report)), report)
            if self._offsets is not None:
                self._transaction((), self._ends(records))
            self._reported.clear()
        except (OffsetsMoved, DatabaseError) as error:
            self._recover()
            raise RetriableError(str(error)) from error
        except SQLAlchemyError as error:
            self._recover()
            if is_passing(error, self._database.dialect):
                raise RetriableError(
                    f"{self._database.shown} cannot be written now: {shown(error)}"
                ) from error
            raise ConnectError(f"{self._database.shown} refused a statement: {shown(error)}") from error

    def _recover(self) -> None:
        """Drop the connection, and what is known of the database."""
        self._database.disconnect()
        self._operations.forget()

    def reload(self) -> dict[TopicPartition, int]:
        """Read the stored offsets again, since it is not known whether the last transaction was committed.

        Returns the offsets that are lower than before, because the database has lost transactions.

        Raises:
            RetriableError: the database cannot be read now.
            ConnectError: offsets that were stored are gone, so it is not known what else is lost.
        """
        if self._offsets is None:
            return {}
        before = self._written
        found = self._stored(self._offsets, self._partitions)
        if gone := [each for each in before if each not in found]:
            raise ConnectError(
                f"{self._database.shown} has lost the stored offset of {gone[0].topic}-{gone[0].partition},"
                f" which was {before[gone[0]]}; set the offset from which to write again"
            )
        self._written = found
        return {each: end for each, end in self._written.items() if end < before.get(each, 0)}

    def _stored(
        self, offsets: OffsetsTable, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return offsets.read(partitions)
        except (DatabaseError, SQLAlchemyError) as error:
            self._recover()
            raise RetriableError(f"{self._database.shown} has no offsets now: {shown(error)}") from error

    def finish_batch(self) -> None:
        """Forget what was written of a batch, because it does not come again."""
        if self._offsets is None:
            self._written.clear()
            self._reports.clear()

    def _collect(self, records: Sequence[SinkRecord], report: Report | None) -> Iterable[Operation]:
        for record in records:
            partition = TopicPartition(record.original_topic, record.original_partition)
            if record.original_offset < self._written.get(partition, 0):
                continue
            try:
                operation = self._operations.of(record)
            except RowRefused as error:
                self._reject(record, error, report)
            else:
                if operation is not None:
                    yield operation

    def _apply_whole(self, operations: Sequence[Operation]) -> bool:
        """Write operations in one transaction; False if the database refuses them.

        Then the tables may have changed, so that the operations have to be made again.
        """
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self._transaction(operations, self._ends(each.record for each in operations))
        except (SQLAlchemyError, *ROW_ERRORS) as error:
            if is_passing(error, self._database.dialect):
                raise
            self._operations.forget()
            return False
        return True

    def _apply(self, operations: Sequence[Operation], report: Report | None) -> None:
        """Write operations; if the database refuses them, write each half by itself."""
        from sqlalchemy.exc import SQLAlchemyError

        if not operations:
            return
        try:
            self._transaction(operations, self._ends(each.record for each in operations))
        except (SQLAlchemyError, *ROW_ERRORS) as error:
            if is_passing(error, self._database.dialect):
                raise
            if len(operations) == 1:
                self._reject(operations[0].record, RowRefused(shown(error)), report)
                return
            if report is None:
                raise self._without_report(operations, error) from error
            middle = len(operations) // 2
            self._apply(operations[:middle], report)
            self._apply(operations[middle:], report)

    def _transaction(self, operations: Sequence[Operation], ends: dict[TopicPartition, int]) -> None:
        behind = {each: end for each, end in ends.items() if end > self._written.get(each, -1)}
        if not behind and not operations:
            return
        if self._offsets is not None:
            self._await_reports()
        connection = self._database.connection()
        with connection.begin():
            if self._offsets is not None:
                self._offsets.advance(connection, self._written, behind)
            self._operations.run(connection, operations)
        self._written |= behind

    def _without_report(self, operations: Sequence[Operation], error: Exception) -> ConnectError:
        """The error for a batch of which nothing is written, with the record at fault if one alone is."""
        culprit = self._culprit(operations)
        if culprit is None:
            return ConnectError(f"{self._database.shown} refused {len(operations)} rows: {shown(error)}")
        return ConnectError(f"the record of {place(culprit.record)} cannot be written: {shown(error)}")

    def _culprit(self, operations: Sequence[Operation]) -> Operation | None:
        while len(operations) > 1:
            middle = len(operations) // 2
            halves = operations[:middle], operations[middle:]
            refused = next((half for half in halves if not self._is_accepted(half)), None)
            if refused is None:
                return None
            operations = refused
        return operations[0]

    def _is_accepted(self, operations: Sequence[Operation]) -> bool:
        from sqlalchemy.exc import SQLAlchemyError

        connection = self._database.connection()
        transaction = connection.begin()
        try:
            self._operations.run(connection, operations)
        except (SQLAlchemyError, *ROW_ERRORS):
            return False
        finally:
            transaction.rollback()
        return True

    def _reject(self, record: SinkRecord, error: Exception, report: Report | None) -> None:
        if report is None:
            raise ConnectError(f"the record of {place(record)} cannot be written: {error}") from error
        partition = TopicPartition(record.original_topic, record.original_partition)
        if (partition, record.original_offset) in self._reported:
            return
        log.debug("a record is refused record=%s error=%s", place(record), error)
        self._reports.append(report(record, error))
        self._reported.add((partition, record.original_offset))

    def _await_reports(self) -> None:
        """Wait until reports have arrived: a task that begins at the stored offset does not repeat them."""
        reports, self._reports = self._reports, []
        for each in reports:
            try:
                each.result()
            except (Exception, CancelledError) as error:
                raise ConnectError(f"a reported record was not written: {error}") from error

    def _ends(self, records: Iterable[SinkRecord]) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for record in records:
            partition = TopicPartition(record.original_topic, record.original_partition)
            ends[partition] = max(record.original_offset + 1, ends.get(partition, 0))
        return ends
