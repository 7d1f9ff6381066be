"""Reads one table or query: runs its query when it is due, and makes records of the rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.connect.connectors.sql.dialects import Column, Dialect
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.connectors.sql.source.columns import RowSchema
from penstock.connect.connectors.sql.source.criteria import Criteria, Span
from penstock.connect.connectors.sql.source.definition import BULK, SourceSettings
from penstock.connect.connectors.sql.source.offsets import (
    EPOCH,
    QUERY_PARTITION,
    Position,
    partition_of,
)
from penstock.connect.data.records import Partition, SourceRecord
from penstock.connect.errors import ConnectError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

NOW = -1
"""The initial timestamp that stands for the time at which the reader begins."""
ROWS_AHEAD = 1000
"""Rows that the driver fetches at once, at least."""
ROWS_HELD = 100_000
"""Rows of one query if all of them are fetched at once, and the next query can begin behind them."""


class Reader:
    """Reads one table, or the query of the configuration."""

    def __init__(
        self, settings: SourceSettings, dialect: Dialect, table: TableName | None, position: Position
    ):
        self._settings = settings
        self._dialect = dialect
        self._table = table
        self._what = "the query" if table is None else f"table {table}"
        self._topic = settings.topic_prefix + ("" if table is None else table.name)
        self._partition: Partition = QUERY_PARTITION if table is None else partition_of(table)
        if table is not None and settings.mode == BULK:
            self._partition = {"table": table.name}
        self._position = position
        self._rows: Iterator[tuple[Sequence[Any], Sequence[Any] | None]] | None = None
        self._row_schema: RowSchema | None = None
        self._criteria: Criteria | None = None
        self.due_s = 0.0
        """The time of the next query, by the clock of the task."""

    @property
    def is_reading(self) -> bool:
        """Whether a query runs whose rows were not all taken."""
        return self._rows is not None

    def reset(self, due_s: float) -> None:
        """Forget the query that runs; the next one begins behind the last record."""
        self._rows = None
        self.due_s = due_s

    def take(self, connection: Connection, count: int) -> list[SourceRecord]:
        """Return the next records, at most ``count``; fewer if the query has ended.

        If it fails, the position is that of the records that were returned before.

        Raises:
            ConnectError: the columns do not fit the configuration, or a value cannot be read.
        """
        if self._rows is None:
            self._rows = self._query(connection)
        before = self._position
        records: list[SourceRecord] = []
        try:
            while len(records) < count:
                pair = next(self._rows, None)
                if pair is None:
                    self._rows = None
                    break
                records.append(self._record(*pair))
        except BaseException:
            self._position = before  # these records are dropped, so the next query reads their rows again
            raise
        return records

    def _record(self, row: Sequence[Any], following: Sequence[Any] | None) -> SourceRecord:
        assert self._row_schema is not None
        offset = {}
        if self._criteria is not None:
            position = self._criteria.position(row)
            # Only behind the last row of one time can the next query begin: it asks for later rows.
            if (
                not self._criteria.groups_rows
                or following is None
                or self._criteria.position(following) != position
            ):
                self._position = position
            offset = dict(self._position.to_offset())
        return SourceRecord(
            topic=self._topic,
            value=self._row_schema.struct(row),
            value_schema=self._row_schema.schema,
            source_partition=self._partition,
            source_offset=offset,
        )

    def _query(self, connection: Connection) -> Iterator[tuple[Sequence[Any], Sequence[Any] | None]]:
        settings = self._settings
        columns = self._columns(connection)
        name = None if self._table is None else self._table.name
        if self._row_schema is None or self._row_schema.columns != columns:
            zone = settings.database.zone
            self._row_schema = RowSchema(name, columns, self._dialect, zone, settings.numeric_mapping)
            self._criteria = self._new_criteria(columns)
        if self._table is not None:
            names = ", ".join(self._dialect.quote(each.name) for each in columns)
            statement = f"SELECT {names} FROM {self._dialect.table(self._table)}"
        elif self._criteria is not None:
            statement = f"SELECT * FROM ({self._dialect.literal(settings.query)}) penstock_rows"
        else:
            statement = self._dialect.literal(settings.query)
        parameters: list[Any] = []
        if self._criteria is not None:
            condition, parameters = self._criteria.condition(self._span(connection))
            statement += condition
        if settings.query_suffix:
            statement += f" {self._dialect.literal(settings.query_suffix)}"
        if self._dialect.reads_block_writes:
            return self._held(connection, statement, parameters)
        ahead = max(settings.rows_max, ROWS_AHEAD)
        result = connection.exec_driver_sql(
            statement,
            tuple(parameters),
            execution_options={"stream_results": True, "max_row_buffer": ahead},
        )
        return _with_following(result)

    def _held(
        self, connection: Connection, statement: str, parameters: Sequence[Any]
    ) -> Iterator[tuple[Sequence[Any], Sequence[Any] | None]]:
        """Fetch all rows at once, in parts if each row has its own position."""
        if self._criteria is not None and not self._criteria.groups_rows and not self._settings.query_suffix:
            statement += f" LIMIT {ROWS_HELD}"
        rows = list(connection.exec_driver_sql(statement, tuple(parameters)))
        return _with_following(iter(rows))

    def _columns(self, connection: Connection) -> list[Column]:
        if self._table is None:
            return self._dialect.columns_of_query(connection, self._settings.query)
        columns = self._dialect.columns(connection, self._table)
        if not columns:
            raise ConnectError(f"{self._what} does not exist any more")
        return columns

    def _new_criteria(self, columns: Sequence[Column]) -> Criteria | None:
        settings = self._settings
        if settings.mode == BULK:
            return None
        incrementing = settings.incrementing
        if incrementing == "":
            incrementing = next((each.name for each in columns if each.increments), None)
            if incrementing is None:
                raise ConnectError(
                    f"{self._what} has no column that the database numbers; set incrementing.column.name"
                )
        made = Criteria(
            *(self._dialect, settings.database.zone, columns, settings.timestamps, incrementing, self._what)
        )
        if settings.validates and self._table is not None:
            made.check_not_null()
        return made

    def _span(self, connection: Connection) -> Span:
        """The rows to ask for: those behind the position, or behind the initial values."""
        settings = self._settings
        assert self._criteria is not None
        number = self._position.incrementing
        if number is None and settings.incrementing is not None:
            number = settings.incrementing_initial
        if not self._criteria.has_timestamps:
            return Span(Position(None, number), None)
        now = self._dialect.now(connection)
        if self._position.timestamp is None and settings.timestamp_initial == NOW:
            self._position = Position(now, self._position.incrementing)
        initial = EPOCH + datetime.timedelta(milliseconds=max(settings.timestamp_initial or 0, 0))
        after = Position(self._position.timestamp or initial, number)
        return Span(after, now - datetime.timedelta(milliseconds=settings.delay_ms))


def _with_following(result: Any) -> Iterator[tuple[Sequence[Any], Sequence[Any] | None]]:
    """Each row with the one behind it; the last with None."""
    row = next(result, None)
    while row is not None:
        following = next(result, None)
        yield row, following
        row = following
