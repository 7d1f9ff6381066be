"""Turns a source's records into bytes for topics, and consumed bytes into a sink's records.

Each step runs under the connector's tolerance: the transforms in their order, and the three converters.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields
from typing import Final, Self

from penstock.client.consuming.partition_reader import ConsumedRecord
from penstock.connect.connector.sink import SinkTask
from penstock.connect.connector.source import SourceTask
from penstock.connect.converters.headers import SimpleHeaderConverter
from penstock.connect.converters.json.converter import JsonConverter
from penstock.connect.converters.plain import ByteArrayConverter, StringConverter
from penstock.connect.data.encodable import EncodableRecord
from penstock.connect.data.records import ConnectRecord, Header, SinkRecord, SourceRecord, TimestampType
from penstock.connect.errors import ConnectError
from penstock.connect.tasks.parts import Record, TaskParts
from penstock.connect.tasks.sending.delivery import OutgoingRecord
from penstock.connect.tasks.tolerance import Attempt, Original, Stage, Tolerance
from penstock.protocol.records import Headers

log = logging.getLogger(__name__)

NO_TIMESTAMP: Final = -1
TIMESTAMP_TYPES: Final = (
    TimestampType.CREATE_TIME,
    TimestampType.LOG_APPEND_TIME,
    TimestampType.NO_TIMESTAMP_TYPE,
)
"""By the numbers in batches; -1 is the last."""
_WITHOUT_EFFECTS: Final = frozenset(
    (key, value, SimpleHeaderConverter)
    for key in (JsonConverter, StringConverter, ByteArrayConverter)
    for value in (JsonConverter, StringConverter, ByteArrayConverter)
)
"""Converters of keys, values and headers that can be called once more if one of them fails."""


@dataclass(slots=True, kw_only=True, eq=False)
class TrackedRecord(SinkRecord):
    """A sink record that knows what it was made of, so that dead letters are the records that were consumed.

    Copies of it know that, too. It equals a plain record with the same content.
    """

    attempt: Attempt[ConsumedRecord] = field(repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SinkRecord):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in fields(SinkRecord))

    def __hash__(self) -> int:
        return hash((self.original_topic, self.original_partition, self.original_offset))

    def _copy(self) -> Self:
        copy = SinkRecord._copy(self)
        copy.attempt = self.attempt
        return copy


class SourceConversion:
    """The way of a source's records into topics."""

    def __init__(self, parts: TaskParts[SourceTask], tolerance: Tolerance[SourceRecord]) -> None:
        self._parts = parts
        self._tolerance = tolerance
        key, value = parts.key_converter, parts.value_converter
        self._json_keys = key if type(key) is JsonConverter else None
        self._json_values = value if type(value) is JsonConverter else None
        self._is_direct = (*(type(key), type(value), type(parts.header_converter)),) in _WITHOUT_EFFECTS
        self._last_headers: tuple[Header, ...] = ()
        self._last_header_bytes: Headers = ()

    def convert(self, attempt: Attempt[SourceRecord]) -> OutgoingRecord | None:
        """Transform and convert a record; None if a transform drops it, or if an error is tolerated.

        Raises ConnectError for any other error.
        """
        record: SourceRecord | None = attempt.original
        if self._parts.transforms:
            record = _transformed(self._parts, self._tolerance, attempt, attempt.original)
        if record is None:
            return None
        if self._is_direct:
            try:
                return self._converted(record)
            except Exception:
                log.debug("a record is converted again, step by step topic=%s", record.topic, exc_info=True)
        return self._converted_in_steps(attempt, record)

    def _converted(self, record: SourceRecord) -> OutgoingRecord:
        """Convert a record at once. Raises what the converters raise."""
        headers, topic = self._header_bytes(record), record.topic
        if self._json_keys is not None and isinstance(record, EncodableRecord):
            key = record.key_json(self._json_keys)
        else:
            key = self._parts.key_converter.to_bytes(topic, record.key_schema, record.key, headers)
        if self._json_values is not None and isinstance(record, EncodableRecord):
            value = record.value_json(self._json_values)
        else:
            value = self._parts.value_converter.to_bytes(topic, record.value_schema, record.value, headers)
        timestamp_ms = _valid_timestamp(record.timestamp_ms)
        return OutgoingRecord(topic, record.partition, key, value, headers, timestamp_ms)

    def _header_bytes(self, record: SourceRecord) -> Headers:
        """The headers' bytes, kept for the records that follow: sources often use the same for all."""
        headers = record.headers
        if headers is not self._last_headers:
            made = header_bytes(self._parts, record)
            if type(headers) is not tuple or not all(isinstance(each.value, str) for each in headers):
                return made  # they may change
            self._last_headers, self._last_header_bytes = headers, made
        return self._last_header_bytes

    def _converted_in_steps(
        self, attempt: Attempt[SourceRecord], record: SourceRecord
    ) -> OutgoingRecord | None:
        """Convert a record with retries and reports of errors."""
        run = self._tolerance.run
        parts = self._parts
        key_converter, value_converter = parts.key_converter, parts.value_converter
        headers = run(
            attempt,
            Stage.HEADER_CONVERTER,
            type(parts.header_converter),
            lambda: header_bytes(parts, record),
        )
        key = run(
            attempt,
            Stage.KEY_CONVERTER,
            type(key_converter),
            lambda: key_converter.to_bytes(record.topic, record.key_schema, record.key, headers or ()),
        )
        value = run(
            attempt,
            Stage.VALUE_CONVERTER,
            type(value_converter),
            lambda: value_converter.to_bytes(record.topic, record.value_schema, record.value, headers or ()),
        )
        if attempt.error is not None:
            return None
        timestamp_ms = _valid_timestamp(record.timestamp_ms)
        return OutgoingRecord(record.topic, record.partition, key, value, headers or (), timestamp_ms)


