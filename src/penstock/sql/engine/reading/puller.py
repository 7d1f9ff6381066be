"""Pull queries over tables: check that each is allowed, answer it from views, and reuse known lookups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from penstock.sql.analysis.plan import Plan
from penstock.sql.catalog import DataSource
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.properties import PULL_LAG_MAX, Values
from penstock.sql.engine.ground.requests import Step
from penstock.sql.engine.ground.state import State
from penstock.sql.engine.reading.lookup_cache import KnownLookup, Lookup, Lookups
from penstock.sql.engine.reading.pull_limits import PullLimits
from penstock.sql.engine.reading.pull_query import PullQuery
from penstock.sql.engine.reading.results import PulledRows, QueryResult, Row, columns_of, failure, limit_of
from penstock.sql.engine.running.runner import Runner
from penstock.views import ViewError, Views

_NO_LAG_MAX: Final = 2**63 - 1


class _Viewed(NamedTuple):
    known: KnownLookup
    views: Views


class Puller:
    """The entry point of pull queries over tables. Any thread may call it.

    ``id_of`` returns a new id for each query of a table.
    """

    def __init__(self, runner: Runner, limits: PullLimits, id_of: Callable[[DataSource], str]) -> None:
        self._runner = runner
        self._limits = limits
        self._id_of = id_of
        self._lookups = Lookups()

    def pull(self, step: Step, plan: Plan, source: DataSource, state: State, values: Values) -> QueryResult:
        """Answer a pull query. Raises EngineError if it is not allowed or possible, or ViewError."""
        if not values.flag("ksql.pull.queries.enable"):
            raise EngineError("Pull queries are disabled: 'ksql.pull.queries.enable' is false.")
        query = state.materialized_by(source.name)
        views = None if query is None else self._runner.views(query)
        if query is None or views is None:
            raise EngineError(
                f"The table {source.name} can't be read by a pull query: found no running query that keeps "
                "its rows, expected one"
            )
        pull = PullQuery(plan, query, state.catalog, state.user_functions)
        if pull.is_scan and not _may_scan(pull, views, values):
            keys = ", ".join(each.name for each in source.keys)
            raise EngineError(
                f"WHERE clause missing key column for disjunct: expected a condition on {keys}. Set "
                "'ksql.query.pull.table.scan.enabled' to true to read the whole table"
            )
        lookup = Lookup(pull, query, columns_of(plan), limit_of(plan), values.number(PULL_LAG_MAX))
        if step.is_alone and not step.overrides:
            self._lookups.learn(step.script, state, plan, lookup)
        return self._looked_up(lookup, views, step.text)

    def known(self, text: str, state: State) -> QueryResult | None:
        """The answer to a text that differs only in its keys from an earlier lookup; None for other texts.

        Raises EngineError.
        """
        found = self._viewed(text, state)
        if found is None:
            return None
        lookup, key = found.known
        return self._looked_up(replace(lookup, pull=lookup.pull.at(key)), found.views, text)

    def known_now(self, text: str, state: State) -> QueryResult | None:
        """Like `known`, for an event loop: None also if anything would take time."""
        found = self._viewed(text, state)
        if found is None:
            return None
        lookup, key = found.known
        _require_fresh(found.views, lookup)
        try:
            rows = lookup.pull.rows_now(found.views, key)
        except ViewError as error:
            raise failure(error) from error
        if rows is None:
            return None
        self._limits.enter()
        return self._result(lookup, iter(rows), text)

    def _viewed(self, text: str, state: State) -> _Viewed | None:
        known = self._lookups.find(text, state)
        views = None if known is None else self._runner.views(known.lookup.query)
        return None if known is None or views is None else _Viewed(known, views)

    def _looked_up(self, lookup: Lookup, views: Views, text: str) -> QueryResult:
        _require_fresh(views, lookup)
        self._limits.enter()
        try:
            rows = _begun(lookup.pull.rows(views))
        except BaseException:
            self._limits.leave()
            raise
        return self._result(lookup, rows, text)

    def _result(self, lookup: Lookup, rows: Iterator[Row], text: str) -> QueryResult:
        query_id = self._id_of(lookup.pull.source)
        result = PulledRows(query_id, lookup.columns, rows, limit=lookup.limit, text=text)
        result.on_close = self._limits.leave
        return result


def _may_scan(pull: PullQuery, views: Views, values: Values) -> bool:
    """Whether the query may read more than single keys."""
    is_range = pull.is_range(views) and values.flag("ksql.query.pull.range.scan.enabled")
    return is_range or values.flag("ksql.query.pull.table.scan.enabled")


def _require_fresh(views: Views, lookup: Lookup) -> None:
    """Check that the table doesn't lag too far behind its topic. Raises EngineError if it does."""
    if lookup.lag_max == _NO_LAG_MAX:
        return
    for store in views.viewed:
        for number, kept in views.held(store).items():
            if kept.lag > lookup.lag_max:
                raise EngineError(
                    f"Unable to execute the query: partition {number} of {store.topic} is read up to offset "
                    f"{kept.position} of {kept.end}, expected a lag of at most {lookup.lag_max} records "
                    f"('{PULL_LAG_MAX}')",
                    ErrorCode.SERVER_ERROR,
                )


def _begun(rows: Iterator[Row]) -> Iterator[Row]:
    """Find the first row, so that an error of the query is raised now, and return all rows."""
    try:
        first = next(rows, None)
    except ViewError as error:
        raise failure(error) from error
    return iter(()) if first is None else chain([first], rows)
