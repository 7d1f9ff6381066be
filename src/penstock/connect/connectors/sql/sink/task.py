"""The task of the sink: hands records to the writer, and tries again after errors that pass."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.sink import SinkTask
from penstock.connect.connectors.sql.sink.definition import SinkSettings, definition
from penstock.connect.data.records import SinkRecord
from penstock.connect.definitions.config_def import ConfigDef
from penstock.connect.errors import ConnectError, RetriableError

if TYPE_CHECKING:
    from penstock.connect.connectors.sql.connecting import Database
    from penstock.connect.connectors.sql.sink.writing import Writer

log = logging.getLogger(__name__)


class SqlSinkTask(SinkTask):
    """Writes records of its partitions to tables."""

    definition: ClassVar[ConfigDef] = definition()

    _database: Database | None = None
    _writer: Writer

    def start(self, config: Mapping[str, Any]) -> None:
        """Connect to the database."""
        # imported late, so that a worker without SQLAlchemy can list the connector
        from penstock.connect.connectors.sql.connecting import Database
        from penstock.connect.connectors.sql.sink.writing import Writer

        self._settings = SinkSettings.of(config)
        self._database = Database(self._settings.database)
        self._writer = Writer(self._settings, self._database)
        self._remaining = self._settings.retries_max
        self._unread: set[TopicPartition] = set()
        """Partitions whose offsets in the database are not known yet."""

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Continue where the database says, if the offsets are there.

        If the database cannot be read now, the next `put` does it: an error here would fail the task.
        """
        try:
            self._seek(partitions)
        except RetriableError as error:
            log.warning("offsets are read later error=%s", error)
            self._unread.update(partitions)

    def _seek(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = self._writer.open(partitions)
        if found:
            self.context.seek(found)
        return found

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write a batch."""
        if not records:
            return
        reporter = self.context.reporter
        try:
            if moved := self._moved():
                records = [each for each in records if _partition(each) not in moved]
            self._writer.write(records, None if reporter is None else reporter.report)
        except RetriableError as error:
            if self._remaining == 0:
                raise ConnectError(
                    f"{error}; {self._settings.retries_max} more attempts failed too"
                ) from error
            self._remaining -= 1
            self.context.timeout(self._settings.backoff_ms)
            raise
        self._writer.finish_batch()
        self._remaining = self._settings.retries_max

    def _moved(self) -> Mapping[TopicPartition, int]:
        """Seek to the offsets of the database that are not those of the next records; return these."""
        if self._unread:
            moved = self._seek(self._unread)
            self._unread.clear()
            return moved
        if self._remaining == self._settings.retries_max:
            return {}
        lost = self._writer.reload()
        if lost:
            self.context.seek(lost)
        return lost

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Finish with partitions."""
        self._writer.close(partitions)
        self._unread.difference_update(partitions)

    def stop(self) -> None:
        """Close the connection."""
        if self._database is not None:
            self._database.close()


def _partition(record: SinkRecord) -> TopicPartition:
    return TopicPartition(record.original_topic, record.original_partition)
