"""Persistent queries: what each computes, from which sources, and into which sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum

from penstock.sql.analysis.plan import Filter, Join, Plan, Project, Sink, Source, Step
from penstock.sql.catalog import DataSource
from penstock.sql.planning import Planned


class QueryPurpose(Enum):
    """The kind of statement that created a query. The value is the prefix of the query's id."""

    CREATE_STREAM_AS = "CSAS"
    CREATE_TABLE_AS = "CTAS"
    INSERT = "INSERTQUERY"
    SOURCE_TABLE = "CST"


@dataclass(frozen=True, eq=False)
class PersistentQuery:
    """A query that runs until it is terminated.

    ``text`` is its statement, and ``properties`` are those that the statement was given with. The query of a
    source table has no plan: only views follow it, and the host doesn't run it.
    """

    id: str
    purpose: QueryPurpose
    text: str
    sources: tuple[str, ...]
    sink: DataSource
    planned: Planned
    plan: Plan | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    is_paused: bool = False

    @property
    def runs_on_host(self) -> bool:
        return self.plan is not None


def sources_of(step: Step) -> Iterator[DataSource]:
    """Yield the sources that a plan reads, from left to right."""
    if isinstance(step, Source):
        yield step.source
    elif isinstance(step, Join):
        yield from sources_of(step.left)
        yield from sources_of(step.right)
    else:
        yield from sources_of(step.input)


def names_of_sources(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in sources_of(plan.root)))


def is_upgrade(old: Plan, new: Plan) -> bool:
    """Whether a running query may continue with another plan.

    Filters and columns may differ, but nothing that has state or determines where rows are stored.
    """
    return _skeleton(old.root) == _skeleton(new.root)


def _skeleton(step: Step) -> list[object]:
    if isinstance(step, Source):
        return [("source", step.source.name)]
    if isinstance(step, (Filter, Project, Sink)):
        return _skeleton(step.input)
    inputs = ("left", "right") if isinstance(step, Join) else ("input",)
    own = [
        (each.name, getattr(step, each.name)) for each in fields(step) if each.name not in (*inputs, "schema")
    ]
    return [(type(step).__name__, own), *(_skeleton(getattr(step, name)) for name in inputs)]
