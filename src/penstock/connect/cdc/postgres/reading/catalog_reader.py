"""Reads the server's catalog when relations need it, and makes their schemas."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import psycopg

from penstock.connect.cdc.postgres.catalog import RELATION_QUERY, TYPES_QUERY, Catalog, PostgresType
from penstock.connect.cdc.postgres.messages import Relation
from penstock.connect.cdc.postgres.schemas import ColumnRules, NamingSettings, TableSchema, table_schema
from penstock.connect.cdc.postgres.selection.filters import Filters
from penstock.connect.cdc.postgres.settings import ValueSettings

log = logging.getLogger(__name__)


class CatalogReader:
    """The schemas of relations, by the catalog at the time they are asked for.

    ``connect`` opens a session, again if it broke. A snapshot gives a session inside its transaction.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        filters: Filters,
        values: ValueSettings,
        naming: NamingSettings,
        rules: ColumnRules,
    ) -> None:
        self._connect = connect
        self._connection: psycopg.Connection[Any] | None = None
        self._filters = filters
        self._values = values
        self._naming = naming
        self._rules = rules
        self._types: dict[int, PostgresType] = {}

    def schema_of(self, relation: Relation, nullable: frozenset[str]) -> TableSchema | None:
        """The schemas of a relation; None if its table is not captured. Raises psycopg.Error."""
        if not self._filters.has_table(relation.schema, relation.name):
            return None
        rows = self._rows(RELATION_QUERY, [relation.oid])
        self._learn_types(relation)
        catalog = Catalog(self._types, Catalog.of_rows((), rows).tables)
        facts = catalog.tables.get(relation.oid)
        return table_schema(relation, facts, catalog, self._values, self._naming, self._rules, nullable)

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.close()

    def _learn_types(self, relation: Relation) -> None:
        """Read types again if one is unknown, or is an enum, which may have more labels by now."""
        oids = {each.type_oid for each in relation.columns}
        if any(oid not in self._types or self._is_enum(oid) for oid in oids):
            self._types = dict(Catalog.of_rows(self._rows(TYPES_QUERY, None), ()).types)
        for oid in oids - self._types.keys():
            log.warning(
                "type unknown, it was dropped table=%s.%s oid=%s", relation.schema, relation.name, oid
            )
            self._types[oid] = PostgresType(oid, "", "", "b", "X", 0, 0, -1, ())

    def _is_enum(self, oid: int) -> bool:
        kind = self._types[oid]
        element = self._types.get(kind.element_oid) if kind.is_array else None
        return kind.kind == "e" or (element is not None and element.kind == "e")

    def _rows(self, query: str, parameters: list[int] | None) -> list[Any]:
        if self._connection is None or self._connection.broken or self._connection.closed:
            self._connection = self._connect()
        return list(self._connection.execute(query.encode(), parameters))
