"""The metrics of a worker, its group and its connectors, by the names of Connect's, for Prometheus."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.connect.herding.distributed.membership import MembershipState
from penstock.connect.stores import State
from penstock.connect.stores.statuses.model import Subject

_WORKER: Final = "penstock_connect_worker_"
_CONNECTOR: Final = "penstock_connect_connector_"
_REBALANCE: Final = f"{_WORKER}rebalance_"


class Startups:
    """Counts how often connectors and tasks were started, and how that ended. For any threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starting: set[Subject] = set()
        self._counts: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def starting(self, subject: Subject) -> Iterator[None]:
        """Count a start; an exception in the block is its failure."""
        with self._lock:
            self._starting.add(subject)
            self._counts[kind_of(subject), "attempts"] += 1
        try:
            yield
        except BaseException:
            self.ended(subject, State.FAILED)
            raise

    def ended(self, subject: Subject, state: State) -> None:
        """Note a state; only the first one after a start tells whether it has succeeded."""
        if state in (State.UNASSIGNED, State.RESTARTING, State.DESTROYED):
            return
        with self._lock:
            if subject in self._starting:
                self._starting.discard(subject)
                result = "failure" if state is State.FAILED else "success"
                self._counts[kind_of(subject), result] += 1

    def count(self, kind: str, what: str) -> int:
        """Return the number of attempts, or of those with the result success or failure."""
        with self._lock:
            return self._counts[kind, what]


def kind_of(subject: Subject) -> str:
    """Return `connector` or `task`, as names of metrics have it."""
    return "connector" if isinstance(subject, str) else "task"


class RunningConnector(NamedTuple):
    """A connector that runs here, as metrics describe it."""

    state: State
    kind: str
    class_name: str
    version: str


class WorkerCollector(Collector):
    """The collector of one worker.

    Args:
        startups: the counts of starts.
        connectors: returns the connectors that run here by their names.
        task_count: returns the number of tasks that run here.
        membership: returns the worker's place in its group.
        clock_s: the clock of `MembershipState.joined_s`.
    """

    def __init__(
        self,
        startups: Startups,
        connectors: Callable[[], Mapping[str, RunningConnector]],
        task_count: Callable[[], int],
        membership: Callable[[], MembershipState],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._startups = startups
        self._connectors = connectors
        self._task_count = task_count
        self._membership = membership
        self._clock_s = clock_s

    def collect(self) -> Iterable[Metric]:
        connectors = self._connectors()
        counts = {"connector": len(connectors), "task": self._task_count()}
        for kind, count in counts.items():
            yield GaugeMetricFamily(f"{_WORKER}{kind}_count", f"{kind.capitalize()}s that run here.", count)
            for what, text in (
                ("attempts", "Starts of {}s."),
                ("success", "Starts of {}s that succeeded."),
                ("failure", "Starts of {}s that failed."),
            ):
                name = f"{_WORKER}{kind}_startup_{what}"
                yield CounterMetricFamily(name, text.format(kind), self._startups.count(kind, what))
        yield from self._rebalances()
        yield from _states(connectors)

    def _rebalances(self) -> Iterable[Metric]:
        membership = self._membership()
        yield CounterMetricFamily(
            f"{_REBALANCE}completed_rebalances",
            "Rebalances of the group that this worker has completed.",
            membership.rebalances,
        )
        yield GaugeMetricFamily(
            f"{_REBALANCE}epoch", "The generation of the group, -1 before the first.", membership.generation
        )
        yield GaugeMetricFamily(
            f"{_REBALANCE}leader", "1 on the worker that leads the group.", int(membership.is_leader)
        )
        if membership.joined_s is not None:
            yield GaugeMetricFamily(
                f"{_REBALANCE}time_since_last_rebalance_seconds",
                "Time since this worker has completed a rebalance.",
                self._clock_s() - membership.joined_s,
            )


def _states(connectors: Mapping[str, RunningConnector]) -> Iterable[Metric]:
    states = GaugeMetricFamily(
        f"{_CONNECTOR}status", "1 for the state that the connector is in.", labels=["connector", "state"]
    )
    described = GaugeMetricFamily(
        f"{_CONNECTOR}info",
        "1, with what the connector is.",
        labels=["connector", "connector_type", "connector_class", "connector_version"],
    )
    for name, found in connectors.items():
        states.add_metric([name, found.state.value.lower()], 1)
        described.add_metric([name, found.kind, found.class_name, found.version], 1)
    yield from (states, described)
