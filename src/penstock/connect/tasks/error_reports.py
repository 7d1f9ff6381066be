"""Reports records that failed: in the log, and as dead letters in a topic (KIP-298).

The headers of dead letters are Kafka Connect's, and so are their names of stages. Exceptions of Connect have
their Java names in them, so that whoever reads dead letters of both need not distinguish them.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, Generic

from penstock.client.admin.topics import NewTopic, create_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.consuming.partition_reader import ConsumedRecord
from penstock.client.errors import ClientError
from penstock.connect.connector.sink import SinkTask
from penstock.connect.data.records import SourceRecord, TimestampType
from penstock.connect.errors import ConfigInvalid, ConnectError, DataError, RetriableError
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks.conversion import NO_TIMESTAMP, TIMESTAMP_TYPES
from penstock.connect.tasks.metrics import ErrorMetrics
from penstock.connect.tasks.parts import python_name
from penstock.connect.tasks.sending.delivery import OutgoingRecord, Sender
from penstock.connect.tasks.settings import ErrorSettings
from penstock.connect.tasks.tolerance import Attempt, Original
from penstock.protocol.records import Headers

log = logging.getLogger(__name__)

CONTEXT_PREFIX: Final = "__connect.errors."
_PARTITIONS: Final = 1
_CLOSE_S: Final = 30.0
_JAVA_NAMES: Final[dict[type, str]] = {
    ConnectError: "org.apache.kafka.connect.errors.ConnectException",
    DataError: "org.apache.kafka.connect.errors.DataException",
    RetriableError: "org.apache.kafka.connect.errors.RetriableException",
    ConfigInvalid: "org.apache.kafka.common.config.ConfigException",
    SinkTask: "org.apache.kafka.connect.sink.SinkTask",
}


class LogReport(Generic[Original]):
    """Writes failed records to the log. ``show`` gives the record's part of the message, if it is wanted."""

    def __init__(
        self,
        task_id: ConnectorTaskId,
        metrics: ErrorMetrics,
        class_name: Callable[[type], str],
        show: Callable[[Original], str] | None,
    ) -> None:
        self._task_id = task_id
        self._metrics = metrics
        self._class_name = class_name
        self._show = show

    def open(self) -> None: ...

    def report(self, attempt: Attempt[Original]) -> Future[None] | None:
        log.error("%s", self.message(attempt), exc_info=attempt.error)
        self._metrics.logged += 1
        return None

    def message(self, attempt: Attempt[Original]) -> str:
        """The message, in Connect's words."""
        record = "" if self._show is None else self._show(attempt.original)
        return (
            f"Error encountered in task {self._task_id}. Executing stage '{attempt.stage.name}' with class"
            f" '{self._class_name(attempt.executing)}'{record}."
        )

    def stop(self) -> None: ...

    def close(self) -> None: ...


def show_source(record: SourceRecord) -> str:
    """Describe a source's record for the log."""
    return f", where source record is = {record}"


def show_consumed(record: ConsumedRecord) -> str:
    """Describe a consumed record for the log, without its content."""
    place = f"topic='{record.topic}', partition={record.partition}, offset={record.offset}"
    timestamp_type = TIMESTAMP_TYPES[record.timestamp_type]
    if timestamp_type is not TimestampType.NO_TIMESTAMP_TYPE:
        place += f", timestamp={record.timestamp_ms}, timestampType={timestamp_type.value}"
    return f", where consumed record is {{{place}}}"


class DeadLetters:
    """Sends consumed records that failed, unchanged, to the topic of dead letters.

    ``admin`` are the properties of an admin client, which creates the topic.
    """

    def __init__(
        self,
        task_id: ConnectorTaskId,
        settings: ErrorSettings,
        metrics: ErrorMetrics,
        sender: Sender,
        class_name: Callable[[type], str],
        admin: Mapping[str, str],
    ) -> None:
        self._task_id = task_id
        self._settings = settings
        self._admin = admin
        self._metrics = metrics
        self._sender = sender
        self._class_name = class_name

    def open(self) -> None:
        """Create the topic if it is missing. Raises ConnectError."""
        topic, replicas = self._settings.dead_letter_topic, self._settings.dead_letter_replicas
        try:
            with Cluster(ClientConfig.from_properties(self._admin)) as cluster:
                if topic not in cluster.refresh([topic]).topics:
                    log.info("creating the topic of dead letters topic=%s", topic)
                    create_topics(cluster, [NewTopic(topic, _PARTITIONS, replication_factor=replicas)])
        except ClientError as error:
            raise ConnectError(
                f"Could not initialize dead letter queue with topic={topic}: {error}"
            ) from error

    def report(self, attempt: Attempt[ConsumedRecord]) -> Future[None] | None:
        """Send a record; the future is done once the topic has it, and fails if it cannot be sent."""
        self._metrics.dead_letter_requests += 1
        record = attempt.original
        headers = tuple(record.headers)
        if self._settings.dead_letter_context:
            headers += tuple(context_headers(attempt, self._task_id, self._class_name))
        timestamp_ms = None if record.timestamp_ms == NO_TIMESTAMP else record.timestamp_ms
        letter = OutgoingRecord(
            self._settings.dead_letter_topic, None, record.key, record.value, headers, timestamp_ms
        )
        delivery = _Letter(self._metrics)
        try:
            self._sender.send(letter, delivery)
        except ClientError as error:
            delivery.failed(error)
        return delivery.future

    def stop(self) -> None:
        self._sender.close()

    def close(self) -> None:
        self._sender.flush(_CLOSE_S)
        self._sender.close()


class _Letter:
    """The delivery of a dead letter."""

    def __init__(self, metrics: ErrorMetrics) -> None:
        self.future: Future[None] = Future()
        self._metrics = metrics

    def acknowledged(self, topic: str, partition: int, offset: int, timestamp_ms: int) -> None:
        self.future.set_result(None)

    def failed(self, error: Exception) -> None:
        log.error("a dead letter was not written error=%s", error)
        self._metrics.dead_letter_failures += 1
        self.future.set_exception(error)


def context_headers(
    attempt: Attempt[ConsumedRecord], task_id: ConnectorTaskId, class_name: Callable[[type], str]
) -> Headers:
    """The headers that say why a record failed (``errors.deadletterqueue.context.headers.enable``)."""
    record = attempt.original
    found: dict[str, str | None] = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "connector.name": task_id.connector,
        "task.id": str(task_id.task),
        "stage": attempt.stage.name,
        "class.name": _JAVA_NAMES.get(attempt.executing) or class_name(attempt.executing),
    }
    error = attempt.error
    if error is not None:
        found["exception.class.name"] = _JAVA_NAMES.get(type(error)) or python_name(type(error))
        found["exception.message"] = str(error) if error.args else None
        found["exception.stacktrace"] = "".join(traceback.format_exception(error))
    return [
        (CONTEXT_PREFIX + name, None if value is None else value.encode(errors="replace"))
        for name, value in found.items()
    ]
