"""`Views`: an application's stores, kept by following their logs, to be asked from anywhere.

    with Views(app.topology(), bootstrap_servers="localhost:9092") as views:
        views.store("counts").get("ann")

A view needs the cluster and the topology, and nothing of the process that computes: it may live beside it, in
another process, or go on while the application is stopped. It shows what is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from penstock.client.config import ClientConfig
from penstock.client.fetcher import FetchConfig
from penstock.client.follower import Choice, Committed, Follower
from penstock.client.metadata import TopicPartition
from penstock.client.settings import from_properties
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
from penstock.views.reads import Found, GetValue, GetWindow, Read, Scan, merged_rows
from penstock.views.replica import Replica
from penstock.views.waiting import Waiting

T = TypeVar("T")

DEFAULT_TIMEOUT_S: Final = 5.0
#: What many small batches bring in this time is taken up together: each answer of a broker costs its own.
_REST_S: Final = 0.02
#: How long a broker may have nothing to say; each view that is at rest costs a request in this time.
_IDLE_MS: Final = "500"


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """``value``, and the position of the logs that it is of: nothing before that is missing."""

    value: T
    position: Position


@dataclass(frozen=True)
class Query:
    """A read of a store.

    Attributes:
        partitions: only these; None: those that the key may be in, or all.
        at_least: what the answer must cover: offsets of the store's log, of topics that the application
            reads, or both.
    """

    store: ViewedStore
    read: Read
    partitions: tuple[int, ...] | None = None
    at_least: Position = field(default_factory=Position)


def all_partitions(topic: str, count: int) -> Collection[int]:
    """The choice of a process that views everything."""
    return range(count)


class Views:
    """The stores of one application, or some of them.

    Args:
        topology: the application's: ``app.topology()``.
        bootstrap_servers: ``host:port``, several separated by commas.
        stores: names of stores; None: all that can be queried.
        properties: Kafka's client properties.
        choice: which partitions to keep; all by default.

    All methods may be called by any thread. Raises UnknownStore, StoreNotQueryable, ConfigError.
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
        given |= properties or {}
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
        """Begin to follow, in a thread. Queries wait, or fail with StoreRestoring, until logs are read."""
        self._follower.start()

    def close(self) -> None:
        """Stop following; whoever waits gets ViewsClosed."""
        self._follower.close()
        self._coverage.close()
        self.failed(ViewsClosed("the views are closed"))

    # What there is

    def store(self, name: str) -> Any:
        """A `KeyValueView`, `VersionedView`, `WindowView` or `SessionView`. Raises UnknownStore,
        StoreNotQueryable.
        """
        from penstock.views.stores import view_of  # stands on this module

        return view_of(self, name)

    def find(self, name: str) -> ViewedStore:
        """Raises UnknownStore, StoreNotQueryable."""
        found = self.catalog.find(name)
        if found.topic not in self._specs:
            known = ", ".join(store.name for store in self.viewed)
            raise UnknownStore(f"store {name} is not viewed here; those that are: {known}")
        return found

    @property
    def counts(self) -> Mapping[str, int]:
        """How many partitions the log of each store has, by topic, as far as it exists."""
        return self._counts

    @property
    def trouble(self) -> str | None:
        """What following has last failed with, as long as it does; it is tried again and again."""
        return self._follower.trouble

    def replica(self, tp: TopicPartition) -> Replica | None:
        return self._replicas.get(tp)

    def held(self, store: ViewedStore) -> dict[int, Replica]:
        """What is kept here of a store, by partition."""
        return {tp.partition: kept for tp, kept in self._replicas.copy().items() if tp.topic == store.topic}

    def choose(self, choice: Choice) -> None:
        """Keep other partitions from now on."""
        self._choice = choice
        self._follower.choose(choice)

    def position(self) -> Position:
        """Of everything that is kept here."""
        return Position({tp: kept.position for tp, kept in self._replicas.copy().items()})

    def wait_until_ready(self, timeout_s: float | None = None) -> None:
        """Until all logs were read to their ends. Raises StoreRestoring when the time is up."""
        _result(self._waiting.until(lambda: not self.unready()), timeout_s, self._not_ready)

    def unready(self) -> list[str]:
        """Topics that are not there yet, and partitions that are still being read."""
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
        """Where the answer may be: all of these must be looked at, for a key until it is found.

        Raises StoreRestoring while the store's topic doesn't exist.
        """
        if query.partitions is not None:
            return query.partitions
        store, key = query.store, query.read.key
        count = self._counts.get(store.topic)
        if count is None:
            trouble = self.trouble or "it is looked for"
            raise StoreRestoring(f"topic {store.topic} is not there yet: {trouble}")
        if key is None:
            return tuple(range(count))
        likely = partition_for_key(key, count)
        if store.keys_are_placed:
            return (likely,)
        return (likely, *(number for number in range(count) if number != likely))

    def answer(self, query: Query) -> Answer[Found] | None:
        """The answer, where it can be given at once; else None: see `when_ready`.

        Raises NotPresent where a partition that is needed is not kept here.
        """
        if query.at_least.offsets and any(tp.topic != query.store.topic for tp in query.at_least.offsets):
            return None
        return self._answer(query, query.at_least)

    def _answer(self, query: Query, at_least: Position) -> Answer[Found] | None:
        self._raise_error()
        if query.partitions is None and query.store.topic not in self._counts:
            return None
        read = query.read
        replicas = (self._kept(query.store, number) for number in self.partitions_of(query))
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

    def _kept(self, store: ViewedStore, number: int) -> Replica:
        kept = self._replicas.get(TopicPartition(store.topic, number))
        if kept is None:
            raise NotPresent(f"partition {number} of store {store.name} is not kept by this process")
        return kept

    def when_ready(self, query: Query) -> Future[Position]:
        """For an answer that can't be given at once: a future of the position to ask it with.

        To give up, cancel it.
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
        """The answer, waiting for it if needed.

        Raises StoreRestoring, PositionNotReached when the time is up; NotPresent, InvalidQuery.
        """
        found = self.answer(query)
        deadline = time.monotonic() + timeout_s
        while found is None:
            left_s = max(0.0, deadline - time.monotonic())
            position = _result(self.when_ready(query), left_s, lambda: self.why_not(query))
            found = self._answer(query, position)
        return found

    def finish(self, query: Query, position: Position) -> Answer[Found] | None:
        """The answer, once `when_ready` gave this position. None where it has to be asked again: a log was
        begun anew in between.
        """
        return self._answer(query, position)

    def why_not(self, query: Query) -> ViewError:
        """What an answer is still waiting for."""
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

    # What the follower tells

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
    """What is found, and the position that it is of at least."""
    if isinstance(read, GetValue | GetWindow):
        # The position is taken first: what comes in between is in the value, and not yet in the position.
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
