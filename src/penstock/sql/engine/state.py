"""What a service knows at one moment. A state does not change; each command gives another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.sql.catalog import Catalog
from penstock.sql.engine.queries import PersistentQuery
from penstock.sql.evaluation import UserFunctions


@dataclass(frozen=True)
class State:
    """``texts`` are the statements that made the sources, ``made_from`` the sources that results were
    selected from, ``system`` what ALTER SYSTEM has set. ``query_number`` is in the id of the next query.
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
        """The query whose state has a table's rows."""
        return next(
            (each for each in self.queries.values() if each.sink.name == name and each.planned.store), None
        )
