"""What the engine needs of who runs its queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from penstock.topology.graph import Topology


class QueryStatus(Enum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    ERROR = "ERROR"


class Blame(Enum):
    """Whose fault an error is, as ksqlDB tells it: of what the query was given, of what it runs on."""

    UNKNOWN = "UNKNOWN"
    USER = "USER"
    SYSTEM = "SYSTEM"


@dataclass(frozen=True)
class QueryFailure:
    """``at_ms``: since 1970."""

    at_ms: int
    message: str
    blame: Blame = Blame.UNKNOWN


@dataclass(frozen=True)
class QueryState:
    """``failures``: the last ones, the latest at the end; also those of a query that runs again."""

    status: QueryStatus
    failures: tuple[QueryFailure, ...] = ()


@dataclass(frozen=True)
class QueryActivity:
    """By topic: how many offsets a query is past, and how many records it has written."""

    read: Mapping[str, int]
    written: Mapping[str, int]


class QueryHost(Protocol):
    """Runs topologies under the ids of their queries. Topics that they read and write exist when they are
    added; the host makes repartition and changelog topics. All methods may be called by any thread.
    """

    def add(self, query_id: str, topology: Topology, *, paused: bool = False) -> None:
        """Run a topology, now or with the next batch. It replaces the one of that id, whose state stays."""

    def pause(self, query_id: str) -> None: ...

    def resume(self, query_id: str) -> None: ...

    def remove(self, query_id: str) -> None:
        """End a query for good, soon; then its state and its internal topics go, too."""

    def wait_until_gone(self, timeout_s: float) -> Collection[str]:
        """Until nothing is written any more for queries that were removed; those of which that is not known
        when the time is up.
        """

    def wait_until_buried(self, timeout_s: float) -> Collection[str]:
        """Until state and internal topics of queries that were removed are gone, too; those of the others."""

    def retain(self, query_ids: Collection[str]) -> None:
        """After a restart: what is known from before of any other query goes."""

    def states(self) -> Mapping[str, QueryState]: ...

    def activity(self) -> Mapping[str, QueryActivity]:
        """Raises OSError."""

    def close(self) -> None:
        """Stop all queries; they go on when they are added after a restart."""
