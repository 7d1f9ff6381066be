"""Parts of tasks for tests: converters of text, a listener that keeps states, topics and their records."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, cast

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.connect import (
    ConfigDef,
    DataError,
    RecordMetadata,
    Schema,
    SinkRecord,
    SinkTask,
    SourceRecord,
    SourceTask,
)
from penstock.connect.converters import RecordHeaders, SchemaAndValue
from penstock.connect.stores import ConnectorOffsets, OffsetStore, State, offset_topic
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks import (
    ClientProperties,
    ExactlyOnce,
    TaskParts,
    WorkerSettings,
    task_transactional_id,
)
from penstock.connect.tasks.settings import OffsetSettings
from penstock.testing import Cluster
from waiting import LIMIT_S, wait_until

OFTEN = WorkerSettings(offsets=OffsetSettings(flush_interval_ms=50))


class Text:
    """Converts text, except "bad"."""

    definition: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None: ...

    def to_bytes(
        self, topic: str, schema: Schema | None, value: Any, headers: RecordHeaders = ()
    ) -> bytes | None:
        if value == "bad":
            raise DataError("this value is bad")
        return None if value is None else str(value).encode()

    def from_bytes(self, topic: str, data: bytes | None, headers: RecordHeaders = ()) -> SchemaAndValue:
        if data == b"bad":
            raise DataError("this value is bad")
        return SchemaAndValue(None, None if data is None else data.decode())

    def close(self) -> None: ...


class TextHeaders:
    """Converts headers of text."""

    definition: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, properties: Mapping[str, str]) -> None: ...

    def to_bytes(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return str(value).encode()

    def from_bytes(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(None, None if data is None else data.decode())

    def close(self) -> None: ...


class Counting(SourceTask):
    """Sends the numbers from its offset on, as text, `batch` at a time, up to `end`."""

    def __init__(self, topic: str, end: int, *, batch: int = 10, bad: int = -1) -> None:
        self.topic, self.end, self.batch, self.bad = topic, end, batch, bad
        self.next = 0
        self.written: list[tuple[int, RecordMetadata | None]] = []
        self.events: list[str] = []
        self.failure: Exception | None = None

    def start(self, config: Mapping[str, Any]) -> None:
        self.events.append("start")
        stored = self.context.offset({"name": "numbers"})
        self.next = stored["number"] if stored else 0

    def poll(self) -> Sequence[SourceRecord] | None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        first, self.next = self.next, min(self.next + self.batch, self.end)
        return [self.record(number) for number in range(first, self.next)]

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(
            topic=self.topic,
            partition=0,
            value="bad" if number == self.bad else str(number),
            source_partition={"name": "numbers"},
            source_offset={"number": number + 1},
        )

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self.written.append((record.source_offset["number"] - 1, metadata))

    def commit(self) -> None:
        if self.events[-1] != "commit":
            self.events.append("commit")

    def stop(self) -> None:
        self.events.append("stop")


class Keeping(SinkTask):
    """Keeps the values that it gets, and what else happens."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.records: list[SinkRecord] = []
        self.flushed = 0
        self.events: list[str] = []
        self.failures: list[Exception] = []
        self.reported: set[str] = set()

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append("open " + " ".join(map(str, sorted(partitions))))

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records and self.failures:
            raise self.failures.pop(0)
        for record in records:
            if record.value in self.reported:
                reporter = self.context.reporter
                assert reporter is not None
                reporter.report(record, ValueError(f"refused: {record.value}"))
            else:
                self.records.append(record)
                self.values.append(record.value)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.flushed = len(self.values)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append("close " + " ".join(map(str, sorted(partitions))))

    def stop(self) -> None:
        self.events.append("stop")


class Listener:
    """Keeps the states of a task or connector."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.traces: list[str] = []
        self._changed = threading.Condition()

    def changed(self, subject: str | ConnectorTaskId, state: State, trace: str | None = None) -> None:
        with self._changed:
            self.states.append(state)
            self.traces += [] if trace is None else [trace]
            self._changed.notify_all()

    def wait_for(self, state: State) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.states[-1:] == [state], LIMIT_S), self.states


def source_parts(task: SourceTask, connector: str, **more: Any) -> TaskParts[SourceTask]:
    return TaskParts(
        task_id=ConnectorTaskId(connector, 0),
        task=task,
        properties=more.pop("properties", {}),
        key_converter=Text(),
        value_converter=Text(),
        header_converter=TextHeaders(),
        **more,
    )


def sink_parts(task: SinkTask, connector: str, properties: Mapping[str, str]) -> TaskParts[SinkTask]:
    return TaskParts(
        task_id=ConnectorTaskId(connector, 0),
        task=task,
        properties=properties,
        key_converter=Text(),
        value_converter=Text(),
        header_converter=TextHeaders(),
    )


def clients(cluster: Cluster, **consumer: str) -> ClientProperties:
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    more = {name.replace("_", "."): value for name, value in consumer.items()}
    return ClientProperties(producer=servers, consumer={**servers, **more}, admin=servers)


def started_offsets(cluster: Cluster, connector: str) -> tuple[OffsetStore, ConnectorOffsets]:
    config = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap_servers})
    store = OffsetStore(config, offset_topic(f"offsets-{connector}", 3, 1))
    store.start()
    return store, ConnectorOffsets(connector, store)


def create(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


class Reading:
    """The committed values of a topic's only partition, as they arrive."""

    def __init__(self, cluster: Cluster, topic: str, isolation: str = "read_committed") -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "unused",
                "isolation.level": isolation,
            }
        )
        self._consumer.assign([Place(topic, 0, 0)])
        self.values: list[str] = []
        self.headers: list[dict[str, bytes | None]] = []

    def wait_for(self, count: int) -> list[str]:
        wait_until(lambda: self._poll() >= count)
        return self.values

    def _poll(self) -> int:
        message = self._consumer.poll(0.05)
        if message is not None and not message.error():
            self.values.append((message.value() or b"").decode())
            self.headers.append(dict(cast(Sequence[tuple[str, bytes | None]], message.headers() or ())))
        return len(self.values)

    def close(self) -> None:
        self._consumer.close()


def exactly_once(connector: str) -> ExactlyOnce:
    task_id = ConnectorTaskId(connector, 0)
    return ExactlyOnce(transactional_id=task_transactional_id("workers", task_id), check=lambda: None)
