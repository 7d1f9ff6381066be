"""Changes of the config topic that the herder's thread has not handled yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.connect.herding.restart_plan import impact
from penstock.connect.stores.configs.model import (
    Change,
    ConnectorRemoved,
    ConnectorUpdated,
    RestartRequest,
    RestartRequested,
    TargetStateChanged,
    TasksUpdated,
)


class Changes(NamedTuple):
    """The changes since the last time that they were taken, by the names of connectors."""

    needs_rebalance: bool
    connectors: set[str]
    """Connectors with a new configuration, which existed before."""
    target_states: set[str]
    tasks: set[str]
    """Connectors with new configurations of tasks."""


class PendingChanges:
    """Collects changes in the thread that follows the config topic, for the herder's thread.

    New and deleted connectors, and new task configurations, need a rebalance. It concerns all workers, since
    each of them follows the topic.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._changes = _none()
        self._restarts: dict[str, RestartRequest] = {}

    @property
    def needs_rebalance(self) -> bool:
        """Whether a change waits that needs a rebalance."""
        return self._changes.needs_rebalance

    def start(self, connectors: Iterable[str]) -> None:
        """Note the connectors that exist before the first change."""
        with self._lock:
            self._known.update(connectors)

    def add(self, change: Change) -> None:
        """Note a change, and let the herder's thread take it."""
        with self._lock:
            self._add(change)
        self._wake()

    def take(self) -> Changes:
        """Return the changes that wait, except requests to restart."""
        with self._lock:
            taken, self._changes = self._changes, _none()
            return taken

    def take_restarts(self) -> list[RestartRequest]:
        """Return the requests to restart that wait: for each connector the one that restarts most."""
        with self._lock:
            taken, self._restarts = list(self._restarts.values()), {}
            return taken

    def _add(self, change: Change) -> None:
        changes = self._changes
        match change:
            case ConnectorUpdated(connector) if connector in self._known:
                changes.connectors.add(connector)
            case ConnectorUpdated(connector):
                self._known.add(connector)
                self._changes = changes._replace(needs_rebalance=True)
            case ConnectorRemoved(connector):
                self._known.discard(connector)
                self._changes = changes._replace(needs_rebalance=True)
            case TasksUpdated(connector, _):
                changes.tasks.add(connector)
                self._changes = changes._replace(needs_rebalance=True)
            case TargetStateChanged(connector):
                changes.target_states.add(connector)
            case RestartRequested(request):
                waiting = self._restarts.get(request.connector)
                if waiting is None or impact(request) > impact(waiting):
                    self._restarts[request.connector] = request


def _none() -> Changes:
    return Changes(False, set(), set(), set())
