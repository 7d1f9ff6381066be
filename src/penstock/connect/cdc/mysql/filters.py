"""Filters of databases, tables and columns (``*.include.list``, ``*.exclude.list``). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import regex

from penstock.connect.cdc.selection.lists import either, expressions

_SYSTEM: Final = {"mysql", "information_schema", "performance_schema", "sys"}


@dataclass(frozen=True, slots=True)
class Filters:
    """The captured databases, tables and columns; `column` is called with ``database.table.column``."""

    database: Callable[[str], bool]
    table: Callable[[str], bool]
    column: Callable[[str], bool]
    order: tuple[regex.Pattern[str], ...]
    """The expressions of ``table.include.list``: snapshots read tables in their order."""

    @staticmethod
    def of(properties: Mapping[str, str]) -> Filters:
        """Read Debezium's properties. Raises ConfigInvalid."""

        def of_kind(kind: str) -> Callable[[str], bool]:
            include, exclude = f"{kind}.include.list", f"{kind}.exclude.list"
            return either(include, properties.get(include, ""), exclude, properties.get(exclude, ""))

        order = expressions("table.include.list", properties.get("table.include.list", ""))
        return Filters(of_kind("database"), of_kind("table"), of_kind("column"), tuple(order))

    def has_table(self, database: str, table: str) -> bool:
        """Whether a table is captured; tables of the system never are."""
        is_system = database.lower() in _SYSTEM
        return not is_system and self.database(database) and self.table(f"{database}.{table}")

    def rank(self, database: str, table: str) -> tuple[int, str]:
        """A key to sort tables by: the place of the expression that includes them, then their name."""
        name = f"{database}.{table}"
        places = (place for place, each in enumerate(self.order) if each.fullmatch(name))
        return next(places, 0), name
