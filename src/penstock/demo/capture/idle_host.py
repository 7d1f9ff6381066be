"""A host of SQL queries that runs none: source tables need no query, and so no Spark of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NoReturn

from prometheus_client import Metric
from prometheus_client.registry import Collector

from penstock.sql.engine import QueryState
from penstock.sql.engine.running.host import QueryActivity
from penstock.topology.graph import Topology


class IdleHost:
    """A `penstock.sql.engine.QueryHost` without queries."""

    def add(self, query_id: str, topology: Topology, *, paused: bool = False) -> NoReturn:
        raise NotImplementedError("this host runs no queries: expected source tables only")

    def pause(self, query_id: str) -> None:
        """There is nothing to pause."""

    def resume(self, query_id: str) -> None:
        """There is nothing to resume."""

    def remove(self, query_id: str) -> None:
        """There is nothing to remove."""

    def wait_until_gone(self, timeout_s: float) -> Collection[str]:
        return ()

    def wait_until_buried(self, timeout_s: float) -> Collection[str]:
        return ()

    def retain(self, query_ids: Collection[str]) -> None:
        """Nothing remains of queries."""

    def states(self) -> Mapping[str, QueryState]:
        return {}

    def activity(self) -> Mapping[str, QueryActivity]:
        return {}

    @property
    def metrics(self) -> Collector:
        return _NoMetrics()

    def close(self) -> None:
        """There is nothing to stop."""


class _NoMetrics(Collector):
    def collect(self) -> Iterable[Metric]:
        return ()
