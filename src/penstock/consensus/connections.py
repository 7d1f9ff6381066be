"""Limits requests to nodes: one at a time to each, with a timeout, and a backoff after a failure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.consensus.effects import Node


@dataclass(slots=True)
class _Connection:
    correlation_id: int | None = None
    """The id of the request in flight; None during the backoff after a failure."""
    since_ms: float = 0.0


class Connections:
    """The connections to all nodes; a node without an entry is ready. Times are in milliseconds."""

    def __init__(
        self,
        bootstrap: Sequence[Node],
        rng: random.Random,
        *,
        request_timeout_ms: int,
        retry_backoff_ms: int,
    ) -> None:
        self.bootstrap = tuple(bootstrap)
        self._rng = rng
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._connections: dict[int, _Connection] = {}

    def sent(self, node_id: int, correlation_id: int, now_ms: int) -> None:
        self._connections[node_id] = _Connection(correlation_id, now_ms)

    def is_expected(self, node_id: int, correlation_id: int) -> bool:
        connection = self._connections.get(node_id)
        return connection is not None and connection.correlation_id == correlation_id

    def succeeded(self, node_id: int, correlation_id: int) -> None:
        if self.is_expected(node_id, correlation_id):
            del self._connections[node_id]

    def failed(self, node_id: int, correlation_id: int, now_ms: int) -> None:
        if self.is_expected(node_id, correlation_id):
            self._connections[node_id] = _Connection(None, now_ms)

    def reset(self, node_id: int) -> None:
        self._connections.pop(node_id, None)

    def reset_all(self) -> None:
        """Forget all requests in flight, because their responses no longer matter."""
        self._connections.clear()

    def wait_ms(self, node_id: int, now_ms: int) -> float:
        """The milliseconds until a request may be sent to a node; 0 if it is ready."""
        connection = self._connections.get(node_id)
        return 0.0 if connection is None else max(0.0, self._ends_ms(connection) - now_ms)

    def has_timed_out(self, node_id: int, now_ms: int) -> bool:
        connection = self._connections.get(node_id)
        return (
            connection is not None
            and connection.correlation_id is not None
            and self._ends_ms(connection) <= now_ms
        )

    def is_backing_off(self, node_id: int, now_ms: int) -> bool:
        connection = self._connections.get(node_id)
        return (
            connection is not None
            and connection.correlation_id is None
            and self._ends_ms(connection) > now_ms
        )

    def in_flight_ms(self, now_ms: int) -> float:
        """The milliseconds until the first request in flight times out; 0 if none is in flight."""
        waits = [
            self._ends_ms(connection) - now_ms
            for connection in self._connections.values()
            if connection.correlation_id is not None and self._ends_ms(connection) > now_ms
        ]
        return min(waits, default=0.0)

    def ready_bootstrap(self, now_ms: int) -> Node | None:
        """A random bootstrap server that is ready; None while any request to any node is in flight."""
        if not self.bootstrap or self.in_flight_ms(now_ms) > 0:
            return None
        start = self._rng.randrange(len(self.bootstrap))
        for node in (*self.bootstrap[start:], *self.bootstrap[:start]):
            if self.wait_ms(node.id, now_ms) == 0:
                return node
        return None

    def bootstrap_wait_ms(self, now_ms: int) -> float:
        """The milliseconds until `ready_bootstrap` may return a node."""
        in_flight_ms = self.in_flight_ms(now_ms)
        if in_flight_ms > 0:
            return in_flight_ms
        waits = (self.wait_ms(node.id, now_ms) for node in self.bootstrap)
        return min(waits, default=float(self._retry_backoff_ms))

    def _ends_ms(self, connection: _Connection) -> float:
        in_flight = connection.correlation_id is not None
        return connection.since_ms + (self._request_timeout_ms if in_flight else self._retry_backoff_ms)
