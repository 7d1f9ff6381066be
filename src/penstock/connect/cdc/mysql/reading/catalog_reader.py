"""Reads the catalog for captured tables, over a connection that is opened again when it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.connect.cdc.mysql.catalog import COLUMNS_QUERY, TableCatalog
from penstock.connect.cdc.mysql.filters import Filters
from penstock.connect.cdc.mysql.reading.server_state import rows
from penstock.connect.cdc.mysql.schemas import ColumnRules, NamingSettings, TableSchema, table_schema
from penstock.connect.cdc.mysql.table_maps import TableMap
from penstock.connect.cdc.mysql.values import ValueSettings

if TYPE_CHECKING:
    import pymysql


class CatalogReader:
    """Makes the schemas of captured tables."""

    def __init__(
        self,
        connect: Callable[[], pymysql.Connection[Any]],
        is_maria: bool,
        filters: Filters,
        values: ValueSettings,
        naming: NamingSettings,
        rules: ColumnRules,
    ) -> None:
        self._connect = connect
        self._connection: pymysql.Connection[Any] | None = None
        self._is_maria = is_maria
        self._filters = filters
        self._making = (values, naming, rules)

    def catalog_of(self, database: str, name: str) -> TableCatalog | None:
        """The columns of a captured table as they are now; None for other tables. Raises MySQLError."""
        if not self._filters.has_table(database, name):
            return None
        return TableCatalog(self._rows(database, name), self._is_maria)

    def schema_of(self, table: TableMap) -> TableSchema | None:
        """The schemas of a table map; None for a table that is not captured."""
        catalog = self.catalog_of(table.database, table.table)
        return None if catalog is None else table_schema(table, catalog.declared, *self._making)

    def schema_of_catalog(self, catalog: TableCatalog) -> TableSchema:
        """The schemas of a table as it is now."""
        return table_schema(catalog.table_map(), catalog.declared, *self._making)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _rows(self, database: str, name: str) -> list[tuple[Any, ...]]:
        import pymysql

        for is_last in (False, True):
            if self._connection is None:
                self._connection = self._connect()
            try:
                return rows(self._connection, COLUMNS_QUERY, (database, name))
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError):
                self._connection = None
                if is_last:
                    raise
        raise AssertionError("the second attempt returns or raises")
