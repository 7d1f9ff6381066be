"""Records of schema changes, in the topic named ``topic.prefix``. Pure, apart from the catalog.

A record has the statement, and the columns of its tables as the catalog has them when the statement is read.
If more statements have changed the table since then, the record shows their result already; Debezium, which
parses DDL, shows the state in between. Positions and types of rows never depend on these records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.connect.cdc.mysql.catalog import CatalogColumn, TableCatalog
from penstock.connect.cdc.mysql.ddl import Ddl
from penstock.connect.cdc.mysql.schemas import TableSchema
from penstock.connect.data.records import Header, SourceRecord
from penstock.connect.data.schema import (
    BOOLEAN,
    INT32,
    INT64,
    OPTIONAL_INT32,
    OPTIONAL_STRING,
    STRING,
    Schema,
)
from penstock.connect.data.struct import Struct

_JDBC: Final = {
    "tinyint": 5,
    "smallint": 5,
    "mediumint": 4,
    "int": 4,
    "bigint": -5,
    "float": 6,
    "double": 8,
    "decimal": 3,
    "bit": -7,
    "year": 4,
    "date": 91,
    "time": 92,
    "datetime": 93,
    "timestamp": 2014,
    "char": 1,
    "varchar": 12,
    "enum": 1,
    "set": 1,
    "binary": -2,
    "varbinary": -3,
    "json": 1111,
    **dict.fromkeys(["tinytext", "text", "mediumtext", "longtext"], 12),
    **dict.fromkeys(["tinyblob", "blob", "mediumblob", "longblob"], 2004),
}
"""The numbers of java.sql.Types; 1111 stands for other types."""
_OTHER: Final = 1111
_COLUMN: Final = Schema.struct(
    {
        "name": STRING,
        "jdbcType": INT32,
        "nativeType": OPTIONAL_INT32,
        "typeName": STRING,
        "typeExpression": OPTIONAL_STRING,
        "charsetName": OPTIONAL_STRING,
        "length": OPTIONAL_INT32,
        "scale": OPTIONAL_INT32,
        "position": INT32,
        "optional": BOOLEAN.as_optional(),
        "autoIncremented": BOOLEAN.as_optional(),
        "generated": BOOLEAN.as_optional(),
        "comment": OPTIONAL_STRING,
        "defaultValueExpression": OPTIONAL_STRING,
        "enumValues": Schema.array(STRING, optional=True),
    },
    name="io.debezium.connector.schema.Column",
    version=1,
)
_TABLE: Final = Schema.struct(
    {
        "defaultCharsetName": OPTIONAL_STRING,
        "primaryKeyColumnNames": Schema.array(STRING, optional=True),
        "columns": Schema.array(_COLUMN),
        "comment": OPTIONAL_STRING,
    },
    name="io.debezium.connector.schema.Table",
    version=1,
    optional=True,
)
_CHANGE: Final = Schema.struct(
    {"type": STRING, "id": STRING, "table": _TABLE}, name="io.debezium.connector.schema.Change", version=1
)


class SchemaChanges:
    """Makes the records of statements. ``catalog_of`` reads a captured table's columns, by its name."""

    def __init__(
        self,
        prefix: str,
        connector: str,
        source: Schema,
        catalog_of: Callable[[str, str], TableCatalog | None],
        schema_of: Callable[[TableCatalog], TableSchema | None],
    ) -> None:
        """``catalog_of`` gives None for a table that is not captured, and an empty one if it is gone."""
        self._prefix = prefix
        self._catalog_of = catalog_of
        self._schema_of = schema_of
        place = f"io.debezium.connector.{connector}"
        self._key = Schema.struct({"databaseName": STRING}, name=f"{place}.SchemaChangeKey", version=1)
        self._value = Schema.struct(
            {
                "source": source,
                "ts_ms": INT64,
                "databaseName": OPTIONAL_STRING,
                "schemaName": OPTIONAL_STRING,
                "ddl": OPTIONAL_STRING,
                "tableChanges": Schema.array(_CHANGE),
            },
            name=f"{place}.SchemaChangeValue",
            version=1,
        )

    def table_of(self, database: str, name: str) -> TableSchema | None:
        """The schemas of a captured table as it is now."""
        catalog = self._catalog_of(database, name)
        return self._schema_of(catalog) if catalog is not None and catalog.columns else None

    def of(self, ddl: Ddl) -> list[Struct] | None:
        """The changes of captured tables; None if the statement changes no captured table."""
        if ddl.kind == "DATABASE":
            return []
        changes = []
        for database, name in ddl.tables:
            catalog = self._catalog_of(database, name)
            if catalog is not None:
                kind = ddl.kind if catalog.columns else "DROP"
                changes.append(Struct.of_values(_CHANGE, [kind, f'"{database}"."{name}"', _table(catalog)]))
        return changes or None

    def record(
        self,
        changes: Sequence[Struct],
        ddl: Ddl,
        statement: str,
        source: Struct,
        now_us: int,
        headers: tuple[Header, ...],
    ) -> SourceRecord:
        """The record of a statement."""
        value = [source, now_us // 1000, ddl.database, None, statement, list(changes)]
        return SourceRecord(
            topic=self._prefix,
            key=Struct.of_values(self._key, [ddl.database]),
            key_schema=self._key,
            value=Struct.of_values(self._value, value),
            value_schema=self._value,
            headers=headers,
        )


def _table(catalog: TableCatalog) -> Struct | None:
    if not catalog.columns:
        return None
    columns = [_column(catalog, each, place) for place, each in enumerate(catalog.columns, 1)]
    return Struct.of_values(_TABLE, [None, catalog.key, columns, None])


def _column(catalog: TableCatalog, column: CatalogColumn, place: int) -> Struct:
    name = column.data_type.upper()
    if "unsigned" in column.column_type:
        name += " UNSIGNED"
    quoted = [f"'{each}'" for each in column.values]
    values: list[Any] = [
        *(column.name, _JDBC.get(column.data_type, _OTHER), None, name, name, column.charset),
        *(_length(column), column.scale if column.data_type == "decimal" else None, place, column.nullable),
        *("auto_increment" in column.extra, column.is_generated, column.comment or None),
        *(catalog.default_of(column), quoted or None),
    ]
    return Struct.of_values(_COLUMN, values)


def _length(column: CatalogColumn) -> int | None:
    """The length in parentheses, and 1 for enums."""
    if column.data_type in ("enum", "set"):
        return 1 if column.data_type == "enum" else max(len(column.values) * 2 - 1, 0)
    inside = column.column_type.partition("(")[2].partition(")")[0].partition(",")[0]
    return int(inside) if inside.isdigit() else None
