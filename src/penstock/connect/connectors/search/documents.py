"""Makes documents of records: their index, id, version and fields."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from penstock.connect.data import logical
from penstock.connect.data.json_text import encoded, text_of
from penstock.connect.data.records import SinkRecord
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

_ID_BYTES_MAX: Final = 512
"""The longest id that both engines accept."""


class Operation(Enum):
    """The actions of the bulk API that are used; the value is the name there."""

    INDEX = "index"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Document:
    """One action of a bulk request. `lines` are the bytes of it.

    The engine writes documents with a version in any order, and others in the order of their requests.
    """

    record: SinkRecord
    operation: Operation
    index: str
    id: str | None
    has_version: bool
    lines: bytes


class Documents:
    """Makes documents as a configuration says."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._ignores_key: bool = config["key.ignore"]
        self._topics_without_key = frozenset(config["topic.key.ignore"])
        self._id_strategy: str = config["key.ignore.id.strategy"]
        self._compact_maps: bool = config["compact.map.entries"]
        self._on_null: str = config["behavior.on.null.values"]
        method = config["index.write.method"] or config["write.method"]
        self._upserts: bool = method.lower() == "upsert"
        self._indices = dict(each.split(":", 1) for each in config["topic.index.map"])
        self._is_stream: bool = config["data.stream.enabled"]
        self._stream_prefix: str | None = config["data.stream.prefix"]
        self._time_field: str = config["data.stream.timestamp.field"]

    def document(self, record: SinkRecord) -> Document | None:
        """Return the document of a record, or None if the record is ignored.

        Raises:
            DataError: the record cannot become a document.
        """
        if record.value is None and not self._deletes(record):
            return None
        index, id_ = self.index_of(record.topic), self._id_of(record)
        operation = self._operation(record)
        action: dict[str, Any] = {"_index": index}
        if id_ is not None:
            action["_id"] = id_
        has_version = not self._upserts and self._has_key(record.topic)
        if operation is Operation.UPDATE:
            action["retry_on_conflict"] = 5
        elif has_version:
            action |= {"version": record.original_offset, "version_type": "external"}
        lines = [text_of({operation.value: action})]
        if operation is Operation.UPDATE:
            lines.append(text_of({"doc": self._fields(record), "doc_as_upsert": True}))
        elif operation is not Operation.DELETE:
            lines.append(text_of(self._fields(record)))
        return Document(record, operation, index, id_, has_version, encoded("\n".join(lines) + "\n"))

    def index_of(self, topic: str) -> str:
        """Return the index of a topic: by the map, or the topic's name in lower case."""
        if self._is_stream and self._stream_prefix is not None:
            return f"{self._stream_prefix}-{topic}".lower()
        return self._indices.get(topic) or topic.lower()

    def _has_key(self, topic: str) -> bool:
        """Whether ids are made of keys."""
        return not (self._is_stream or self._ignores_key or topic in self._topics_without_key)

    def _deletes(self, record: SinkRecord) -> bool:
        """Whether a record without a value deletes a document. Raises DataError if it is an error."""
        if self._on_null == "fail":
            raise DataError("the record has no value, and behavior.on.null.values is fail")
        return self._on_null == "delete" and record.key is not None and self._has_key(record.topic)

    def _operation(self, record: SinkRecord) -> Operation:
        if record.value is None:
            return Operation.DELETE
        if self._is_stream:
            return Operation.CREATE
        return Operation.UPDATE if self._upserts and self._has_key(record.topic) else Operation.INDEX

    def _id_of(self, record: SinkRecord) -> str | None:
        if not self._has_key(record.topic):
            if self._id_strategy == "none":
                return None
            if self._id_strategy == "topic.partition.offset":
                place = record.original_topic, record.original_partition, record.original_offset
                return "+".join(map(str, place))
        return id_of_key(record.key)

    def _fields(self, record: SinkRecord) -> dict[str, Any]:
        if not isinstance(record.value, Struct | Mapping):
            found = type(record.value).__name__
            raise DataError(f"the record's value is a {found}, expected a struct or a map for a document")
        fields = _plain(record.value, self._compact_maps or record.value_schema is None)
        if not isinstance(fields, dict):
            raise DataError("the keys of the record's map are not all texts, as a document's must be")
        if self._is_stream and fields.get(self._time_field) is None:
            fields[self._time_field] = record.timestamp_ms
        return fields


def _plain(value: Any, compact_maps: bool) -> Any:
    """Return a value as JSON has it. Times are what the mapping's `date` reads."""
    match value:
        case str() | bool() | int() | float() | bytes() | None:
            return value
        case Struct():
            return {each.name: _plain(value[each.name], compact_maps) for each in value.schema.fields}
        case Mapping():
            return _plain_map(value, compact_maps)
        case list() | tuple():
            return [_plain(each, compact_maps) for each in value]
        case Decimal():
            return float(value)
        case datetime.datetime():
            return logical.epoch_millis(value)
        case datetime.date():
            return value.isoformat()
        case datetime.time():
            return logical.millis_of_day(value)
    return value


def _plain_map(value: Mapping[Any, Any], compact_maps: bool) -> Any:
    if compact_maps and all(isinstance(key, str) for key in value):
        return {key: _plain(each, compact_maps) for key, each in value.items()}
    return [
        {"key": _plain(key, compact_maps), "value": _plain(each, compact_maps)} for key, each in value.items()
    ]


def id_of_key(key: Any) -> str:
    """Return the id for a key. Raises DataError if the key is no text or integer, or too long."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        found = "no key" if key is None else f"a {type(key).__name__} as key"
        raise DataError(f"the record has {found}, expected a text or an integer for the document's id")
    text = str(key)
    if not text or len(text.encode(errors="replace")) > _ID_BYTES_MAX:
        raise DataError(f"the key {text[:50]!r} has not from 1 to {_ID_BYTES_MAX} bytes, as an id must")
    return text
