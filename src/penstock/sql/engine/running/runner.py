"""Keep the host running the queries of a state, and the views of those whose tables can be looked up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from penstock.client.errors import ClientError
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.persistent_queries import PersistentQuery
from penstock.sql.engine.ground.service_topics import log_topic
from penstock.sql.engine.ground.state import State
from penstock.sql.engine.running.failure_log import FailureLog
from penstock.sql.engine.running.host import Blame, QueryFailure, QueryHost, QueryState, QueryStatus
from penstock.sql.engine.running.topic_statistics import Meter, Moved
from penstock.views import StoreNotQueryable, Views

log = logging.getLogger(__name__)


_FAILURES_MAX: Final = 10


class _Failed(NamedTuple):
    """The host's refusals of a query: the last failures and how many there were in a row.

    ``due_s`` is the monotonic time of the next attempt.
    """

    failures: tuple[QueryFailure, ...] = ()
    in_a_row: int = 0
    due_s: float = 0.0


class Runner:
    """The running queries. One thread at a time may change them; any thread may ask for their states."""

    def __init__(self, config: EngineConfig, host: QueryHost) -> None:
        self._config = config
        self._host = host
        self._views: dict[str, Views] = {}
        self._failed: dict[str, _Failed] = {}
        self._leaving: set[str] = set()
        """Queries that ended, but that the host still has."""
        self._lock = threading.Lock()
        self._meter = Meter(log_topic(config.values, config.service_id))
        self._failure_log = FailureLog(config)
        self._metering = threading.Lock()

    def close(self) -> None:
        for query_id in list(self._views):
            self._close_views(query_id)
        self._host.close()

    def follow(self, old: State, new: State) -> None:
        """Let the host run the queries of the new state.

        A query that can't be started goes into the state ERROR, and does not affect the others.
        """
        for query_id in old.queries.keys() - new.queries.keys():
            self._close_views(query_id)
            self._failed.pop(query_id, None)
            if old.queries[query_id].runs_on_host:
                self._leaving.add(query_id)
        self._remove_leaving()
        for query_id, query in new.queries.items():
            before = old.queries.get(query_id)
            if before is None or before.planned is not query.planned:
                self._start(query)
            elif before.is_paused is query.is_paused:
                continue
            elif query_id in self._failed:
                self._start(query)
            else:
                self._attempt(query, self._host.pause if query.is_paused else self._host.resume)
        self._measure()  # count the queries' records from here on

    def observe(self) -> None:
        """Count what queries have read and written, and log those that failed. Only one thread calls this."""
        self._measure()
        failures = {query_id: each.failures for query_id, each in self._host.states().items()}
        failures |= {query_id: each.failures for query_id, each in self._failed.copy().items()}
        self._failure_log.write_new(failures)

    def _measure(self) -> None:
        try:
            activity = self._host.activity()
        except OSError as error:
            log.warning("cannot read the activity of queries error=%s", error)
            return
        with self._metering:
            self._meter.sample(activity, time.time_ns() // 1_000_000)

    def totals(self) -> dict[Moved, int]:
        """The records that queries have read and written since this server first saw each."""
        self._measure()
        with self._metering:
            return self._meter.totals()

    @property
    def failure_counts(self) -> Mapping[str, int]:
        """The failures of queries that `observe` has seen, by query."""
        return self._failure_log.counts

    def statistics(self, topic: str) -> tuple[str, str]:
        """ksqlDB's statistics of a topic: what queries read and write, and what they failed to read."""
        self._measure()
        with self._metering:
            return self._meter.statistics(topic), self._meter.failures(topic)

    def _attempt(self, query: PersistentQuery, change: Callable[[str], None]) -> bool:
        """Ask the host for a change and return whether it succeeded.

        A refusal determines the query's state until an attempt succeeds.
        """
        if not query.runs_on_host:
            return True
        try:
            change(query.id)
        except Exception as error:
            log.exception("the host failed to change a query query=%s", query.id)
            before = self._failed.get(query.id, _Failed())
            failures = (*before.failures, _failure(error))[-_FAILURES_MAX:]
            in_a_row = before.in_a_row + 1
            due_s = time.monotonic() + self._config.retry_backoff.pause_s(in_a_row)
            self._failed[query.id] = _Failed(failures, in_a_row, due_s)
            return False
        self._failed.pop(query.id, None)
        return True

    @property
    def has_due(self) -> bool:
        """Whether a failed change is due for its next attempt."""
        now_s = time.monotonic()
        return any(each.due_s <= now_s for each in self._failed.copy().values())

    def try_again(self, state: State) -> None:
        """Start the failed queries whose next attempt is due."""
        now_s = time.monotonic()
        for query_id, failed in list(self._failed.items()):
            if failed.due_s <= now_s and query_id in state.queries:
                self._start(state.queries[query_id])

    def _remove_leaving(self) -> None:
        for query_id in self._leaving & self._host.states().keys():
            try:
                self._host.remove(query_id)
            except Exception:
                log.exception("the host failed to remove a query query=%s", query_id)
        self._leaving &= self._host.states().keys()

    def wait_until_gone(self, timeout_s: float) -> tuple[str, ...]:
        """Wait until ended queries write no more records, and return those for which it is not certain."""
        self._remove_leaving()
        return (*sorted(self._leaving), *self._host.wait_until_gone(timeout_s))

    def wait_until_buried(self, timeout_s: float) -> tuple[str, ...]:
        """Wait until the state and topics of ended queries are deleted, and return the remaining queries."""
        self._remove_leaving()
        return (*sorted(self._leaving), *self._host.wait_until_buried(timeout_s))

    def retain(self, state: State, *, is_whole: bool) -> None:
        """After a restart, delete the remains of queries that the state does not have.

        If the state is not ``is_whole``, because a command was not understood or the log is empty, pause
        those queries instead, so that a server that knows their statements can resume them.
        """
        known = {each.id for each in state.queries.values() if each.runs_on_host}
        if is_whole:
            self._host.retain(known)
            return
        for query_id in self._host.states().keys() - known:
            log.warning(
                "query paused, because its statement was not read from the command topic query=%s", query_id
            )
            self._host.pause(query_id)

    def _start(self, query: PersistentQuery) -> None:
        self._close_views(query.id)
        topology = query.planned.app.topology()
        add = partial(self._host.add, topology=topology, paused=query.is_paused)
        if not self._attempt(query, add) or query.planned.store is None:
            return
        try:
            views = Views(
                topology,
                bootstrap_servers=self._config.bootstrap_servers,
                stores=[query.planned.store],
                properties=self._config.client_properties,
            )
        except StoreNotQueryable as error:
            log.warning("pull queries cannot read a table table=%s error=%s", query.sink.name, error)
            return
        views.start()
        with self._lock:
            self._views[query.id] = views

    def _close_views(self, query_id: str) -> None:
        with self._lock:
            views = self._views.pop(query_id, None)
        if views is not None:
            views.close()

    def views(self, query: PersistentQuery) -> Views | None:
        """The views that answer lookups in a table; None if it can't be looked up."""
        return self._views.get(query.id)

    @property
    def all_views(self) -> dict[str, Views]:
        """All views, by the ids of their queries."""
        return self._views.copy()

    def state(self, query: PersistentQuery) -> QueryState:
        return self.states({query.id: query})[query.id]

    def states(self, queries: dict[str, PersistentQuery]) -> dict[str, QueryState]:
        states = self._host.states()
        made: dict[str, QueryState] = {}
        for query_id, query in queries.items():
            known = QueryState(QueryStatus.RUNNING) if not query.runs_on_host else states.get(query_id)
            failed = self._failed.get(query_id)
            if failed is not None:
                known = QueryState(QueryStatus.ERROR, failed.failures)
            made[query_id] = known or QueryState(QueryStatus.STARTING)
        return made


def _failure(error: Exception) -> QueryFailure:
    is_of_system = isinstance(error, ClientError) and error.retriable
    blame = Blame.SYSTEM if is_of_system else Blame.UNKNOWN
    return QueryFailure(time.time_ns() // 1_000_000, str(error) or repr(error), blame)
