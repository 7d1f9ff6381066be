"""Records between connectors and topics, with headers (SourceRecord, SinkRecord, ConnectHeaders)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Self

from penstock.connect.data.schema import Schema

Partition = Mapping[str, Any]
"""A place in the outside system that a source reads by itself, such as a file or a table."""
Offset = Mapping[str, Any]
"""How far a source has read a partition; plain values that JSON can express."""


class Header(NamedTuple):
    """A header of a record: a name that may repeat, and a value with its schema or without one."""

    key: str
    value: Any
    schema: Schema | None = None


class TimestampType(Enum):
    """The origin of a record's timestamp; the value is the name in Kafka's tools."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"
    NO_TIMESTAMP_TYPE = "NoTimestampType"


@dataclass(slots=True, kw_only=True)
class ConnectRecord:
    """The common parts of source and sink records. Nothing changes a record: transforms return copies.

    ``partition`` is the topic's; None leaves the choice to the producer. ``timestamp_ms`` is in milliseconds
    since 1970.
    """

    # Not frozen, because a frozen dataclass takes five times as long to make, and every message is a record.

    topic: str
    partition: int | None = None
    key: Any = None
    key_schema: Schema | None = None
    value: Any = None
    value_schema: Schema | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()

    def with_key(self, schema: Schema | None, key: Any) -> Self:
        """A copy with another key."""
        copy = self._copy()
        copy.key_schema = schema
        copy.key = key
        return copy

    def with_value(self, schema: Schema | None, value: Any) -> Self:
        """A copy with another value."""
        copy = self._copy()
        copy.value_schema = schema
        copy.value = value
        return copy

    def with_topic(self, topic: str) -> Self:
        """A copy for another topic."""
        copy = self._copy()
        copy.topic = topic
        return copy

    def with_headers(self, headers: tuple[Header, ...]) -> Self:
        """A copy with other headers."""
        copy = self._copy()
        copy.headers = headers
        return copy

    def _copy(self) -> Self:
        """Copy each attribute by name, which takes a fifth of the time of `dataclasses.replace`."""
        copy = object.__new__(type(self))
        copy.topic = self.topic
        copy.partition = self.partition
        copy.key = self.key
        copy.key_schema = self.key_schema
        copy.value = self.value
        copy.value_schema = self.value_schema
        copy.timestamp_ms = self.timestamp_ms
        copy.headers = self.headers
        return copy


@dataclass(slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record that a source task read, and the place in the outside system after it.

    The worker stores `source_offset` for `source_partition` once the record is in its topic, and passes it to
    the task at the next start.
    """

    source_partition: Partition = field(default_factory=dict)
    source_offset: Offset = field(default_factory=dict)

    def with_offset(self, offset: Offset) -> Self:
        """A copy with another offset."""
        copy = self._copy()
        copy.source_offset = offset
        return copy

    def _copy(self) -> Self:
        copy = ConnectRecord._copy(self)
        copy.source_partition = self.source_partition
        copy.source_offset = self.source_offset
        return copy


@dataclass(slots=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """A record of a topic, for a sink task.

    `original_topic`, `original_partition` and `original_offset` name the record's place in Kafka, whatever
    transforms made of topic and partition (KIP-793).
    """

    offset: int
    timestamp_type: TimestampType = TimestampType.NO_TIMESTAMP_TYPE
    original_topic: str = ""
    original_partition: int = -1
    original_offset: int = -1

    def _copy(self) -> Self:
        copy = ConnectRecord._copy(self)
        copy.offset = self.offset
        copy.timestamp_type = self.timestamp_type
        copy.original_topic = self.original_topic
        copy.original_partition = self.original_partition
        copy.original_offset = self.original_offset
        return copy
