"""The server's catalog of tables: the columns of snapshots, and what the binary log lacks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.connect.cdc.mysql import table_maps as types
from penstock.connect.cdc.mysql.schemas import DeclaredColumn
from penstock.connect.cdc.mysql.table_maps import BINARY_COLLATION, BinlogColumn, TableMap

COLUMNS_QUERY: Final = """
select c.table_schema, c.table_name, c.column_name, c.data_type, c.column_type, c.is_nullable = 'YES',
       c.column_default, c.character_set_name, c.numeric_precision, c.numeric_scale, c.datetime_precision,
       c.character_maximum_length, c.character_octet_length, c.extra, c.column_comment, k.seq_in_index
from information_schema.columns c
left join information_schema.statistics k on k.table_schema = c.table_schema and k.table_name = c.table_name
     and k.column_name = c.column_name and k.index_name = 'PRIMARY'
where c.table_schema = %s and c.table_name = %s
order by c.ordinal_position"""

_TYPES: Final = {
    "tinyint": types.TINY,
    "smallint": types.SHORT,
    "mediumint": types.INT24,
    "int": types.LONG,
    "bigint": types.LONGLONG,
    "float": types.FLOAT,
    "double": types.DOUBLE,
    "decimal": types.DECIMAL,
    "bit": types.BIT,
    "year": types.YEAR,
    "date": types.DATE,
    "time": types.TIME2,
    "datetime": types.DATETIME2,
    "timestamp": types.TIMESTAMP2,
    "json": types.JSON,
    "char": types.STRING,
    "varchar": types.VARCHAR,
    "enum": types.ENUM,
    "set": types.SET,
    "binary": types.STRING,
    "varbinary": types.VARCHAR,
    "uuid": types.STRING,
    "inet6": types.STRING,
    "inet4": types.STRING,
    **dict.fromkeys(["tinytext", "text", "mediumtext", "longtext"], types.BLOB),
    **dict.fromkeys(["tinyblob", "blob", "mediumblob", "longblob"], types.BLOB),
    **dict.fromkeys(
        [
            *["geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"],
            *["multipolygon", "geometrycollection", "geomcollection"],
        ],
        types.GEOMETRY,
    ),
}
_UTF8: Final = 45
_GEOMETRY_KINDS: Final = {"point": 1}
_VALUES: Final = re.compile(r"'((?:[^']|'')*)'")


@dataclass(frozen=True)
class CatalogColumn:
    """A row of `COLUMNS_QUERY`."""

    database: str
    table: str
    name: str
    data_type: str
    column_type: str
    nullable: bool
    default: str | None
    charset: str | None
    precision: int | None
    scale: int | None
    digits: int | None
    characters: int | None
    octets: int | None
    extra: str
    comment: str
    key_place: int | None

    @property
    def values(self) -> tuple[str, ...]:
        """The values of an enum or set."""
        if self.data_type not in ("enum", "set"):
            return ()
        return tuple(each.replace("''", "'") for each in _VALUES.findall(self.column_type))

    @property
    def is_generated(self) -> bool:
        """Whether an expression gives the column's values."""
        return "GENERATED" in self.extra.upper() and "DEFAULT_GENERATED" not in self.extra.upper()


class TableCatalog:
    """The columns of one table, in their order; none if the table does not exist."""

    def __init__(self, rows: Iterable[tuple[Any, ...]], is_maria: bool) -> None:
        """Take the rows of `COLUMNS_QUERY`."""
        self.columns = [_column_of(row) for row in rows]
        self._is_maria = is_maria

    @property
    def declared(self) -> Mapping[str, DeclaredColumn]:
        """The facts that the binary log lacks, by the columns' names."""
        return {each.name: DeclaredColumn(each.column_type, self.default_of(each)) for each in self.columns}

    def default_of(self, column: CatalogColumn) -> str | None:
        """The default without quotes; MariaDB has the text of an expression, MySQL that of the value."""
        default = column.default
        if default is None or not self._is_maria:
            return default
        if default.upper() == "NULL":
            return None
        if default.startswith("'"):
            return default[1:-1].replace("''", "'").replace("\\\\", "\\")
        return default

    @property
    def key(self) -> list[str]:
        """The columns of the primary key."""
        keyed = [each for each in self.columns if each.key_place is not None]
        return [each.name for each in sorted(keyed, key=lambda each: each.key_place or 0)]

    def table_map(self) -> TableMap:
        """The table as a table map would describe it, for rows that a snapshot reads as texts."""
        first = self.columns[0]
        names = [each.name for each in self.columns]
        return TableMap(
            *(first.database, first.table, tuple(_binlog_column(each) for each in self.columns)),
            tuple(names.index(name) for name in self.key),
        )


def _column_of(row: tuple[Any, ...]) -> CatalogColumn:
    values = list(row)
    values[5] = bool(values[5])
    return CatalogColumn(*values)


def _binlog_column(column: CatalogColumn) -> BinlogColumn:
    kind = _TYPES.get(column.data_type, types.BLOB)
    collation = None
    if column.charset or column.data_type in ("uuid", "inet4", "inet6"):
        collation = _UTF8
    elif kind in (types.STRING, types.VARCHAR, types.BLOB):
        collation = BINARY_COLLATION
    return BinlogColumn(
        *(column.name, kind, _meta(column, kind), column.nullable, "unsigned" in column.column_type),
        *(collation, column.values, _GEOMETRY_KINDS.get(column.data_type)),
    )


def _meta(column: CatalogColumn, kind: int) -> bytes:
    """The metadata of a type, as far as values depend on it."""
    if kind == types.DECIMAL:
        return bytes((column.precision or 0, column.scale or 0))
    if kind == types.BIT:
        size, rest = divmod(column.precision or 1, 8)
        return bytes((rest, size))
    if kind in (types.TIME2, types.DATETIME2, types.TIMESTAMP2):
        return bytes((column.digits or 0,))
    if kind == types.STRING:
        return bytes((types.STRING, min(column.octets or 0, 255)))
    return b""