class SinkConversion:
    """The way of consumed records into a sink."""

    def __init__(self, parts: TaskParts[SinkTask], tolerance: Tolerance[ConsumedRecord]) -> None:
        self._parts = parts
        self._tolerance = tolerance

    def convert(self, attempt: Attempt[ConsumedRecord]) -> SinkRecord | None:
        """Convert and transform a record; None if a transform drops it, or if an error is tolerated.

        Raises ConnectError for any other error.
        """
        consumed, parts, run = attempt.original, self._parts, self._tolerance.run
        topic, key_converter, value_converter = consumed.topic, parts.key_converter, parts.value_converter
        key = run(
            attempt,
            Stage.KEY_CONVERTER,
            type(key_converter),
            lambda: key_converter.from_bytes(topic, consumed.key, consumed.headers),
        )
        value = run(
            attempt,
            Stage.VALUE_CONVERTER,
            type(value_converter),
            lambda: value_converter.from_bytes(topic, consumed.value, consumed.headers),
        )
        headers = run(
            attempt, Stage.HEADER_CONVERTER, type(parts.header_converter), lambda: self._headers(consumed)
        )
        if key is None or value is None or headers is None:
            return None
        record = TrackedRecord(
            attempt=attempt,
            topic=topic,
            partition=consumed.partition,
            key=key.value,
            key_schema=key.schema,
            value=value.value,
            value_schema=value.schema,
            timestamp_ms=_valid_timestamp(consumed.timestamp_ms),
            headers=headers,
            offset=consumed.offset,
            timestamp_type=TIMESTAMP_TYPES[consumed.timestamp_type],
            original_topic=topic,
            original_partition=consumed.partition,
            original_offset=consumed.offset,
        )
        return _tracked(_transformed(parts, self._tolerance, attempt, record), attempt)

    def _headers(self, consumed: ConsumedRecord) -> tuple[Header, ...]:
        if not consumed.headers:
            return ()
        converter = self._parts.header_converter
        found = ((name, converter.from_bytes(consumed.topic, name, data)) for name, data in consumed.headers)
        return tuple(Header(name, each.value, each.schema) for name, each in found)

    def consumed(self, record: SinkRecord) -> ConsumedRecord:
        """Convert a record back into bytes, for a report about one that the sink has changed or made."""
        parts = self._parts
        headers = header_bytes(parts, record)
        return ConsumedRecord(
            record.topic,
            -1 if record.partition is None else record.partition,
            record.offset,
            NO_TIMESTAMP if record.timestamp_ms is None else record.timestamp_ms,
            TIMESTAMP_TYPES.index(record.timestamp_type),
            parts.key_converter.to_bytes(record.topic, record.key_schema, record.key),
            parts.value_converter.to_bytes(record.topic, record.value_schema, record.value),
            headers,
        )


def _tracked(record: SinkRecord | None, attempt: Attempt[ConsumedRecord]) -> SinkRecord | None:
    """Track a record that a transform has made anew."""
    if record is None or isinstance(record, TrackedRecord):
        return record
    return TrackedRecord(
        attempt=attempt, **{each.name: getattr(record, each.name) for each in fields(SinkRecord)}
    )


def header_bytes(
    parts: TaskParts[SourceTask] | TaskParts[SinkTask], record: ConnectRecord
) -> tuple[tuple[str, bytes | None], ...]:
    """Convert a record's headers. Raises what the converter raises."""
    if not record.headers:
        return ()
    convert = parts.header_converter.to_bytes
    return tuple((key, convert(record.topic, key, schema, value)) for key, value, schema in record.headers)


def _transformed(
    parts: TaskParts[SourceTask] | TaskParts[SinkTask],
    tolerance: Tolerance[Original],
    attempt: Attempt[Original],
    record: Record,
) -> Record | None:
    current: Record | None = record
    for stage in parts.transforms:
        given, apply = current, stage.apply
        if given is None:
            return None
        current = tolerance.run(
            attempt,
            Stage.TRANSFORMATION,
            stage.transform_class,
            lambda given=given, apply=apply: apply(given),  # type: ignore[misc]
        )
    return current


def _valid_timestamp(timestamp_ms: int | None) -> int | None:
    """Return the timestamp, None for -1. Raises ConnectError for other negative ones."""
    if timestamp_ms is None or timestamp_ms == NO_TIMESTAMP:
        return None
    if timestamp_ms < 0:
        raise ConnectError(f"Invalid record timestamp {timestamp_ms}")
    return timestamp_ms
