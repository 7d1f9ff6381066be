"""Find the broker that coordinates a group or a transactional id, and find it again after it moved.

coordinator = Coordinator(cluster, CoordinatorKind.GROUP, "billing")
coordinator.retry(lambda: coordinator.call(request, OffsetFetchResponse))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Final, TypeVar

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.errors import ServerError, ServerUnreachable, UnsupportedByServer, error_from
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse

Response = TypeVar("Response")
T = TypeVar("T")

_MANY_KEYS_VERSION: Final = 4
_MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_FIRST_BACKOFF_MS: Final = 2
"""The first backoff. Most waits are for transaction markers in flight, which take a few milliseconds."""


class CoordinatorKind(IntEnum):
    """The key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator:
    """The coordinator of ``key``, looked up before the first request and again after it moved."""

    def __init__(self, cluster: Cluster, kind: CoordinatorKind, key: str) -> None:
        self.kind = kind
        self.key = key
        self._cluster = cluster
        self._node_id: int | None = None
        config = cluster.config
        self._policy = replace(cluster.policy, backoff_ms=min(_FIRST_BACKOFF_MS, config.retry_backoff_max_ms))

    def __str__(self) -> str:
        return _named(self.kind, self.key)

    @property
    def node_id(self) -> int:
        """The coordinator's node id, looked up if needed.

        Raises ServerError, retriable if there is none yet.
        """
        if self._node_id is None:
            self._node_id = find_coordinator(self._cluster, self.kind, self.key)
        return self._node_id

    def call(self, request: Message, response_type: type[Response], *, newest: int | None = None) -> Response:
        """Send one request, without retries; ``newest`` bounds its version. Raises ClientError."""
        node_id = self.node_id
        try:
            return self._cluster.connection(node_id).call(request, response_type, newest=newest)
        except ServerUnreachable:
            self._node_id = None
            self._cluster.disconnect(node_id)
            raise

    def forget(self) -> None:
        """Drop the known coordinator, so that the next call looks it up again."""
        self._node_id = None

    def finalized(self, feature: str) -> int:
        """The level of a cluster feature (KIP-584) when the connection was made; 0 if it is not finalized."""
        return self._cluster.connection(self.node_id).finalized(feature)

    def retry(self, operation: Callable[[], T]) -> T:
        """Repeat ``operation`` until it returns, fails for good, or ``default.api.timeout.ms`` has passed."""

        def attempt() -> T:
            try:
                return operation()
            except ServerError as error:
                if error.code in _MOVED:
                    self._node_id = None
                raise

        return self._policy.run(attempt)


def find_coordinator(cluster: Cluster, kind: CoordinatorKind, key: str) -> int:
    """Ask one broker which broker coordinates ``key`` now, without retries.

    The brokers' addresses are refreshed too, since a broker may have moved. Raises ServerError, retriable
    while there is no coordinator.
    """
    where = f"coordinator of {_named(kind, key)}"
    if cluster.any_version_of(ApiKey.FIND_COORDINATOR) < _MANY_KEYS_VERSION:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        response = cluster.call_any(request, FindCoordinatorResponse)
        code, message, node_id = response.error_code, response.error_message, response.node_id
    else:
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
        [found] = cluster.call_any(request, FindCoordinatorResponse).coordinators
        code, message, node_id = found.error_code, found.error_message, found.node_id
    if code:
        raise error_from(code, where, message)
    cluster.refresh([])
    return node_id


def require_version(connection: Connection, key: ApiKey, version: int, release: str) -> None:
    """Raise UnsupportedByServer if the server is older than the release that added this version."""
    served = connection.version_of(key)
    if served < version:
        raise UnsupportedByServer(
            f"{connection.server} serves {key.name} up to version {served}, expected {version} or newer: "
            f"{release} has it"
        )


def _named(kind: CoordinatorKind, key: str) -> str:
    return f"group '{key}'" if kind is CoordinatorKind.GROUP else f"transactional id '{key}'"
