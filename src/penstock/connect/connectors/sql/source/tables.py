"""Chooses the tables that a connector reads, and finds new ones while it runs."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence

from penstock.connect.connectors.sql.connecting import Database
from penstock.connect.connectors.sql.failures import DatabaseError, shown
from penstock.connect.connectors.sql.names import TableName
from penstock.connect.connectors.sql.source.definition import SourceSettings
from penstock.connect.errors import ConnectError

log = logging.getLogger(__name__)

STOP_S = 10.0
"""How long a stop waits for a search, which a database that does not answer would never end."""


def chosen(tables: Sequence[TableName], settings: SourceSettings) -> list[TableName]:
    """The tables that the lists and patterns of a configuration name.

    Raises:
        ConnectError: two of them would have the same topic.
    """
    found = [
        table
        for table in tables
        if _is_like(settings.catalog_pattern, table.catalog)
        and _is_like(settings.schema_pattern, table.schema)
    ]
    if settings.whitelist:
        found = [table for table in found if _names(table) & settings.whitelist]
    found = [table for table in found if not _names(table) & settings.blacklist]
    counted = Counter(table.name for table in found)
    if doubled := [str(table) for table in found if counted[table.name] > 1]:
        raise ConnectError(
            f"several tables have the same name, and so would their topics: {', '.join(doubled)};"
            " choose one of each by table.whitelist, table.blacklist or schema.pattern"
        )
    return found


def _names(table: TableName) -> set[str]:
    """The ways to write a table's name in lists, with quotes and without."""
    quoted = (f'"{part}"' for part in table.parts)
    return {table.name, str(table), ".".join(quoted)}


def _is_like(pattern: str | None, name: str | None) -> bool:
    if pattern is None or name is None:
        return True
    parts = re.split(r"([%_])", pattern)
    expression = "".join({"%": ".*", "_": "."}.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(expression, name, re.DOTALL) is not None


def shared_out(tables: Sequence[TableName], tasks: int) -> list[Sequence[TableName]]:
    """Divide tables between tasks, neighbours together, as Connect does; no task is without one."""
    groups = min(tasks, len(tables))
    found, first = [], 0
    for group in range(groups):
        size = len(tables) // groups + (group < len(tables) % groups)
        found.append(tables[first : first + size])
        first += size
    return found


def tables_text(tables: Sequence[TableName]) -> str:
    """The tables of a task, as its configuration has them."""
    return json.dumps([list(table) for table in tables])


def tables_of_text(text: str) -> list[TableName]:
    """Read what `tables_text` has written."""
    return [TableName(*each) for each in json.loads(text)]


class TableWatch:
    """Looks for tables at intervals, on a thread of its own, and calls back if they are others."""

    def __init__(
        self,
        settings: SourceSettings,
        changed: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._settings = settings
        self._changed = changed
        self._failed = failed
        self._database = Database(settings.database, settings.isolation)
        self._stopping = threading.Event()
        self._tables: list[TableName] | None = None
        self._thread = threading.Thread(target=self._run, name="sql-tables", daemon=True)

    def start(self) -> None:
        """Look for tables once, and go on in the background.

        Raises:
            DatabaseError: the database cannot be reached.
        """
        self._tables = self._search()
        self._thread.start()

    @property
    def tables(self) -> Sequence[TableName]:
        """The tables that were found last."""
        return self._tables or ()

    def stop(self) -> None:
        """End the thread, and close the connection."""
        self._stopping.set()
        self._database.interrupt()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        self._database.close()

    def _run(self) -> None:
        while not self._stopping.wait(self._settings.table_poll_s):
            try:
                tables = self._search()
            except DatabaseError as error:
                log.warning("tables cannot be listed, the last ones stay error=%s", error)
                continue
            except Exception as error:
                self._failed(error)
                return
            if tables != self._tables:
                log.info("the tables have changed tables=%s", ",".join(map(str, tables)))
                self._tables = tables
                self._changed()

    def _search(self) -> list[TableName]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            found = self._database.dialect.tables(self._database.connection(), self._settings.types)
        except SQLAlchemyError as error:
            raise DatabaseError(
                f"cannot list the tables of {self._database.shown}: {shown(error)}"
            ) from error
        finally:
            self._database.disconnect()
        return chosen(found, self._settings)
