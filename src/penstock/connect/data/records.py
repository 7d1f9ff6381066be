"""Records between connectors and topics, with headers (SourceRecord, SinkRecord, ConnectHeaders)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    """The common parts of source and sink records; transforms change them.

    ``partition`` is the topic's; None leaves the choice to the producer. ``timestamp_ms`` is in milliseconds
    since 1970.
    """

    topic: str
    partition: int | None = None
    key: Any = None
    key_schema: Schema | None = None
    value: Any = None
    value_schema: Schema | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record that a source task read, and the place in the outside system after it.

    The worker stores `source_offset` for `source_partition` once the record is in its topic, and passes it to
    the task at the next start.
    """

    source_partition: Partition = field(default_factory=dict)
    source_offset: Offset = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
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
