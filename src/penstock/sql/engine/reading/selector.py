"""SELECT and PRINT: choose how each one is answered, and keep track of the open push queries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from penstock.sql.analysis import analyze
from penstock.sql.analysis.plan import Plan, QueryKind
from penstock.sql.catalog import DataSource
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.entities import RunningQuery
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.persistent_queries import sources_of
from penstock.sql.engine.ground.properties import PUSH_STATE_BYTES, Values
from penstock.sql.engine.ground.query_settings import plan_settings, values_of
from penstock.sql.engine.ground.requests import Step
from penstock.sql.engine.ground.state import State
from penstock.sql.engine.reading.feeds import Feeds
from penstock.sql.engine.reading.pull_limits import PullLimits
from penstock.sql.engine.reading.puller import Puller
from penstock.sql.engine.reading.push_query import RowTaker, computed
from penstock.sql.engine.reading.results import QueryResult, QueuedRows, columns_of, limit_of
from penstock.sql.engine.reading.topic_printing import Printing
from penstock.sql.engine.reading.topic_reader import Reader
from penstock.sql.engine.reading.workers import Workers
from penstock.sql.engine.running.runner import Runner
from penstock.sql.language import statements as s
from penstock.sql.language.statements import SourceKind
from penstock.sql.planning import CACHE, build_reader
from penstock.streams.app import App


class Selector:
    """The entry point of SELECT and PRINT. Any thread may call it."""

    def __init__(self, config: EngineConfig, runner: Runner) -> None:
        self._config = config
        self._numbers = count(1)
        self._feeds = Feeds(config.client)
        self._workers = Workers("SQL reader")
        self._limits = PullLimits(config.values)
        self.puller = Puller(runner, self._limits, self._id)
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
        """Start a SELECT and return its result.

        Raises EngineError, SqlError, FormatError, ViewError or ClientError if it can't be started.
        """
        values = values_of(self._config, state, step.overrides)
        plan = analyze(query, state.catalog, step.script, step.start).plan
        assert plan is not None
        source = next(sources_of(plan.root))
        if plan.kind is QueryKind.PULL and source.kind is SourceKind.TABLE:
            return self.puller.pull(step, plan, source, state, values)
        return self._stream(step, plan, source, state, values)

    # Queries that read records

    def _stream(
        self, step: Step, plan: Plan, source: DataSource, state: State, values: Values
    ) -> QueryResult:
        is_push = plan.kind is QueryKind.PUSH
        if not is_push and not values.flag("ksql.query.pull.stream.enabled"):
            raise EngineError(
                "Pull queries on streams are disabled: 'ksql.query.pull.stream.enabled' is false."
            )
        result = QueuedRows(
            self._id(source), columns_of(plan), is_push=is_push, limit=limit_of(plan), text=step.text
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
        """Start a reader that runs until the result is closed."""

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
        """Build the application that writes the rows of a plan to a result."""
        return build_reader(
            plan,
            RowTaker(plan.root.schema, result),
            query_id=result.query_id,
            catalog=state.catalog,
            # without a cache each change is emitted
            settings={**plan_settings(self._config, values), CACHE: "0"},
            service_id=self._config.service_id,
            user_functions=state.user_functions,
        )

    def print_topic(self, step: Step, statement: s.Print, state: State) -> QueuedRows:
        values = values_of(self._config, state, step.overrides)
        result = QueuedRows(f"print_{next(self._numbers)}", (), is_push=True, limit=None, text=step.text)
        printing = Printing(statement, values.registry(), result)
        bounds = self._feeds.bounds({statement.topic: not statement.from_beginning})
        reader = Reader(self._feeds, self._workers, printing, bounds, follows=True)
        self._begin(result, reader, _nothing)
        return result

    # Open push queries

    def _enter(self, result: QueuedRows, values: Values) -> Callable[[], None]:
        """Count a push query and return the function to call when it ends.

        Raises EngineError if the server has as many push queries as it allows.
        """
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
        """Close the push query of that id and return whether there was one."""
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
    """Do nothing: PRINT doesn't count as a push query."""
