"""The task of the source: reads its tables in turn, each when it is due."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connect.connector.source import SourceTask
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.connectors.sql.source.definition import BULK, TABLES, SourceSettings, definition
from penstock.connect.connectors.sql.source.offsets import QUERY_PARTITION, Position, partitions_of
from penstock.connect.connectors.sql.source.tables import tables_of_text
from penstock.connect.data.records import SourceRecord
from penstock.connect.definitions.config_def import ConfigDef
from penstock.connect.errors import ConnectError, RetriableError

if TYPE_CHECKING:
    from penstock.connect.connectors.sql.connecting import Database
    from penstock.connect.connectors.sql.source.reading import Reader

log = logging.getLogger(__name__)

WAIT_MAX_S = 0.5
"""How long a poll waits for a table to be due, so that the worker can stop the task."""


class SqlSourceTask(SourceTask):
    """Reads the tables that the connector gave it, or the query."""

    definition: ClassVar[ConfigDef] = definition()

    _database: Database | None = None

    def start(self, config: Mapping[str, Any]) -> None:
        """Prepare to read behind the stored offsets."""
        # imported late, so that a worker without SQLAlchemy can list the connector
        from penstock.connect.connectors.sql.connecting import Database
        from penstock.connect.connectors.sql.source.reading import Reader

        self._settings = settings = SourceSettings.of(config)
        self._database = Database(settings.database, settings.isolation)
        tables: list[TableName | None] = [None]
        if not settings.query:
            tables = [*tables_of_text(config.get(TABLES, "[]"))]
        dialect = self._database.dialect
        self._readers: list[Reader] = [
            Reader(settings, dialect, table, self._position(table)) for table in tables
        ]

    def _position(self, table: TableName | None) -> Position:
        if self._settings.mode == BULK:
            return Position()
        partitions = [QUERY_PARTITION] if table is None else partitions_of(table)
        found = self.context.offsets(partitions)
        return Position.of_offset(next((each for each in found if each is not None), None))

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next rows of the table that is read, or begin with the one that is due."""
        assert self._database is not None, "the worker starts a task before it polls"
        for _ in range(len(self._readers)):
            reader = next((each for each in self._readers if each.is_reading), None)
            if reader is None:
                reader = min(self._readers, key=lambda each: each.due_s)
                wait_s = reader.due_s - time.monotonic()
                if wait_s > 0:
                    time.sleep(min(wait_s, WAIT_MAX_S))
                    return None
            if records := self._read(self._database, reader):
                return records
        if not self._readers:
            time.sleep(WAIT_MAX_S)
        return None

    def _read(self, database: Database, reader: Reader) -> list[SourceRecord]:
        from sqlalchemy.exc import SQLAlchemyError

        from penstock.connect.connectors.sql.failures import DatabaseError, is_passing, shown

        try:
            records = reader.take(database.connection(), self._settings.rows_max)
            if not reader.is_reading:
                database.connection().rollback()
                reader.reset(time.monotonic() + self._settings.poll_s)
            return records
        except DatabaseError as error:
            reader.reset(0.0)
            raise RetriableError(str(error)) from error
        except SQLAlchemyError as error:
            reader.reset(0.0)
            database.disconnect()
            if is_passing(error, database.dialect):
                raise RetriableError(f"{database.shown} cannot be read now: {shown(error)}") from error
            raise ConnectError(f"{database.shown} refused a query: {shown(error)}") from error

    def stop(self) -> None:
        """Close the connection."""
        if self._database is not None:
            self._database.close()
