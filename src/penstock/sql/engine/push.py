"""SELECT that is answered by records alone: push queries, which go on while somebody reads, and pull queries
over streams, which end where the topic does now. Each runs its plan in this process.
"""

from __future__ import annotations

import logging
import threading
from operator import attrgetter
from typing import Any, Final

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.sql.catalog import Role
from penstock.sql.engine.local_tasks import LocalTasks
from penstock.sql.engine.reading import Tail, counts_of, read_present, topics_read
from penstock.sql.engine.results import QueryClosed, QueuedRows, Row, Tombstone
from penstock.sql.plan import Schema
from penstock.streams.app import App
from penstock.topology.context import Input
from penstock.topology.serdes import Windowed

logger = logging.getLogger(__name__)

_BOUNDS: Final = {"WINDOWSTART": attrgetter("start_ms"), "WINDOWEND": attrgetter("end_ms")}


class RowTaker:
    """Gives what comes out of a plan to whoever reads the result."""

    def __init__(self, schema: Schema, result: QueuedRows) -> None:
        self._keys = [place for place, each in enumerate(schema) if each.role is Role.KEY]
        self._bounds = [
            (place, _BOUNDS[each.name]) for place, each in enumerate(schema) if each.name in _BOUNDS
        ]
        self._width = len(schema)
        self._result = result

    def __call__(self, key: Any, row: Row | None) -> None:
        self._result.put(self._deleted(key) if row is None else row)

    def _deleted(self, key: Any) -> Tombstone:
        values: list[Any] = [None] * self._width
        given = key
        if type(key) is Windowed:
            given = key.key
            for place, of in self._bounds:
                values[place] = of(key.window)
        for place, value in zip(self._keys, given or (), strict=False):
            values[place] = value
        return Tombstone(values)


class Tailing:
    """A push query: a thread reads its topics from where they end, or begin, until it is closed."""

    def __init__(self, config: ClientConfig, app: App, result: QueuedRows) -> None:
        topology = app.topology()
        topics = topics_read(topology)
        with Cluster(config) as cluster:
            self._tasks = LocalTasks(topology, counts_of(cluster, topics))
        self._result = result
        self._tail = Tail(config, topics, self._take, result.fail, name=f"{result.query_id} tail")

    def start(self) -> None:
        self._tail.start()

    def close(self) -> None:
        self._tail.close()

    def _take(self, rows: list[Input]) -> bool:
        try:
            self._tasks.process(rows)
            self._tasks.tick()
        except QueryClosed:
            return False
        return True


class Scanning:
    """A pull query over a stream: a thread reads what its topic holds now."""

    def __init__(self, config: ClientConfig, app: App, result: QueuedRows) -> None:
        topology = app.topology()
        self._config = config
        self._topics = list(topics_read(topology))
        with Cluster(config) as cluster:
            self._tasks = LocalTasks(topology, counts_of(cluster, self._topics))
        self._result = result
        self._thread = threading.Thread(target=self._run, name=f"{result.query_id} scan", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """The thread ends with the next row that nobody takes."""

    def _run(self) -> None:
        try:
            for rows in read_present(self._config, self._topics):
                self._tasks.process(rows)
            self._result.finish()
        except QueryClosed:
            return
        except Exception as error:
            logger.info("query %s failed: %s", self._result.query_id, error)
            self._result.fail(error)
