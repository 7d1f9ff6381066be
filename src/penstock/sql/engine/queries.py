"""Queries that go on: what each computes, from what, and where it writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum

from penstock.sql.catalog import DataSource
from penstock.sql.plan import Filter, Join, Plan, Project, Sink, Source, Step
from penstock.sql.planning import Planned


class QueryPurpose(Enum):
    """Why there is a query. The value is how ids begin."""

    CREATE_STREAM_AS = "CSAS"
    CREATE_TABLE_AS = "CTAS"
    INSERT = "INSERTQUERY"
    SOURCE_TABLE = "CST"


@dataclass(frozen=True, eq=False)
class PersistentQuery:
    """``text`` is its statement; a source table's query is followed alone and has no plan. ``properties`` are
    those that its statement was given with.
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

    @property
    def is_of_creation(self) -> bool:
        """Whether its sink was made with it, and goes with it."""
        return self.purpose is not QueryPurpose.INSERT


def sources_of(step: Step) -> Iterator[DataSource]:
    """What a plan reads, from left to right."""
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
    """Whether a running query may go on as another: filters and columns may differ, and nothing that has
    state, or says where rows are.
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
