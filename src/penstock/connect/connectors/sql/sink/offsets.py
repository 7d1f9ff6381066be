"""Offsets of Kafka's partitions in a table of the database, in the transactions of the rows.

A task that was declared dead may still write. So a transaction changes an offset only from the value that
the task knows. If another task has changed it, the transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connectors.sql.connecting import Database
from penstock.connect.connectors.sql.failures import DatabaseError, shown
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.errors import ConnectError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

COLUMNS = ("connector", "kafka_topic", "kafka_partition", "next_offset")


class OffsetsMoved(ConnectError):
    """Another task has written records of the same partition."""


class OffsetsTable:
    """The offsets of one connector."""

    def __init__(self, database: Database, table: str, connector: str) -> None:
        """Raise ConnectError if the table's name is none, or there is no name of a connector."""
        if not connector:
            raise ConnectError("offsets.table.name needs the connector's name")
        self._database = database
        self._connector = connector
        dialect = database.dialect
        self._name = TableName.parse(table)
        self._table = dialect.table(self._name)
        quoted = [dialect.quote(each) for each in COLUMNS]
        self._where = " AND ".join(
            f"{name} = {marker}" for name, marker in zip(quoted, dialect.placeholders(3), strict=False)
        )
        self._names = ", ".join(quoted)
        self._quoted = quoted

    def create(self) -> None:
        """Create the table if it does not exist.

        Raises:
            DatabaseError: the database refuses, or cannot be reached.
        """
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self._create()
        except SQLAlchemyError as error:
            # Another task has perhaps created it at the same time, which PostgreSQL calls an error.
            self._database.disconnect()
            if not self._exists():
                raise DatabaseError(f"the table {self._table} cannot be created: {shown(error)}") from error

    def _create(self) -> None:
        name, topic, partition, offset = self._quoted
        # Names that differ in case only are different connectors and topics.
        text = self._database.dialect.exact_text
        connection = self._database.connection()
        with connection.begin():
            connection.exec_driver_sql(
                f"CREATE TABLE IF NOT EXISTS {self._table} ({name} {text.format(255)} NOT NULL,"
                f" {topic} {text.format(249)} NOT NULL, {partition} INTEGER NOT NULL,"
                f" {offset} BIGINT NOT NULL, PRIMARY KEY ({name}, {topic}, {partition}))"
            )

    def _exists(self) -> bool:
        connection = self._database.connection()
        with connection.begin():
            return bool(self._database.dialect.columns(connection, self._name))

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that are stored for partitions: those of the next records to write."""
        statement = f"SELECT {self._quoted[3]} FROM {self._table} WHERE {self._where}"
        connection = self._database.connection()
        found = {}
        with connection.begin():
            for each in partitions:
                offset = connection.exec_driver_sql(statement, self._key(each)).scalar_one_or_none()
                if offset is not None:
                    found[each] = offset
        return found

    def advance(
        self,
        connection: Connection,
        known: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """Store offsets in the transaction of a connection.

        Raises:
            OffsetsMoved: one of them is not the known one any more.
        """
        from sqlalchemy.exc import IntegrityError

        for each, end in ends.items():
            before = known.get(each)
            try:
                moved = not (
                    self._insert(connection, each, end)
                    if before is None
                    else self._update(connection, each, before, end)
                )
            except IntegrityError:
                moved = True
            if moved:
                raise OffsetsMoved(f"another task has written records of {each.topic}-{each.partition}")

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Store other offsets, or remove them."""
        self.create()
        connection = self._database.connection()
        with connection.begin():
            for each, offset in offsets.items():
                statement = f"DELETE FROM {self._table} WHERE {self._where}"
                connection.exec_driver_sql(statement, self._key(each))
                if offset is not None:
                    self._insert(connection, each, offset)

    def _key(self, partition: TopicPartition) -> tuple[str, str, int]:
        return self._connector, partition.topic, partition.partition

    def _insert(self, connection: Connection, partition: TopicPartition, end: int) -> bool:
        markers = ", ".join(self._database.dialect.placeholders(4))
        connection.exec_driver_sql(
            f"INSERT INTO {self._table} ({self._names}) VALUES ({markers})", (*self._key(partition), end)
        )
        return True

    def _update(self, connection: Connection, partition: TopicPartition, before: int, end: int) -> bool:
        name, topic, number, offset = self._quoted
        one, two, three, four, five = self._database.dialect.placeholders(5)
        result = connection.exec_driver_sql(
            f"UPDATE {self._table} SET {offset} = {one} WHERE {name} = {two} AND {topic} = {three}"
            f" AND {number} = {four} AND {offset} = {five}",
            (end, *self._key(partition), before),
        )
        if result.rowcount >= 0:
            return bool(result.rowcount == 1)
        statement = f"SELECT {offset} FROM {self._table} WHERE {self._where}"
        return bool(connection.exec_driver_sql(statement, self._key(partition)).scalar_one_or_none() == end)
