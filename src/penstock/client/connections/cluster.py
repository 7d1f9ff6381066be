"""Access to a cluster: bootstrap, metadata, connections to leaders, one retry policy."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Final, TypeVar

from penstock.client.config import ClientConfig, ServerAddress
from penstock.client.connections.connection import Connection
from penstock.client.connections.metadata import (
    NO_LEADER,
    ClusterMetadata,
    TopicMetadata,
    TopicPartition,
    topic_errors,
)
from penstock.client.connections.retry import RetryPolicy
from penstock.client.errors import (
    ClientError,
    NothingListens,
    ServerError,
    ServerUnreachable,
    UnknownPartition,
    error_from,
)
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import MetadataRequest, MetadataResponse

Response = TypeVar("Response")
T = TypeVar("T")

LISTENER_PATIENCE_MS: Final = 10_000
"""The time for which a first contact retries where nothing listens: a single broker restarts within it."""


class Cluster:
    """A cluster's metadata and connections, for use by one thread at a time.

    A connection is opened when it is first needed, one per node, and kept.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.metadata = ClusterMetadata()
        self.policy = RetryPolicy(config.api_timeout_ms, config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._connections: dict[int, Connection] = {}
        self._bootstrap: Connection | None = None
        self._refreshed_at: dict[str, float] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for node_id in list(self._connections):
            self.disconnect(node_id)
        self._drop_bootstrap()

    # Connections

    def connection(self, node_id: int) -> Connection:
        """The connection to a broker, a new one if the old one failed.

        Raises ServerUnreachable (retriable).
        """
        connection = self._connections.get(node_id)
        if connection is None or connection.is_closed:
            connection = self._connections[node_id] = self.open_connection(node_id)
        return connection

    def disconnect(self, node_id: int) -> None:
        """Close and drop a connection that failed; the next call of `connection` opens a new one."""
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()

    def call_any(self, request: Message, response_type: type[Response]) -> Response:
        """Send a request to any server and return its response.

        The connection in use is tried first, then the bootstrap servers and the known brokers in turn.
        """
        try:
            return self._any_connection().call(request, response_type)
        except ServerUnreachable:
            self._drop_bootstrap()
            raise

    def any_version_of(self, key: ApiKey) -> int:
        """The version in which `call_any` would send such a request now. Raises ServerUnreachable."""
        return self._any_connection().version_of(key)

    def call_each(
        self, requests: Mapping[int, Message], response_type: type[Response]
    ) -> dict[int, Response]:
        """Send one request to each of several brokers at the same time, without retries.

        After a failure, all metadata is stale: a broker may be dead, and others lead its partitions.
        """
        waiting: list[int] = []
        answers: dict[int, Response] = {}
        try:
            for node_id, request in requests.items():
                waiting.append(node_id)
                self.connection(node_id).send(request)
            while waiting:
                answers[waiting[0]] = self.connection(waiting[0]).receive(response_type)
                waiting.pop(0)
        except ClientError:
            # A late response would be mistaken for the response to the next request.
            for node_id in waiting:
                self.disconnect(node_id)
            self._refreshed_at.clear()
            raise
        return answers

    def open_connection(self, node_id: int) -> Connection:
        """Open a connection for the caller alone, for requests that stay in flight for long."""
        address = self.metadata.brokers.get(node_id)
        if address is None:
            raise ServerUnreachable(
                f"broker {node_id} is not in the metadata of the cluster at {self.config.servers_text}"
            )
        return Connection.connect(address, self.config)

    def require_listener(self, patience_ms: int = LISTENER_PATIENCE_MS) -> None:
        """Connect to any server, at a first contact, whose address may be wrong.

        Raises NothingListens once nothing has listened for ``patience_ms``. All other failures are left to
        later calls, which retry for ``default.api.timeout.ms``.
        """
        timeout_ms = min(self.policy.timeout_ms, patience_ms)
        try:
            replace(self.policy, timeout_ms=timeout_ms).run(self._any_connection)
        except NothingListens:
            raise
        except ServerUnreachable:
            return

    def retry(self, operation: Callable[[], T]) -> T:
        """Repeat ``operation`` until it returns, fails for good, or ``default.api.timeout.ms`` has passed."""
        return self.policy.run(operation)

    def _any_connection(self) -> Connection:
        if self._bootstrap is None:
            self._bootstrap = self._connect_any()
        return self._bootstrap

    def _connect_any(self) -> Connection:
        known = list(self.metadata.brokers.values())
        random.shuffle(known)
        failures: dict[ServerAddress, ClientError] = {}
        for address in dict.fromkeys([*self.config.servers, *known]):
            try:
                return Connection.connect(address, self.config)
            except ServerUnreachable as error:
                failures[address] = error
        unused = [
            f"{address} ({cause.strerror})"
            for address, error in failures.items()
            if isinstance(cause := error.__cause__, ConnectionRefusedError | socket.gaierror)
        ]
        if len(unused) == len(failures):
            raise NothingListens(
                f"no server of the cluster can be reached: nothing listens at {', '.join(unused)}"
            )
        reasons = "; ".join(str(error) for error in failures.values())
        raise ServerUnreachable(f"no server of the cluster can be reached: {reasons}")

    def _drop_bootstrap(self) -> None:
        if self._bootstrap is not None:
            self._bootstrap.close()
            self._bootstrap = None

    # Metadata

    def refresh(self, topics: Iterable[str] | None = None, *, create: bool = False) -> ClusterMetadata:
        """Fetch metadata of these topics (None: all) with retries; ``create`` lets the broker create them."""
        asked = None if topics is None else sorted(set(topics))
        self.metadata = self.retry(lambda: self._refresh_once(asked, create))
        now = time.monotonic()
        for name in self.metadata.topics if asked is None else asked:
            self._refreshed_at[name] = now
        return self.metadata

    def _refresh_once(self, asked: list[str] | None, create: bool) -> ClusterMetadata:
        named = None if asked is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in asked]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=create)
        response = self.call_any(request, MetadataResponse)
        for name, code in topic_errors(response).items():
            if asked is not None:
                raise error_from(code, f"topic '{name}' at {self.config.servers_text}")
        return self.metadata.updated(response, asked)

    def topics(self, names: Collection[str], *, create: bool = False) -> dict[str, TopicMetadata]:
        """Metadata of these topics, at most ``metadata.max.age.ms`` old; unknown topics are left out."""
        oldest = time.monotonic() - self.config.metadata_max_age_ms / 1000
        stale = [
            name
            for name in names
            if name not in self.metadata.topics or self._refreshed_at.get(name, oldest) <= oldest
        ]
        if stale:
            self.refresh(stale, create=create)
        return {name: self.metadata.topics[name] for name in names if name in self.metadata.topics}

    def require_topics(self, names: Collection[str], *, create: bool = False) -> dict[str, TopicMetadata]:
        """The same as `topics`, except that a missing topic raises UnknownPartition.

        With ``create`` the call retries for ``default.api.timeout.ms``, so that the broker can create the
        topic.
        """

        def ask() -> dict[str, TopicMetadata]:
            found = self.topics(names, create=create)
            for name in names:
                if name not in found or not found[name].partitions:
                    raise UnknownPartition(name, None, self.config.servers_text, retriable=create)
            return found

        return self.retry(ask) if create else ask()

    def existing(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return those of the partitions that exist.

        A topic may have been created again with more partitions since its metadata was fetched, so an unknown
        partition is looked up once more.
        """
        self.topics({tp.topic for tp in partitions})
        unknown = {tp.topic for tp in partitions if self.metadata.partition(tp) is None}
        if unknown:
            self.refresh(unknown)
        return {tp for tp in partitions if self.metadata.partition(tp) is not None}

    def forget(self, topics: Iterable[str]) -> None:
        """Mark these topics' metadata as stale, because a leader moved or a topic changed."""
        for name in topics:
            self._refreshed_at.pop(name, None)

    def leaders(self, partitions: Collection[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group partitions by the node that leads them.

        Raises UnknownPartition, or a retriable ServerError.
        """
        by_node, failures = self.find_leaders(partitions)
        for failure in failures.values():
            raise failure
        return by_node

    def find_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, ServerError]]:
        """Group partitions by the node that leads them, and return errors for those without a leader.

        The errors are those that `leaders` raises.
        """
        self.existing(partitions)
        by_node: dict[int, list[TopicPartition]] = {}
        failures: dict[TopicPartition, ServerError] = {}
        for tp in partitions:
            found = self.metadata.partition(tp)
            if found is None:
                failures[tp] = UnknownPartition(tp.topic, tp.partition, self.config.servers_text)
            elif found.leader_id == NO_LEADER:
                self.forget([tp.topic])
                failures[tp] = error_from(ErrorCode.LEADER_NOT_AVAILABLE, str(tp))
            else:
                by_node.setdefault(found.leader_id, []).append(tp)
        return by_node, failures
