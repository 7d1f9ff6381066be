"""Takes the place of a cluster in tests of connectors: topics, offsets and transactions in memory.

Records need not be bytes: `carry` wraps any value with its schema, and the converters here unwrap it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from penstock.client.connections.metadata import TopicPartition
from penstock.client.consuming.partition_reader import ConsumedRecord
from penstock.connect.converters import RecordHeaders, SchemaAndValue
from penstock.connect.data.records import ConnectRecord, Header, Offset, Partition
from penstock.connect.data.schema import Schema
from penstock.connect.definitions.config_def import ConfigDef
from penstock.connect.stores import KeyValue, normalized
from penstock.connect.stores.offsets.keys import canonical
from penstock.connect.tasks.sending.delivery import Delivery, OutgoingRecord

_BATCH = 500


class _Carried(bytes):
    """A value on its way through a task, in the place of its bytes."""

    content: SchemaAndValue


def carry(schema: Schema | None, value: Any) -> bytes:
    """Wrap a value with its schema."""
    carried = _Carried()
    carried.content = SchemaAndValue(schema, value)
    return carried


def carried(data: bytes | None) -> SchemaAndValue:
    """Unwrap a value; bytes that are not wrapped are the value themselves."""
    return data.content if isinstance(data, _Carried) else SchemaAndValue(None, data)


class CarryingConverter:
    """The converter of keys and values that are not bytes."""

    definition: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None: ...

    def to_bytes(
        self, topic: str, schema: Schema | None, value: Any, headers: RecordHeaders = ()
    ) -> bytes | None:
        return carry(schema, value)

    def from_bytes(self, topic: str, data: bytes | None, headers: RecordHeaders = ()) -> SchemaAndValue:
        return carried(data)

    def close(self) -> None: ...


class CarryingHeaders:
    """The converter of headers that are not bytes."""

    definition: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, properties: Mapping[str, str]) -> None: ...

    def to_bytes(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return carry(schema, value)

    def from_bytes(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return carried(data)

    def close(self) -> None: ...


class MemoryTopics:
    """The records that a source has sent, as it made them."""

    def __init__(self) -> None:
        self.records: list[ConnectRecord] = []
        self._ends: dict[str, int] = {}

    def append(self, record: OutgoingRecord, delivery: Delivery) -> None:
        """Take a record. Records without a partition get partition 0."""
        self.records.append(_unwrapped(record))
        offset = self._ends.get(record.topic, 0)
        self._ends[record.topic] = offset + 1
        delivery.acknowledged(record.topic, record.partition or 0, offset, record.timestamp_ms or -1)


def _unwrapped(record: OutgoingRecord) -> ConnectRecord:
    key, value = carried(record.key), carried(record.value)
    headers = ((name, carried(data)) for name, data in record.headers)
    return ConnectRecord(
        topic=record.topic,
        partition=record.partition,
        key=key.value,
        key_schema=key.schema,
        value=value.value,
        value_schema=value.schema,
        timestamp_ms=record.timestamp_ms,
        headers=tuple(Header(name, each.value, each.schema) for name, each in headers),
    )


class MemorySender:
    """Sends records at once (`delivery.Sender`)."""

    def __init__(self, topics: MemoryTopics) -> None:
        self._topics = topics

    def send(self, record: OutgoingRecord, delivery: Delivery) -> None:
        self._topics.append(record, delivery)

    def flush(self, timeout_s: float) -> bool:
        return True

    def close(self) -> None: ...


class MemoryTransactions:
    """Sends the records of a transaction when it is committed (`exactly_once.TransactionSender`)."""

    def __init__(self, topics: MemoryTopics) -> None:
        self._topics = topics
        self._open: list[tuple[OutgoingRecord, Delivery]] = []

    def interrupt(self) -> None: ...

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def fence(self) -> None: ...

    def send(self, record: OutgoingRecord, delivery: Delivery) -> None:
        self._open.append((record, delivery))

    def push(self) -> None: ...

    def commit(self, offsets: Mapping[TopicPartition, Sequence[KeyValue]]) -> None:
        for record, delivery in self._open:
            self._topics.append(record, delivery)
        self._open.clear()

    def abort(self) -> None:
        self._open.clear()

    def close(self, *, abort: bool = True) -> None:
        self._open.clear()


class MemoryOffsets:
    """The stored offsets of a source; they are kept as JSON keeps them.

    This reads and stores offsets in every way in which tasks do.
    """

    topic = "connect-offsets"

    def __init__(self, offsets: Iterable[tuple[Partition, Offset]] = ()) -> None:
        self._stored: dict[bytes, Offset | None] = {}
        self._waiting: dict[bytes, Offset | None] = {}
        for partition, offset in offsets:
            self.add(partition, offset)
        self.flush()

    def offset(self, partition: Partition) -> Offset | None:
        return self._stored.get(canonical(partition))

    def offsets(self, partitions: Sequence[Partition]) -> list[Offset | None]:
        return [self.offset(partition) for partition in partitions]

    def stored(self) -> dict[bytes, Offset | None]:
        """Return a copy of what is stored, for `restore`."""
        return dict(self._stored)

    def restore(self, stored: Mapping[bytes, Offset | None]) -> None:
        self._stored = dict(stored)
        self._waiting.clear()

    def add(self, partition: Partition, offset: Offset | None) -> None:
        self._waiting[canonical(normalized(partition) or {})] = normalized(offset)

    def flush(self) -> bool:
        self._stored |= self._waiting
        is_changed = bool(self._waiting)
        self._waiting.clear()
        return is_changed

    def take(self) -> Mapping[TopicPartition, Sequence[KeyValue]]:
        if not self._waiting:
            return {}
        return {TopicPartition(self.topic, 0): [KeyValue(key, None) for key in self._waiting]}

    def done(self) -> None:
        self.flush()

    def failed(self) -> None: ...


class MemoryConsumer:
    """Reads records that were added to partitions (`sink_context.Consumer`). `poll` never waits."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, Sequence[ConsumedRecord]],
        committed: dict[TopicPartition, int],
    ) -> None:
        self._logs = logs
        self._committed = committed
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, from their committed offsets."""
        self._positions = {tp: self._committed.get(tp, 0) for tp in partitions}
        self._paused.clear()

    def wake(self) -> None: ...

    def stop(self) -> None: ...

    def poll(self, timeout_s: float) -> list[ConsumedRecord]:
        found: list[ConsumedRecord] = []
        for tp, position in self._positions.items():
            if tp not in self._paused:
                taken = self._logs.get(tp, ())[position : position + _BATCH - len(found)]
                self._positions[tp] = position + len(taken)
                found += taken
        return found

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._committed.update(offsets)

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(self._positions)

    def position(self, tp: TopicPartition) -> int:
        return self._positions[tp]

    def seek(self, tp: TopicPartition, offset: int) -> None:
        if tp not in self._positions:
            raise KeyError(tp)
        self._positions[tp] = offset

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._paused.difference_update(partitions)

    def close(self) -> None:
        self._positions.clear()
