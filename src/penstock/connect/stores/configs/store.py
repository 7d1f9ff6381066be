"""The live store of configurations: follows the config topic, and writes to it (KafkaConfigBackingStore).

Only the leader of the workers' group writes. If sources may be exactly once, a leader writes in transactions
of an id that all workers share, so that a former leader that does not know its successor cannot write.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.connect.errors import ConfigInvalid, ConnectError
from penstock.connect.stores.configs import records
from penstock.connect.stores.configs.image import ClusterConfig, ConfigImage
from penstock.connect.stores.configs.model import Change, RestartRequest, SessionKey, TargetState
from penstock.connect.stores.configs.records import Properties
from penstock.connect.stores.key_value import KeyValue
from penstock.connect.stores.topic_log import TopicLog
from penstock.connect.stores.topics import InternalTopic, require_topic
from penstock.connect.stores.writers import PlainWriter, TransactionalWriter
from penstock.protocol.records import Record

log = logging.getLogger(__name__)

READ_WRITE_TIMEOUT_S: Final = 30.0
"""The time for one operation: its writes, and reading them back."""

Listener = Callable[[Change], None]


def leader_transactional_id(group_id: str) -> str:
    """The transactional id of the leader of this group of workers."""
    return f"connect-cluster-{group_id}"


class ConfigStore:
    """The configurations of a Connect cluster. Any thread may call its methods.

    Args:
        config: the cluster.
        topic: the config topic; it is created if it is missing.
        listener: receives the changes after `start` in the follower's thread, before the operation that wrote
            them returns. It must not write to the store, nor wait for it.
        transactional_id: lets `claim_write_privileges` fence other leaders; None writes plainly.
        timeout_s: the time for one operation.
    """

    def __init__(
        self,
        config: ClientConfig,
        topic: InternalTopic,
        listener: Listener = lambda _: None,
        *,
        transactional_id: str | None = None,
        timeout_s: float = READ_WRITE_TIMEOUT_S,
    ) -> None:
        self._config = config
        self._topic = topic
        self._listener = listener
        self._timeout_s = timeout_s
        self._image = ConfigImage()
        self._lock = threading.Lock()
        self._is_started = False
        self._log = TopicLog(config, topic.name, self)
        timeout_ms = int(timeout_s * 1000)
        self._plain = PlainWriter(config, topic.name, timeout_ms)
        self._fencing = (
            None
            if transactional_id is None
            else TransactionalWriter(config, topic.name, transactional_id, timeout_ms)
        )

    def start(self, timeout_s: float = READ_WRITE_TIMEOUT_S) -> None:
        """Create or check the topic and read it to its end.

        Raises ConfigInvalid if the topic does not suit, ConnectError, and TimeoutError.
        """
        with Cluster(replace(self._config, api_timeout_ms=int(timeout_s * 1000))) as cluster:
            partitions = require_topic(cluster, self._topic)
        if partitions > 1:
            raise ConfigInvalid(
                f"Topic '{self._topic.name}' supplied via the '{self._topic.property_name}' property is"
                " required to have a single partition in order to guarantee consistency of connector"
                f" configurations, but found {partitions} partitions."
            )
        self._log.start(partitions, timeout_s)
        self._is_started = True

    def close(self) -> None:
        if self._fencing is not None:
            self._fencing.close()
        self._plain.close()
        self._log.close()

    # Reads

    def snapshot(self) -> ClusterConfig:
        with self._lock:
            return self._image.snapshot()

    def __contains__(self, connector: str) -> bool:
        with self._lock:
            return connector in self._image

    def refresh(self, timeout_s: float) -> None:
        """Return once all records now in the topic are replayed. Raises TimeoutError and ConnectError."""
        self._log.read_to_end(timeout_s)

    # Writes. All raise ConnectError, and PrivilegedWriteError after another leader has claimed the topic.

    def claim_write_privileges(self) -> None:
        """Fence other leaders, if the store writes in transactions."""
        if self._fencing is not None:
            self._fencing.claim()

    def put_connector_config(
        self, connector: str, properties: Properties, target_state: TargetState | None = None
    ) -> None:
        """Write a connector's configuration, with its initial state if one is given."""
        written = records.connector_config(connector, properties, target_state)
        self._put(written, "Error writing connector configuration to Kafka")

    def remove_connector_config(self, connector: str) -> None:
        """Delete a connector; its tasks go with it."""
        self._put(records.connector_removal(connector), "Error removing connector configuration from Kafka")

    def put_task_configs(self, connector: str, configs: Iterable[Properties]) -> None:
        """Write the configurations of all tasks of a connector, and commit them."""
        tasks = records.task_configs(connector, configs)
        what = "Error writing task configurations to Kafka"
        deadline_s = time.monotonic() + self._timeout_s
        self._read_back(what, deadline_s)
        if tasks:
            self._put(tasks, what, deadline_s)
        self._put([records.tasks_commit(connector, len(tasks))], what, deadline_s)

    def put_task_count_record(self, connector: str, tasks: int) -> None:
        """Record that the transactional producers of former tasks are fenced (KIP-618)."""
        self._put([records.task_count(connector, tasks)], "Error writing task count record to Kafka")

    def put_session_key(self, key: SessionKey) -> None:
        self._put([records.session_key(key)], "Error writing session key to Kafka")

    def put_restart_request(self, request: RestartRequest) -> None:
        self._put([records.restart_request(request)], f"Error writing {request} to Kafka")

    def put_target_state(self, connector: str, state: TargetState) -> None:
        """Write a target state, without waiting until it is read. Any worker may do this."""
        self._write_plainly(records.target_state_of(connector, state), "Error writing target state to Kafka")

    def put_logger_level(self, namespace: str, level: str) -> None:
        """Set a logger's level on all workers, without waiting until it is read. Any worker may do this."""
        self._write_plainly(records.logger_level(namespace, level), "Error writing logger level to Kafka")

    def _put(self, written: Sequence[KeyValue], what: str, deadline_s: float | None = None) -> None:
        """Write as the leader, and wait until the records are replayed here."""
        deadline_s = time.monotonic() + self._timeout_s if deadline_s is None else deadline_s
        try:
            (self._plain if self._fencing is None else self._fencing).write(written)
        except ClientError as error:
            raise ConnectError(f"{what}: {error}") from error
        self._read_back(what, deadline_s)

    def _write_plainly(self, record: KeyValue, what: str) -> None:
        try:
            self._plain.write([record])
        except ClientError as error:
            raise ConnectError(f"{what}: {error}") from error

    def _read_back(self, what: str, deadline_s: float) -> None:
        try:
            self._log.read_to_end(max(0.0, deadline_s - time.monotonic()))
        except TimeoutError as error:
            raise ConnectError(f"{what}: {error}") from error

    # The log calls these methods.

    def replay(self, _partition: int, record: Record) -> None:
        with self._lock:
            change = self._image.replay(record.key, record.value, record.offset)
        if change is not None and self._is_started:
            try:
                self._listener(change)
            except Exception:
                log.exception("the listener of configurations failed change=%r", change)

    def restart(self, _partition: int) -> None:
        with self._lock:
            self._image = ConfigImage()
