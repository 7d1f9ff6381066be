"""Builds the runners of tasks from their parts: the interface of this room for herders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.consuming.group_consumer import ConsumerSettings, GroupConsumer, RebalanceListener
from penstock.client.consuming.partition_reader import ConsumedRecord
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.settings import ConfigError, from_properties
from penstock.connect.configs.topic_creation import creation_groups
from penstock.connect.connector.sink import SinkTask
from penstock.connect.connector.source import SourceTask
from penstock.connect.data.records import SourceRecord
from penstock.connect.errors import ConfigInvalid
from penstock.connect.stores import ConnectorOffsets, OffsetWriter
from penstock.connect.tasks.error_reports import DeadLetters, LogReport, show_consumed, show_source
from penstock.connect.tasks.metrics import TaskMetrics
from penstock.connect.tasks.parts import (
    ClientProperties,
    ExactlyOnce,
    TaskParts,
    WorkerSettings,
    consumer_group_id,
)
from penstock.connect.tasks.runner import StatusListener, TaskRunner
from penstock.connect.tasks.sending.record_sender import RecordSender
from penstock.connect.tasks.sending.transactions import TransactionalSender
from penstock.connect.tasks.settings import ErrorSettings, TransactionSettings
from penstock.connect.tasks.sinks.sink_topics import topics_of
from penstock.connect.tasks.sinks.sink_work import SinkWork
from penstock.connect.tasks.sources.at_least_once import AtLeastOnceWork
from penstock.connect.tasks.sources.boundaries import TaskDefined, boundary_of
from penstock.connect.tasks.sources.exactly_once import ExactlyOnceWork, StoredPendingOffsets
from penstock.connect.tasks.sources.offset_reading import StoredOffsets
from penstock.connect.tasks.sources.source_work import SourceContext
from penstock.connect.tasks.sources.topic_creation import TopicCreation
from penstock.connect.tasks.tolerance import Reporter, Tolerance

_FETCH_WAIT_MS: Final = "500"
"""Kafka's default: an idle task asks its brokers twice a second."""


def source_runner(
    parts: TaskParts[SourceTask],
    clients: ClientProperties,
    offsets: ConnectorOffsets,
    worker: WorkerSettings,
    listener: StatusListener,
    *,
    exactly_once: ExactlyOnce | None = None,
    paused: bool = False,
) -> TaskRunner:
    """Return the runner of a source task, not started; ``offsets`` belongs to the caller.

    Raises ConfigInvalid.
    """
    with _config_errors():
        return _source_runner(parts, clients, offsets, worker, listener, exactly_once, paused)


def _source_runner(
    parts: TaskParts[SourceTask],
    clients: ClientProperties,
    offsets: ConnectorOffsets,
    worker: WorkerSettings,
    listener: StatusListener,
    exactly_once: ExactlyOnce | None,
    paused: bool,
) -> TaskRunner:
    metrics = TaskMetrics(parts.task_id, is_source=True, gauges=parts.task.gauges)
    tolerance = _source_tolerance(parts, metrics)
    reader = StoredOffsets(offsets)
    producer = {"client.id": f"connector-producer-{parts.task_id}", **clients.producer}
    topics = _topic_creation(parts, clients, worker)
    if exactly_once is None:
        context = SourceContext(parts, reader, None)
        sender = RecordSender(producer, name=str(parts.task_id))
        return TaskRunner(
            metrics,
            AtLeastOnceWork(
                parts,
                metrics,
                tolerance,
                context,
                sender,
                OffsetWriter(offsets),
                worker.offsets,
                topics=topics,
                on_release=reader.close,
            ),
            listener,
            paused=paused,
            version=parts.task.version,
        )
    boundary = boundary_of(from_properties(TransactionSettings, parts.properties), worker.offsets)
    work = ExactlyOnceWork(
        parts,
        metrics,
        tolerance,
        SourceContext(parts, reader, boundary if isinstance(boundary, TaskDefined) else None),
        TransactionalSender(producer, exactly_once.transactional_id),
        StoredPendingOffsets(offsets),
        boundary,
        topics=topics,
        check=exactly_once.check,
        on_release=reader.close,
    )
    return TaskRunner(metrics, work, listener, paused=paused, version=parts.task.version)


