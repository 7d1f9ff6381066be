"""`Views`: replicas of an application's stores that follow the stores' logs, for queries from anywhere.

    with Views(app.topology(), bootstrap_servers="localhost:9092") as views:
        views.store("counts").get("ann")

A view needs the cluster and the topology, but not the process that computes: it may run in that process or in
another one, and keeps working while the application is stopped. It shows committed data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, TypeVar, overload

from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.reading.follower import Choice, Committed, Follower
from penstock.client.settings import from_properties, resolved
from penstock.protocol.murmur2 import partition_for_key
from penstock.topology.graph import Topology
from penstock.views.catalog import Catalog, ViewedStore
from penstock.views.coverage import Coverage
from penstock.views.errors import (
    NotPresent,
    PositionNotReached,
    StoreRestoring,
    UnknownStore,
    ViewError,
    ViewsClosed,
)
from penstock.views.position import Position, merged
from penstock.views.queries import DEFAULT_TIMEOUT_S, Answer, Query
from penstock.views.reads import Found, GetValue, GetWindow, Read, Scan, merged_rows
from penstock.views.replica import Replica
from penstock.views.stores import View, view_of
from penstock.views.waiting import Waiting

T = TypeVar("T")
W = TypeVar("W", bound=View[Any, Any])

_REST_S: Final = 0.02
"""The pause before the next fetch, so that several small batches share one response, which is costly."""
_IDLE_MS: Final = "500"
"""The longest wait of a fetch without data. Each idle view costs one request in this time."""


def all_partitions(topic: str, count: int) -> Collection[int]:
    """Choose every partition, for a process that views everything."""
    return range(count)


class Views:
    """The stores of one application, or some of them.

    Args:
        topology: the application's topology: ``app.topology()``.
        bootstrap_servers: ``host:port``, several separated by commas.
        stores: names of stores; None: all that can be queried.
        properties: Kafka's client properties.
        choice: which partitions to keep; all by default.

    Any thread may call any method. Raises UnknownStore, StoreNotQueryable, ConfigError.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        bootstrap_servers: str,
        stores: Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        choice: Choice = all_partitions,
    ) -> None:
        self.catalog = Catalog(topology)
        self.viewed = self.catalog.some(stores)
        given = {"client.id": f"{topology.application}-views", "fetch.max.wait.ms": _IDLE_MS}
        given |= resolved(properties or {})
        given["bootstrap.servers"] = bootstrap_servers
        self.config = ClientConfig.from_properties(given)
        self._choice = choice
        self._specs = {store.topic: store.spec for store in self.viewed}
        self._replicas: dict[TopicPartition, Replica] = {}
        self._counts: Mapping[str, int] = {}
        self._waiting = Waiting()
        self._error: BaseException | None = None
        self._follower = Follower(
            self.config,
            from_properties(FetchConfig, given),
            self._specs,
            choice,
            self,
            name=f"{topology.application} views",
            rest_s=_REST_S,
        )
        self._coverage = Coverage(self.config, topology.application)

    def __enter__(self) -> Views:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start to follow, in a thread. Until the logs are read, queries wait or fail with StoreRestoring."""
        self._follower.start()

    def close(self) -> None:
        """Stop following; pending queries fail with ViewsClosed."""
        self._follower.close()
        self._coverage.close()
        self.failed(ViewsClosed("the views are closed"))

    # What there is

    @overload
    def store(self, name: str) -> View[Any, Any]: ...

    @overload
    def store(self, name: str, kind: type[W]) -> W: ...

    def store(self, name: str, kind: type[View[Any, Any]] = View) -> View[Any, Any]:
        """Return a `KeyValueView`, `VersionedView`, `WindowView` or `SessionView`.

        ``kind`` is that class, for type checkers with the types of keys and values too: with
        ``views.store("counts", KeyValueView[str, int])`` they know what ``get`` returns. Raises UnknownStore,
        StoreNotQueryable, and UnsupportedQuery if the store is of another kind.
        """
        return view_of(self, self.find(name), kind)

    def find(self, name: str) -> ViewedStore:
        """Return a viewed store. Raises UnknownStore, StoreNotQueryable."""
        found = self.catalog.find(name)
        if found.topic not in self._specs:
            known = ", ".join(store.name for store in self.viewed)
            raise UnknownStore(f"store {name} is not viewed here; viewed stores: {known}")
        return found

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of partitions of each store's log that exists, by topic."""
        return self._counts

    @property
    def trouble(self) -> str | None:
        """The last error of following, while it lasts; following is retried until it succeeds."""
        return self._follower.trouble

    def replica(self, tp: TopicPartition) -> Replica | None:
        return self._replicas.get(tp)

    def held(self, store: ViewedStore) -> dict[int, Replica]:
        """Return the replicas of a store that are held here, by partition."""
        return {tp.partition: kept for tp, kept in self._replicas.copy().items() if tp.topic == store.topic}

    def choose(self, choice: Choice) -> None:
        """Hold other partitions from now on."""
        self._choice = choice
        self._follower.choose(choice)

    def position(self) -> Position:
        """Return the position of all replicas held here."""
        return Position({tp: kept.position for tp, kept in self._replicas.copy().items()})

    def wait_until_ready(self, timeout_s: float | None = None) -> None:
        """Wait until all logs have been read to their ends. Raises StoreRestoring on timeout."""
        _result(self._waiting.until(lambda: not self.unready()), timeout_s, self._not_ready)

    def unready(self) -> list[str]:
        """Return the topics that don't exist yet, and the partitions that are still being read."""
        found = sorted(self._specs.keys() - self._counts.keys())
        for topic, count in self._counts.items():
            for number in sorted(self._choice(topic, count)):
                kept = self._replicas.get(TopicPartition(topic, number))
                if kept is None or not kept.is_ready:
                    found.append(f"{topic}-{number}")
        return found

    def _not_ready(self) -> ViewError:
        return StoreRestoring(f"still reading {', '.join(self.unready())}")

    # Queries

    def partitions_of(self, query: Query) -> tuple[int, ...]:
        """Return the partitions that may have the answer: all are needed, for a key until it is found.

        Raises StoreRestoring while the store's topic doesn't exist.
        """
        if query.partitions is not None:
            return query.partitions
        store, key = query.store, query.read.key
        count = self._counts.get(store.topic)
        if count is None:
            trouble = self.trouble or "waiting for it"
            raise StoreRestoring(f"topic {store.topic} does not exist yet: {trouble}")
        if key is None:
            return tuple(range(count))
        likely = partition_for_key(key, count)
        if store.keys_are_placed:
            return (likely,)
        return (likely, *(number for number in range(count) if number != likely))

    def answer(self, query: Query) -> Answer[Found] | None:
        """Return the answer if it is available without waiting; else None: see `when_ready`.

        Raises NotPresent if a required partition is not held here.
        """
        if query.at_least.offsets and any(tp.topic != query.store.topic for tp in query.at_least.offsets):
            return None
        return self._answer(query, query.at_least)

    def _answer(self, query: Query, at_least: Position) -> Answer[Found] | None:
        self._raise_error()
        if query.partitions is None and query.store.topic not in self._counts:
            return None
        read = query.read
        numbers = self.partitions_of(query)
        if any(self._is_gone(query.store, number) for number in numbers):
            return None
        replicas = (self._kept(query.store, number) for number in numbers)
        if read.key is None:
            needed = list(replicas)
            return _scanned(read, needed) if all(_has(kept, at_least) for kept in needed) else None
        looked_at: dict[TopicPartition, int] = {}
        found = Found([])
        for kept in replicas:
            if not _has(kept, at_least):
                return None
            found, looked_at[kept.tp] = _read(read, kept)
            if found.rows:
                break
        return Answer(found, Position(looked_at))

    def _is_gone(self, store: ViewedStore, number: int) -> bool:
        """Whether the topic was created again without this partition since its partitions were counted."""
        tp = TopicPartition(store.topic, number)
        return tp not in self._replicas and number >= self._counts.get(store.topic, 0)

    def _kept(self, store: ViewedStore, number: int) -> Replica:
        kept = self._replicas.get(TopicPartition(store.topic, number))
        if kept is None:
            raise NotPresent(f"partition {number} of store {store.name} is not held by this process")
        return kept

    def when_ready(self, query: Query) -> Future[Position]:
        """Return a future of the position with which to repeat a query that can't be answered yet.

        Cancel the future to stop waiting.
        """
        inputs: dict[TopicPartition, int] = {}
        log: dict[TopicPartition, int] = {}
        for tp, offset in query.at_least.offsets.items():
            (log if tp.topic == query.store.topic else inputs)[tp] = offset
        done: Future[Position] = Future()
        if not inputs:
            self._chain(query, Position(log), done)
            return done
        covered = self._coverage.of_inputs(query.store, Position(inputs))

        def proceed(found: Future[Position]) -> None:
            if found.cancelled():
                return
            error = found.exception()
            if error is None:
                self._chain(query, merged((Position(log), found.result())), done)
            elif done.set_running_or_notify_cancel():
                done.set_exception(error)

        covered.add_done_callback(proceed)
        done.add_done_callback(lambda given_up: covered.cancel() if given_up.cancelled() else None)
        return done

    def _chain(self, query: Query, at_least: Position, done: Future[Position]) -> None:
        def holds() -> bool:
            if done.cancelled():
                return True
            return self._answer(query, at_least) is not None

        def finish(waited: Future[None]) -> None:
            if not done.set_running_or_notify_cancel():
                return
            error = waited.exception()
            if error is None:
                done.set_result(at_least)
            else:
                done.set_exception(error)

        try:
            self._waiting.until(holds).add_done_callback(finish)
        except ViewError as error:
            if done.set_running_or_notify_cancel():
                done.set_exception(error)

    def ask(self, query: Query, timeout_s: float = DEFAULT_TIMEOUT_S) -> Answer[Found]:
        """Return the answer, waiting for it if necessary.

        Raises StoreRestoring or PositionNotReached on timeout; NotPresent, InvalidQuery.
        """
        found = self.answer(query)
        deadline = time.monotonic() + timeout_s
        while found is None:
            left_s = max(0.0, deadline - time.monotonic())
            position = _result(self.when_ready(query), left_s, lambda: self.why_not(query))
            found = self._answer(query, position)
        return found

    def finish(self, query: Query, position: Position) -> Answer[Found] | None:
        """Return the answer, once `when_ready` has returned this position.

        None means that the query must be repeated, because a log was restarted meanwhile.
        """
        return self._answer(query, position)

    def why_not(self, query: Query) -> ViewError:
        """Return the error that says what an answer is still waiting for."""
        try:
            replicas = [self._kept(query.store, number) for number in self.partitions_of(query)]
        except ViewError as error:
            return error
        behind = [kept for kept in replicas if not kept.is_ready]
        if behind:
            shown = ", ".join(f"{kept.tp} at offset {kept.position}" for kept in behind)
            return StoreRestoring(f"store {query.store.name} is still being read: {shown}")
        here = Position({kept.tp: kept.position for kept in replicas})
        return PositionNotReached(
            f"store {query.store.name} did not reach {query.at_least.to_json()} in time: it is at "
            f"{here.to_json()}"
        )

    def _raise_error(self) -> None:
        if self._error is not None:
            raise ViewsClosed(f"the views of {self.catalog.application} are closed") from self._error

    # Callbacks of the follower

    def counted(self, partitions: Mapping[str, int]) -> None:
        self._counts = dict(partitions)
        self._waiting.check()

    def begin(self, tp: TopicPartition, offset: int) -> None:
        kept = self._replicas.get(tp)
        if kept is None:
            kept = Replica(self._specs[tp.topic], tp)
        kept.restart(offset)
        self._replicas[tp] = kept

    def dropped(self, tp: TopicPartition) -> None:
        self._replicas.pop(tp, None)
        self._waiting.check()

    def take(self, arrived: Mapping[TopicPartition, Committed]) -> None:
        moved = False
        for tp, found in arrived.items():
            moved |= self._replicas[tp].take(found.spans, found.next_offset, found.stable_end)
        if moved:
            self._waiting.check()

    def failed(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        closed = ViewsClosed(f"the views of {self.catalog.application} are closed: {error}")
        closed.__cause__ = error
        self._waiting.fail(closed)


def _has(kept: Replica, at_least: Position) -> bool:
    return kept.is_ready and kept.position >= at_least.offsets.get(kept.tp, 0)


def _read(read: Read, kept: Replica) -> tuple[Found, int]:
    """Return the rows, and a position that they include at least."""
    if isinstance(read, GetValue | GetWindow):
        # The position is read first: a record applied in between is in the value, but not in the position.
        position = kept.position
        return read.run(kept), position
    with kept.lock:
        return read.run(kept), kept.position


def _scanned(read: Read, replicas: list[Replica]) -> Answer[Found]:
    pages = [_read(read, kept) for kept in replicas]
    position = Position({kept.tp: at for kept, (_, at) in zip(replicas, pages, strict=True)})
    found = [page for page, _ in pages]
    if not isinstance(read, Scan):
        return Answer(Found([row for page in found for row in page.rows]), position)
    return Answer(merged_rows(found, reverse=read.reverse, limit=read.limit), position)


def _result(future: Future[T], timeout_s: float | None, late: Callable[[], ViewError]) -> T:
    try:
        return future.result(timeout_s)
    except (FutureTimeout, CancelledError):
        if future.done() and not future.cancelled():
            return future.result()
        future.cancel()
        raise late() from None
