"""SELECTs that read records rather than views; each runs its plan in this process.

A push query runs as long as its result is read. A pull query over a stream ends at the current end of the
topic.
"""

from __future__ import annotations

import logging
from operator import attrgetter
from typing import Any, Final

from penstock.sql.analysis.plan import Schema
from penstock.sql.catalog import Role
from penstock.sql.engine.ground.cluster_topics import topics_read
from penstock.sql.engine.ground.errors import EngineError
from penstock.sql.engine.ground.properties import PUSH_STATE_BYTES
from penstock.sql.engine.reading.feeds import Chunk, Feeds
from penstock.sql.engine.reading.local_tasks import LocalTasks
from penstock.sql.engine.reading.results import QueryClosed, QueuedRows, Row, Tombstone
from penstock.sql.engine.reading.topic_reader import Reader
from penstock.sql.engine.reading.workers import Workers
from penstock.streams.app import App
from penstock.topology.serdes import Windowed

log = logging.getLogger(__name__)

_BOUNDS: Final = {"WINDOWSTART": attrgetter("start_ms"), "WINDOWEND": attrgetter("end_ms")}


class RowTaker:
    """The end of a plan: it puts the rows into the result."""

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


class Computing:
    """A plan that runs for one reader, on the records that it receives (`topic_reader.Taker`).

    ``state_max_bytes`` limits its state.
    """

    def __init__(self, tasks: LocalTasks, result: QueuedRows, state_max_bytes: int) -> None:
        self._tasks = tasks
        self._result = result
        self._state_max_bytes = state_max_bytes

    def has_room(self) -> bool:
        return self._result.has_room()

    def take(self, chunk: Chunk, start: int, stop: int) -> bool:
        try:
            self._tasks.process_chunk(chunk, start, stop)
        except QueryClosed:
            return False
        return True

    def turn_over(self) -> None:
        try:
            self._tasks.tick()
        except QueryClosed:
            return
        state_bytes = self._tasks.measured_state(self._state_max_bytes)
        if state_bytes > self._state_max_bytes:
            raise EngineError(
                f"found {state_bytes} bytes of state in the query {self._result.query_id}, expected "
                f"{self._state_max_bytes} at most ('{PUSH_STATE_BYTES}'): a table created by CREATE "
                "TABLE … AS SELECT keeps its state outside of the server's memory"
            )

    def finished(self) -> None:
        self._result.finish()

    def failed(self, error: BaseException) -> None:
        log.info("query failed query=%s error=%s", self._result.query_id, error)
        self._result.fail(error)


def computed(feeds: Feeds, workers: Workers, app: App, result: QueuedRows, state_max_bytes: int) -> Reader:
    """Build the reader that runs a query; the caller starts it.

    A push query starts at the ends or the beginnings of its topics and runs until it is closed. A pull query
    reads from the beginnings up to the current ends. Raises ClientError, CoPartitioningError.
    """
    topology = app.topology()
    topics = topics_read(topology)
    bounds = feeds.bounds(topics if result.is_push else dict.fromkeys(topics, False))
    counts = {topic: sum(tp.topic == topic for tp in bounds.places) for topic in topics}
    taker = Computing(LocalTasks(topology, counts), result, state_max_bytes)
    return Reader(feeds, workers, taker, bounds, follows=result.is_push)
