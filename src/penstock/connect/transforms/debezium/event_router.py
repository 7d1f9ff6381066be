"""EventRouter: turns rows of an outbox table into events in the topics of their kinds (the outbox pattern).

An application inserts its events into a table in the transaction that they belong to. Each inserted row
becomes a record with the row's payload as value, in a topic that one of its columns names. Differences from
Debezium, on purpose: a schema of values belongs to the topic and columns at hand (Debezium keeps the first
that it made for a payload's schema), a payload that cannot be expanded keeps its schema, and an unknown
placement of an additional field is refused at the start.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from penstock.connect.data.records import Header
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.data.validation import validate_value
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import CaseInsensitiveValidString
from penstock.connect.errors import ConfigInvalid, ConnectError, DataError
from penstock.connect.transforms.debezium.json_payload import NullFields, expanded
from penstock.connect.transforms.fields.part import require_struct
from penstock.connect.transforms.regular_expressions import VALID_REGEX
from penstock.connect.transforms.routing import RegexRouter
from penstock.connect.transforms.transform import R, Transform

log = logging.getLogger(__name__)

DEBEZIUM_VERSION: Final = "3.6.1.Final"
"""The version of Debezium whose transforms these are."""
ENVELOPE_SUFFIX: Final = ".Envelope"
_PAYLOAD: Final = "payload"
_PLACEMENTS: Final = ("header", "envelope", "partition")
_PER_MS: Final = {
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1_000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}
"""Units of a millisecond in the schemas that a column of timestamps may have."""
_COLUMNS: Final = {
    "table.field.event.id": ("id", "The column of an event's id, which becomes the header id."),
    "table.field.event.key": ("aggregateid", "The column that becomes the record's key."),
    "table.field.event.type": ("type", "The column of an event's type. It is not used unless it is placed."),
    "table.field.event.payload": ("payload", "The column that becomes the record's value."),
    "table.field.event.timestamp": (None, "The column of the record's timestamp, else the time of capture."),
    "table.field.event.schema.version": (None, "The column of the version of the value's schema."),
    "table.fields.additional.placement": (
        None,
        "More columns, as <code>column:header</code>, <code>column:envelope:alias</code> or "
        "<code>column:partition</code>, separated by commas.",
    ),
    "route.by.field": ("aggregatetype", "The column that the name of the topic is made from."),
}
_CHOICES: Final = {
    "table.field.additional.missing": (
        ("error", "ignore"),
        "error",
        "What a missing additional column does.",
    ),
    "table.op.invalid.behavior": (("warn", "error", "fatal"), "warn", "What an update of a row does."),
    "table.json.payload.null.behavior": (
        tuple(each.value for each in NullFields),
        NullFields.IGNORE.value,
        "What a null in an expanded payload becomes.",
    ),
}
_SWITCHES: Final = {
    "route.tombstone.on.empty.payload": "Whether an empty payload becomes a record without a value.",
    "table.expand.json.payload": "Whether a payload of JSON becomes a struct.",
}


class _Additional(NamedTuple):
    """A column, where it goes and under which name."""

    column: str
    placement: str
    alias: str


def _definition() -> ConfigDef:
    made = ConfigDef()
    for name, (column, doc) in _COLUMNS.items():
        made.define(name, ConfigType.STRING, column, importance=Importance.LOW, doc=doc)
    made.define(
        "route.topic.regex",
        ConfigType.STRING,
        "(?<routedByValue>.*)",
        VALID_REGEX,
        importance=Importance.LOW,
        doc="A regular expression for the column of route.by.field.",
    )
    made.define(
        "route.topic.replacement",
        ConfigType.STRING,
        "outbox.event.${routedByValue}",
        importance=Importance.HIGH,
        doc="The name of the topic, with groups of the regular expression.",
    )
    for name, (allowed, choice, doc) in _CHOICES.items():
        made.define(name, ConfigType.STRING, choice, CaseInsensitiveValidString(*allowed), doc=doc)
    for name, doc in _SWITCHES.items():
        made.define(name, ConfigType.BOOLEAN, False, doc=doc)
    return made


class EventRouter(Transform):
    """Routes the rows of an outbox table. Deleted rows make no records."""

    definition = _definition()
    version = DEBEZIUM_VERSION

    def start(self, config: Mapping[str, Any]) -> None:
        self._id, self._key = config["table.field.event.id"], config["table.field.event.key"]
        self._payload, self._time = config["table.field.event.payload"], config["table.field.event.timestamp"]
        self._schema_version, self._route = (
            config["table.field.event.schema.version"],
            config["route.by.field"],
        )
        self._invalid = config["table.op.invalid.behavior"].lower()
        self._ignores_missing = config["table.field.additional.missing"].lower() == "ignore"
        self._makes_tombstones = config["route.tombstone.on.empty.payload"]
        self._expands = config["table.expand.json.payload"]
        self._nulls = NullFields(config["table.json.payload.null.behavior"].lower())
        self._additional = _additional(config["table.fields.additional.placement"])
        self._has_envelope = any(each.placement == "envelope" for each in self._additional)
        self._router = RegexRouter()
        self._router.configure(
            {"regex": config["route.topic.regex"], "replacement": config["route.topic.replacement"]}
        )
        self._schemas: dict[Any, Schema] = {}

    def apply(self, record: R) -> R | None:
        if record.value is None:
            return None
        schema = record.value_schema
        if schema is None or not (schema.name or "").endswith(ENVELOPE_SUFFIX):
            return record
        envelope = require_struct(record.value, schema, "Detect Debezium Operation")
        operation = envelope["op"]
        if operation == "d":
            return None
        if operation == "u":
            self._refuse_update(record.key)
            return None
        return self._event(record, envelope)

    def _refuse_update(self, key: Any) -> None:
        text = f"Unexpected update message received {key} and ignored"
        if self._invalid == "fatal":
            raise ConnectError(f"Unexpected update message received {key}, fail.")
        log.log(logging.WARNING if self._invalid == "warn" else logging.ERROR, text)

    def _event(self, record: R, envelope: Struct) -> R:
        row = envelope["after"]
        row_schema = envelope.schema.by_name["after"].schema
        require_struct(row, row_schema, "Read Outbox Event")
        found = row_schema.by_name.get(self._payload)
        if found is None:
            raise ConnectError(f"Unable to find payload field {self._payload} in event")
        timestamp_ms = self._timestamp_ms(envelope, row)
        identity, payload, payload_schema = row[self._id], row[self._payload], found.schema
        headers = [Header("id", identity, row_schema.by_name[self._id].schema)]
        if self._expands and payload is not None:
            payload, payload_schema = self._expanded(payload, payload_schema)
        topic, partition = _typed(row, self._route, Type.STRING), None
        value = None
        if self._has_envelope:
            schema = self._value_schema(payload_schema, row, topic)
            value = Struct(schema)
            _put(value, _PAYLOAD, payload)
        for column, placement, alias in self._additional:
            if self._ignores_missing and column not in row_schema.by_name:
                continue
            if placement == "envelope":
                assert value is not None, "there is a struct if a column goes into it"
                _put(value, alias, row[column])
            elif placement == "header":
                headers.append(Header(alias, row[column], row_schema.by_name[column].schema))
            else:
                partition = _typed(row, column, Type.INT32)
        if self._makes_tombstones and (payload is None or is_blank(payload)):
            made = record.with_value(None, None)
        elif value is None:
            made = record.with_value(payload_schema, payload)
        else:
            made = record.with_value(value.schema, value)
        if topic is None:
            raise DataError(f"the column {self._route} is null; expected the name of a topic")
        made = made.with_headers((*record.headers, *headers)).with_topic(topic)
        key = row[self._key]
        made = made.with_key(row_schema.by_name[self._key].schema, key)
        made.partition, made.timestamp_ms = partition, timestamp_ms
        routed = self._router.apply(made)
        assert routed is not None, "a router drops no record"
        return routed

    def _timestamp_ms(self, envelope: Struct, row: Struct) -> int | None:
        if self._time is None:
            return _whole(envelope, "ts_ms")
        field = row.schema.by_name.get(self._time)
        if field is None:
            raise ConnectError(f"Unable to find timestamp field {self._time} in event")
        found = _whole(row, self._time)
        if found is None:
            return _whole(envelope, "ts_ms")
        if field.schema.name is None:
            kind = field.schema.type.name
            raise ConnectError(
                f"Unsupported field type {kind} (without logical schema name) for event timestamp"
            )
        if field.schema.name not in _PER_MS:
            raise ConnectError(f"Unsupported field type {field.schema.name} for event timestamp")
        units = _PER_MS[field.schema.name]
        return found // units if found >= 0 else -(-found // units)

    def _expanded(self, payload: Any, schema: Schema) -> tuple[Any, Schema]:
        if not isinstance(payload, str):
            log.warning("payload is not expanded, it is no text")
            return payload, schema
        try:
            return expanded(self._payload, payload, self._nulls)
        except (ValueError, ConnectError) as error:
            log.warning("payload is not expanded reason=%s", error)
            return payload, schema

    def _value_schema(self, payload: Schema, row: Struct, topic: str | None) -> Schema:
        version = None
        if self._schema_version is not None:
            version = _typed(row, self._schema_version, Type.INT32)
        place = (payload, row.schema, version, topic)
        if place not in self._schemas:
            fields = {_PAYLOAD: payload}
            for each in self._additional:
                if each.placement == "envelope":
                    field = row.schema.by_name.get(each.column)
                    if field is not None:
                        fields[each.alias] = field.schema
                    elif not self._ignores_missing:
                        raise ConnectError(f"Unable to find field {each.column} in event")
            name = _schema_name(row.schema.name, topic)
            self._schemas[place] = Schema.struct(fields, name=name, version=version)
        return self._schemas[place]


def _additional(text: str | None) -> list[_Additional]:
    made = []
    for entry in text.split(",") if text else ():
        parts = [each.strip() for each in entry.split(":")]
        if len(parts) not in (2, 3) or parts[1].lower() not in _PLACEMENTS:
            raise ConfigInvalid(
                f"table.fields.additional.placement has {entry!r}; expected column:placement or "
                f"column:placement:alias, with one of {', '.join(_PLACEMENTS)}"
            )
        made.append(_Additional(parts[0], parts[1].lower(), parts[-1] if len(parts) > 2 else parts[0]))
    return made


def _schema_name(name: str | None, topic: str | None) -> str:
    if name is None:
        return str(topic)
    head, dot, tail = name.rpartition(".")
    return f"{head}{dot}{topic}.{tail}"


def _whole(struct: Struct, name: str) -> int | None:
    found: int | None = _typed(struct, name, Type.INT64)
    return found


def _typed(struct: Struct, name: str, kind: Type) -> Any:
    """A field's own value, whatever its default, as Java's getters have it.

    Raises:
        DataError: there is no such field, or it has another type.
    """
    found = struct.without_default(name)
    if struct.schema.by_name[name].schema.type is not kind:
        raise DataError(f"Field '{name}' is not of type {kind.name}")
    return found


def _put(struct: Struct, name: str, value: Any) -> None:
    """Set a field that fits its schema."""
    validate_value(struct.schema.by_name[name].schema, value, f'field: "{name}"')
    struct[name] = value


def is_blank(payload: Any) -> bool:
    """Whether Java's text of a payload has nothing but spaces and control characters."""
    return isinstance(payload, str) and all(each <= " " for each in payload)
