"""The interface between the engine and the host that runs its queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from prometheus_client.registry import Collector

from penstock.topology.graph import Topology


class QueryStatus(Enum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    ERROR = "ERROR"


class Blame(Enum):
    """The cause of an error as ksqlDB classifies it: the query's input (USER) or its environment (SYSTEM)."""

    UNKNOWN = "UNKNOWN"
    USER = "USER"
    SYSTEM = "SYSTEM"


@dataclass(frozen=True)
class QueryFailure:
    """One failure of a query. ``at_ms`` is the time since 1970."""

    at_ms: int
    message: str
    blame: Blame = Blame.UNKNOWN


@dataclass(frozen=True)
class QueryState:
    """The status of a query. ``failures`` are its last ones, the latest at the end, even if it runs again."""

    status: QueryStatus
    failures: tuple[QueryFailure, ...] = ()


@dataclass(frozen=True)
class QueryActivity:
    """The progress of a query.

    ``read`` is how many offsets it has passed in each topic; ``written`` is how many records it has written
    to each topic.
    """

    read: Mapping[str, int]
    written: Mapping[str, int]


class QueryHost(Protocol):
    """A host that runs topologies under the ids of their queries. Any thread may call any method.

    Topics that a topology reads and writes exist when it is added. The host creates the repartition and
    changelog topics.
    """

    def add(self, query_id: str, topology: Topology, *, paused: bool = False) -> None:
        """Run a topology, now or with the next batch. It replaces that of the same id and keeps its state."""

    def pause(self, query_id: str) -> None: ...

    def resume(self, query_id: str) -> None: ...

    def remove(self, query_id: str) -> None:
        """End a query for good, soon, and then delete its state and its internal topics."""

    def wait_until_gone(self, timeout_s: float) -> Collection[str]:
        """Wait until nothing more is written for removed queries.

        Returns the ids of those for which that is not certain after the timeout.
        """

    def wait_until_buried(self, timeout_s: float) -> Collection[str]:
        """Wait until state and internal topics of removed queries are deleted; return the remaining ids."""

    def retain(self, query_ids: Collection[str]) -> None:
        """After a restart, delete the remains of all other queries."""

    def states(self) -> Mapping[str, QueryState]: ...

    def activity(self) -> Mapping[str, QueryActivity]:
        """The progress of each query. Raises OSError if it can't be read."""

    @property
    def metrics(self) -> Collector:
        """The metrics of the host itself."""

    def close(self) -> None:
        """Stop all queries. They resume when they are added after a restart."""