def sink_runner(
    parts: TaskParts[SinkTask],
    clients: ClientProperties,
    worker: WorkerSettings,
    listener: StatusListener,
    *,
    paused: bool = False,
) -> TaskRunner:
    """Return the runner of a sink task, not started. Raises ConfigInvalid."""
    with _config_errors():
        return _sink_runner(parts, clients, worker, listener, paused)


def _sink_runner(
    parts: TaskParts[SinkTask],
    clients: ClientProperties,
    worker: WorkerSettings,
    listener: StatusListener,
    paused: bool,
) -> TaskRunner:
    metrics = TaskMetrics(parts.task_id, is_source=False)
    errors = from_properties(ErrorSettings, parts.properties)
    consumer = {
        "client.id": f"connector-consumer-{parts.task_id}",
        "group.id": consumer_group_id(parts.task_id.connector),
        "fetch.max.wait.ms": _FETCH_WAIT_MS,
        **clients.consumer,
    }
    config, settings = ClientConfig.from_properties(consumer), from_properties(ConsumerSettings, consumer)
    fetch, topics = from_properties(FetchConfig, consumer), topics_of(parts.properties)

    def consume(rebalances: RebalanceListener) -> GroupConsumer:
        timeout_ms = worker.offsets.flush_timeout_ms
        return GroupConsumer(config, settings, fetch, topics, rebalances, commit_timeout_ms=timeout_ms)

    work = SinkWork(
        parts,
        metrics,
        _sink_tolerance(parts, clients, errors, metrics),
        consume,
        worker.offsets,
        reports_errors=errors.log or bool(errors.dead_letter_topic),
    )
    return TaskRunner(metrics, work, listener, paused=paused, version=parts.task.version)


@contextmanager
def _config_errors() -> Iterator[None]:
    """Raise the error for a property of a client or of ``errors.*`` as Connect's."""
    try:
        yield
    except ConfigError as error:
        raise ConfigInvalid(str(error)) from error


def _source_tolerance(parts: TaskParts[SourceTask], metrics: TaskMetrics) -> Tolerance[SourceRecord]:
    errors = from_properties(ErrorSettings, parts.properties)
    reporters = []
    if errors.log:
        show = show_source if errors.log_records else None
        reporters.append(LogReport(parts.task_id, metrics.errors, parts.class_name, show))
    return Tolerance(errors, metrics.errors, reporters)


def _sink_tolerance(
    parts: TaskParts[SinkTask], clients: ClientProperties, errors: ErrorSettings, metrics: TaskMetrics
) -> Tolerance[ConsumedRecord]:
    reporters: list[Reporter[ConsumedRecord]] = []
    if errors.log:
        show = show_consumed if errors.log_records else None
        reporters.append(LogReport(parts.task_id, metrics.errors, parts.class_name, show))
    if errors.dead_letter_topic:
        name = f"connector-dlq-producer-{parts.task_id}"
        reporters.append(
            DeadLetters(
                parts.task_id,
                errors,
                metrics.errors,
                RecordSender({"client.id": name, **clients.producer}, name=name),
                parts.class_name,
                admin=_admin(parts, clients),
            )
        )
    return Tolerance(errors, metrics.errors, reporters)


def _topic_creation(
    parts: TaskParts[SourceTask], clients: ClientProperties, worker: WorkerSettings
) -> TopicCreation | None:
    groups = creation_groups(parts.properties) if worker.topic_creation else []
    if not groups:
        return None
    return TopicCreation(Cluster(ClientConfig.from_properties(_admin(parts, clients))), groups)


def _admin(
    parts: TaskParts[SourceTask] | TaskParts[SinkTask], clients: ClientProperties
) -> Mapping[str, str]:
    return {"client.id": f"connector-adminclient-{parts.task_id}", **clients.admin}
