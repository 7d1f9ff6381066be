"""Filters of schemas, tables, columns and logical messages (``*.include.list``, ``*.exclude.list``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import regex

from penstock.connect.cdc.selection.lists import either, expressions

_SYSTEM_SCHEMAS: Final = {"pg_catalog", "information_schema", "pg_toast"}
_SYSTEM_TABLES: Final = {"spatial_ref_sys"}
"""Tables of extensions that stand in the users' schemas."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The captured schemas, tables, columns and messages.

    `column` is called with ``schema.table.column``, and `message` with a message's prefix.
    """

    schema: Callable[[str], bool]
    table: Callable[[str], bool]
    column: Callable[[str], bool]
    message: Callable[[str], bool]
    order: tuple[regex.Pattern[str], ...]
    """The expressions of ``table.include.list``: snapshots read tables in their order."""
    signal_table: str = ""
    """The table of signals, which is always captured, as ``schema.table``."""

    @staticmethod
    def of(properties: Mapping[str, str]) -> Filters:
        """Read Debezium's properties. Raises ConfigInvalid."""

        def of_kind(kind: str) -> Callable[[str], bool]:
            include, exclude = f"{kind}.include.list", f"{kind}.exclude.list"
            return either(include, properties.get(include, ""), exclude, properties.get(exclude, ""))

        order = expressions("table.include.list", properties.get("table.include.list", ""))
        return Filters(
            *(of_kind("schema"), of_kind("table"), of_kind("column"), of_kind("message.prefix")),
            tuple(order),
            properties.get("signal.data.collection", "").strip(),
        )

    def has_table(self, schema: str, table: str) -> bool:
        """Whether a table is captured; tables of the system never are."""
        name = f"{schema}.{table}"
        if name == self.signal_table:
            return True
        is_system = schema in _SYSTEM_SCHEMAS or table in _SYSTEM_TABLES or schema.startswith("pg_temp")
        return not is_system and self.schema(schema) and self.table(name)

    def rank(self, schema: str, table: str) -> tuple[int, str]:
        """A key to sort tables by: the place of the expression that includes them, then their name."""
        name = f"{schema}.{table}"
        places = (place for place, each in enumerate(self.order) if each.fullmatch(name))
        return next(places, 0), name
