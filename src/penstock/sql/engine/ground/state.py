"""The state of a service at one moment. It is immutable; each command yields a new state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.sql.catalog import Catalog
from penstock.sql.engine.ground.persistent_queries import PersistentQuery
from penstock.sql.evaluation import UserFunctions


@dataclass(frozen=True)
class State:
    """Everything that a service's commands have defined.

    ``texts`` are the statements that created the sources, ``made_from`` the sources that each result selects
    from, and ``system`` the properties set by ALTER SYSTEM. The id of the next query contains
    ``query_number``.
    """

    catalog: Catalog = field(default_factory=Catalog)
    texts: Mapping[str, str] = field(default_factory=dict)
    made_from: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    queries: Mapping[str, PersistentQuery] = field(default_factory=dict)
    system: Mapping[str, str] = field(default_factory=dict)
    user_functions: UserFunctions = field(default_factory=UserFunctions)
    query_number: int = 0

    def with_query(self, query: PersistentQuery) -> State:
        return replace(self, queries={**self.queries, query.id: query})

    def without_queries(self, ids: set[str]) -> State:
        return replace(self, queries={key: each for key, each in self.queries.items() if key not in ids})

    def without_source(self, name: str) -> State:
        return replace(
            self,
            catalog=self.catalog.without_source(name),
            texts={key: each for key, each in self.texts.items() if key != name},
            made_from={key: each for key, each in self.made_from.items() if key != name},
        )

    def readers(self, name: str) -> list[PersistentQuery]:
        return [each for each in self.queries.values() if name in each.sources]

    def writers(self, name: str) -> list[PersistentQuery]:
        return [each for each in self.queries.values() if each.sink.name == name and each.runs_on_host]

    def materialized_by(self, name: str) -> PersistentQuery | None:
        """The query whose state store holds a table's rows."""
        return next(
            (each for each in self.queries.values() if each.sink.name == name and each.planned.store), None
        )
