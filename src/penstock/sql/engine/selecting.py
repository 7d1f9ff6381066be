"""SELECT and PRINT: which of the ways to answer there is for one, and the push queries that are read now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import chain, count

from penstock.sql import statements as s
from penstock.sql.analysis import analyze
from penstock.sql.catalog import DataSource, Role
from penstock.sql.engine.applying import Applier
from penstock.sql.engine.config import EngineConfig
from penstock.sql.engine.entities import RunningQuery
from penstock.sql.engine.errors import EngineError, ErrorCode
from penstock.sql.engine.feeds import Feeds
from penstock.sql.engine.limits import PullLimits
from penstock.sql.engine.lookups import Lookup, Lookups
from penstock.sql.engine.printing import Printing
from penstock.sql.engine.properties import PUSH_STATE_BYTES, Values
from penstock.sql.engine.pull import PullQuery
from penstock.sql.engine.push import RowTaker, computed
from penstock.sql.engine.queries import sources_of
from penstock.sql.engine.reading import Reader
from penstock.sql.engine.requests import Step
from penstock.sql.engine.results import PulledRows, QueryResult, QueuedRows, ResultColumn, Row, failure
from penstock.sql.engine.running import Runner
from penstock.sql.engine.state import State
from penstock.sql.engine.workers import Workers
from penstock.sql.plan import Limit, Plan, QueryKind
from penstock.sql.planning import CACHE, build_reader
from penstock.sql.statements import SourceKind
from penstock.streams.app import App
from penstock.views import ViewError, Views


class Selector:
    """For all threads."""

    def __init__(self, config: EngineConfig, applier: Applier, runner: Runner) -> None:
        self._config = config
        self._applier = applier
        self._runner = runner
        self._lookups = Lookups()
        self._numbers = count(1)
        self._feeds = Feeds(config.client)
        self._workers = Workers("SQL reader")
        self._limits = PullLimits(config.values)
        self._read: dict[str, QueryResult] = {}
        self._open: set[QueryResult] = set()
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            results = list(self._open)
        for result in results:
            result.close()
        self._workers.close()
        self._feeds.close()

    def select(self, step: Step, query: s.Query, state: State) -> QueryResult:
        """Raises EngineError, SqlError, FormatError, ViewError, ClientError."""
        values = self._applier.values(state, step.overrides)
        plan = analyze(query, state.catalog, step.script, step.start).plan
        assert plan is not None
        source = next(sources_of(plan.root))
        if plan.kind is QueryKind.PULL and source.kind is SourceKind.TABLE:
            return self._pull(step, plan, source, state, values)
        return self._stream(step, plan, source, state, values)

    # Tables that are looked up

    def _pull(self, step: Step, plan: Plan, source: DataSource, state: State, values: Values) -> QueryResult:
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
        if pull.is_scan and not values.flag("ksql.query.pull.table.scan.enabled"):
            keys = ", ".join(each.name for each in source.keys)
            raise EngineError(
                f"WHERE clause missing key column for disjunct: expected a condition on {keys}. Set "
                "'ksql.query.pull.table.scan.enabled' to true to read the whole table"
            )
        lookup = Lookup(pull, query, _columns(plan), _limit(plan))
        if step.is_alone:
            self._lookups.learn(step.script, state, plan, lookup)
        return self._looked_up(lookup, views, step.text)

    def known(self, text: str, state: State) -> QueryResult | None:
        """The answer to a lookup that was asked before with other keys; None for any other text."""
        lookup = self._lookups.find(text, state)
        views = None if lookup is None else self._runner.views(lookup.query)
        return None if lookup is None or views is None else self._looked_up(lookup, views, text)

    def _looked_up(self, lookup: Lookup, views: Views, text: str) -> QueryResult:
        self._limits.enter()
        try:
            rows = _begun(lookup.pull.rows(views))
        except BaseException:
            self._limits.leave()
            raise
        query_id = self._id(lookup.pull.source)
        result = PulledRows(query_id, lookup.columns, rows, limit=lookup.limit, text=text)
        result.on_close = self._limits.leave
        return result

    # Records that are read

    def _stream(
        self, step: Step, plan: Plan, source: DataSource, state: State, values: Values
    ) -> QueryResult:
        is_push = plan.kind is QueryKind.PUSH
        if not is_push and not values.flag("ksql.query.pull.stream.enabled"):
            raise EngineError(
                "Pull queries on streams are disabled: 'ksql.query.pull.stream.enabled' is false."
            )
        result = QueuedRows(
            self._id(source), _columns(plan), is_push=is_push, limit=_limit(plan), text=step.text
        )
        app = self.reader(plan, result, state, values)
        reader = computed(self._feeds, self._workers, app, result, values.number(PUSH_STATE_BYTES))
        if is_push:
            leave = self._enter(result, values)
        else:
            self._limits.enter()
            leave = self._limits.leave
        self._begin(result, reader, leave)
        return result

    def _begin(self, result: QueuedRows, reader: Reader, leave: Callable[[], None]) -> None:
        """Read until the result is closed."""

        def end() -> None:
            with self._lock:
                self._open.discard(result)
            reader.close()
            leave()

        result.on_room, result.on_close = reader.wake, end
        with self._lock:
            self._open.add(result)
        reader.start()

    def reader(self, plan: Plan, result: QueuedRows, state: State, values: Values) -> App:
        """The application whose rows go to a result."""
        return build_reader(
            plan,
            RowTaker(plan.root.schema, result),
            query_id=result.query_id,
            catalog=state.catalog,
            settings={**self._applier.settings(values), CACHE: "0"},  # who follows is told each change
            service_id=self._config.service_id,
            user_functions=state.user_functions,
        )

    def print_topic(self, step: Step, statement: s.Print, state: State) -> QueuedRows:
        values = self._applier.values(state, step.overrides)
        result = QueuedRows(f"print_{next(self._numbers)}", (), is_push=True, limit=None, text=step.text)
        printing = Printing(statement, values.registry(), result)
        places = self._feeds.offsets({statement.topic: not statement.from_beginning})
        reader = Reader(self._feeds, self._workers, printing, places)
        self._begin(result, reader, _nothing)
        return result

    # Those that are read now

    def _enter(self, result: QueuedRows, values: Values) -> Callable[[], None]:
        """Count a push query; what is given is to be called at its end. Raises EngineError."""
        with self._lock:
            if len(self._read) >= values.number("ksql.max.push.queries"):
                raise EngineError(
                    f"Maximum push query limit of {values.number('ksql.max.push.queries')} has been reached "
                    "('ksql.max.push.queries'): close one to begin another",
                    ErrorCode.MAX_PUSH_QUERIES_EXCEEDED,
                )
            self._read[result.query_id] = result

        def leave() -> None:
            with self._lock:
                self._read.pop(result.query_id, None)

        return leave

    def close_query(self, query_id: str) -> bool:
        """Whether there was one of that id."""
        with self._lock:
            found = self._read.get(query_id)
        if found is None:
            return False
        found.close()
        return True

    def has(self, query_id: str | None) -> bool:
        return query_id in self._read

    def running(self) -> tuple[RunningQuery, ...]:
        with self._lock:
            read = list(self._read.values())
        return tuple(
            RunningQuery(each.text, (), (), each.query_id, {"RUNNING": 1}, "PUSH", "RUNNING") for each in read
        )

    def _id(self, source: DataSource) -> str:
        return f"transient_{source.name}_{next(self._numbers)}"


def _nothing() -> None:
    """PRINT is not counted."""


def _columns(plan: Plan) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(each.name, each.type, each.role is Role.KEY) for each in plan.root.schema)


def _limit(plan: Plan) -> int | None:
    return plan.root.rows if isinstance(plan.root, Limit) else None


def _begun(rows: Iterator[Row]) -> Iterator[Row]:
    """The same rows, the first of which was looked for: what is wrong with the query shows at once."""
    try:
        first = next(rows, None)
    except ViewError as error:
        raise failure(error) from error
    return iter(()) if first is None else chain([first], rows)
