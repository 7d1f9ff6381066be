"""Names of tables, with the catalog and schema that they lie in."""

from __future__ import annotations

from typing import NamedTuple

from penstock.connect.errors import ConnectError

PARTS_MAX = 3


class TableName(NamedTuple):
    """The name of a table; the database's own rules find it if there is no schema."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    @property
    def parts(self) -> list[str]:
        """The parts that there are, the catalog first."""
        return [part for part in (self.catalog, self.schema, self.name) if part]

    def __str__(self) -> str:
        return ".".join(self.parts)

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Split ``catalog.schema.table``. Raises ConnectError."""
        *outer, name = text.split(".")
        if len(outer) >= PARTS_MAX or not all((*outer, name)):
            raise ConnectError(
                f"the table's name is {text!r}; expected table, schema.table or catalog.schema.table"
            )
        catalog, schema = ([None] * (PARTS_MAX - 1) + [*outer])[-(PARTS_MAX - 1) :]
        return cls(name, schema, catalog)
