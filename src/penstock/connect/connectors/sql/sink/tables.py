"""The tables that a sink writes to: found, created and extended as its records need."""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.connect.connectors.sql.connecting import Database
from penstock.connect.connectors.sql.dialects import Column, Dialect
from penstock.connect.connectors.sql.failures import is_passing, shown
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.connectors.sql.sink.definition import SinkSettings
from penstock.connect.connectors.sql.sink.layouts import FieldOfRow, Layout
from penstock.connect.connectors.sql.sink.refusals import RowRefused
from penstock.connect.errors import ConnectError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

log = logging.getLogger(__name__)

TOPIC: Final = "${topic}"
UNUSUAL: Final = re.compile(r"[^a-zA-Z0-9_]")


class Tables:
    """The tables of the database, as far as records need them."""

    def __init__(self, settings: SinkSettings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._names: dict[str, TableName] = {}
        self._columns: dict[TableName, Mapping[str, Column]] = {}

    def name_for(self, topic: str) -> TableName:
        """The table of a topic. Raises RowRefused if its name is none."""
        found = self._names.get(topic)
        if found is None:
            text = self._settings.tables.get(topic)
            if text is None:
                text = self._settings.table_format.replace(TOPIC, topic)
                text = UNUSUAL.sub("_", text) if self._settings.normalizes else text
            try:
                found = self._names[topic] = TableName.parse(text)
            except ConnectError as error:
                raise RowRefused(
                    f"{error}; set table.name.format, table.name.normalize or topics.to.tables.mapping"
                ) from error
        return found

    def forget(self) -> None:
        """Look at all tables again before the next rows."""
        self._columns.clear()

    def existing(self, table: TableName) -> Mapping[str, Column]:
        """The columns of a table by their names; none if it does not exist."""
        found = self._columns.get(table)
        if found is None:
            connection = self._database.connection()
            with connection.begin():
                columns = self._database.dialect.columns(connection, table)
            found = {each.name: each for each in columns}
            if found:
                self._columns[table] = found
        return found

    def columns_for(
        self, table: TableName, layout: Layout
    ) -> tuple[list[Column | None], list[Column | None]]:
        """The columns of a layout's keys and others; None for a field that has no type and no column.

        A table or column that is missing is made, if the configuration allows it.

        Raises:
            RowRefused: it does not allow it, or the database refuses.
        """
        fields = (*layout.keys, *layout.others)
        existing = self.existing(table)
        if not existing:
            self._create(table, layout)
            existing = self.existing(table)  # another task may have created it with other columns
        if missing := [each for each in fields if each.schema and _found(existing, each.name) is None]:
            self._extend(table, missing)
        existing = self.existing(table)
        found = [_found(existing, field.name) for field in fields]
        if lost := [
            field.name for field, column in zip(fields, found, strict=True) if field.schema and not column
        ]:
            raise RowRefused(f"the table {table} has no column {', '.join(lost)}")
        return found[: len(layout.keys)], found[len(layout.keys) :]

    def _create(self, table: TableName, layout: Layout) -> None:
        if not self._settings.creates:
            raise RowRefused(f"the table {table} is missing, and auto.create is false")
        dialect = self._database.dialect
        keys = {field.name for field in layout.keys}
        fields = [field for field in (*layout.keys, *layout.others) if field.schema is not None]
        parts = [_column_sql(dialect, each, is_key=each.name in keys) for each in fields]
        if keys:
            parts.append(f"PRIMARY KEY ({', '.join(dialect.quote(each.name) for each in layout.keys)})")
        self._run([f"CREATE TABLE {dialect.table(table)} ({', '.join(parts)})"], table)

    def _extend(self, table: TableName, missing: Sequence[FieldOfRow]) -> None:
        names = ", ".join(field.name for field in missing)
        if not self._settings.evolves:
            raise RowRefused(f"the table {table} has no column {names}, and auto.evolve is false")
        for field in missing:
            if field.is_required and field.schema and field.schema.default is None:
                raise RowRefused(
                    f"the column {field.name} cannot be added to the table {table}: the field is neither"
                    " optional, nor does it have a default"
                )
        dialect = self._database.dialect
        self._run(
            [
                f"ALTER TABLE {dialect.table(table)} ADD COLUMN {_column_sql(dialect, field, is_key=False)}"
                for field in missing
            ],
            table,
        )

    def _run(self, statements: Sequence[str], table: TableName) -> None:
        """Change a table. Another task may have done it already, so the table is looked at afterwards."""
        from sqlalchemy.exc import SQLAlchemyError

        connection = self._database.connection()
        self._columns.pop(table, None)
        for statement in statements:
            log.info("changing a table statement=%s", statement)
            try:
                _execute(connection, statement)
            except SQLAlchemyError as error:
                if is_passing(error, self._database.dialect):
                    raise
                if not self.existing(table):
                    raise RowRefused(f"the table {table} cannot be created: {shown(error)}") from error
                log.warning("a table was not changed table=%s error=%s", table, shown(error))


def _execute(connection: Connection, statement: str) -> None:
    with connection.begin():
        connection.exec_driver_sql(statement, ())


def _found(columns: Mapping[str, Column], name: str) -> Column | None:
    """A column by its name, in upper or lower case if only one fits so."""
    if name in columns:
        return columns[name]
    folded = [each for each in columns.values() if each.name.lower() == name.lower()]
    return folded[0] if len(folded) == 1 else None


def _column_sql(dialect: Dialect, field: FieldOfRow, *, is_key: bool) -> str:
    schema = field.schema
    assert schema is not None, "a field without a type makes no column"
    column_type = dialect.column_type(schema, is_key=is_key)
    text = f"{dialect.quote(field.name)} {column_type}"
    default = _literal(schema.default)
    if default is not None:
        text += f" {dialect.default(dialect.literal(default), column_type)}"
    is_required = is_key or (not schema.optional and (schema.default is None or default is not None))
    return f"{text} NOT NULL" if is_required else text


def _literal(value: Any) -> str | None:
    """A default as SQL; None if it has no short form that all databases know."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float() | Decimal():
            return str(value)
        case str() if "\\" not in value:
            return "'" + value.replace("'", "''") + "'"
        case datetime.date() if not isinstance(value, datetime.datetime):
            return f"'{value.isoformat()}'"
        case _:
            return None
