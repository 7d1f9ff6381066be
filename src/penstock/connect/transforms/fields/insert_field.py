"""InsertField: adds fields with the record's topic, partition, offset or timestamp, or with a fixed text."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from penstock.connect.data.logical import timestamp_of, timestamp_schema
from penstock.connect.data.records import ConnectRecord, SinkRecord
from penstock.connect.data.schema import INT32, INT64, STRING, Schema
from penstock.connect.data.struct import Struct
from penstock.connect.definitions.config_def import ConfigDef, ConfigType
from penstock.connect.definitions.config_types import invalid
from penstock.connect.errors import ConfigInvalid, DataError
from penstock.connect.transforms.fields.part import (
    OnKey,
    OnValue,
    PartTransform,
    refuse_nulls,
    require_dict,
    require_struct,
)
from penstock.connect.transforms.fields.schemas import SchemaCache, fields_of, struct_schema
from penstock.connect.transforms.fields.settings import REPLACE_NULL, define_replace_null

_PURPOSE: Final = "field insertion"
_DOC: Final = (
    "A suffix <code>!</code> makes the field required, and <code>?</code> optional, as without suffix."
)


class InsertField(PartTransform):
    """Adds fields with metadata of the record, or with a fixed text."""

    definition = define_replace_null(
        ConfigDef()
        .define("topic.field", ConfigType.STRING, None, doc=f"Name of the field for the topic. {_DOC}")
        .define(
            "partition.field", ConfigType.STRING, None, doc=f"Name of the field for the partition. {_DOC}"
        )
        .define(
            "offset.field",
            ConfigType.STRING,
            None,
            doc=f"Name of the field for the offset, which only records of sinks have. {_DOC}",
        )
        .define(
            "timestamp.field", ConfigType.STRING, None, doc=f"Name of the field for the timestamp. {_DOC}"
        )
        .define("static.field", ConfigType.STRING, None, doc=f"Name of the field with a fixed text. {_DOC}")
        .define("static.value", ConfigType.STRING, None, doc="The text of that field.")
    )

    def start(self, config: Mapping[str, Any]) -> None:
        static = config["static.value"]
        sources = {
            "topic": _source(STRING, attrgetter("topic")),
            "partition": _source(INT32, attrgetter("partition")),
            "offset": _source(INT64, _offset),
            "timestamp": _Source(timestamp_schema(), attrgetter("timestamp_ms"), _timestamp),
            "static": _source(STRING, lambda _record: static),
        }
        self._inserted = [
            _parse_name(name, source)
            for kind, source in sources.items()
            if (name := config[f"{kind}.field"]) is not None
        ]
        self._with_defaults = config[REPLACE_NULL]
        self._schemas = SchemaCache(self._extended)
        if not self._inserted:
            raise ConfigInvalid("No field insertion configured")
        if static is None and config["static.field"] is not None:
            problem = f"No value specified for static field: {self._inserted[-1][0]}"
            raise invalid("static.value", None, problem)

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, value
        if schema is None:
            extended = dict(require_dict(value, _PURPOSE))
            for name, source in self._inserted:
                if (inserted := source.get(record)) is not None:
                    extended[name] = inserted
            return None, extended
        struct = require_struct(value, schema, _PURPOSE)
        changed = self._schemas.get(struct.schema)
        values = struct.all_values(with_defaults=self._with_defaults)
        if None in values:
            refuse_nulls(struct.schema, values)
        for _, source in self._inserted:
            values.append(source.get_typed(record))
        return changed, Struct.of_values(changed, values)

    def _extended(self, schema: Schema) -> Schema:
        kept = [(each.name, each.schema) for each in fields_of(schema)]
        return struct_schema(kept + [(name, source.schema) for name, source in self._inserted], schema)


class _Source(NamedTuple):
    """The origin of an inserted value: its schema, and functions that get it without and with a schema."""

    schema: Schema
    get: Callable[[ConnectRecord], Any]
    get_typed: Callable[[ConnectRecord], Any]


def _source(schema: Schema, get: Callable[[ConnectRecord], Any]) -> _Source:
    return _Source(schema, get, get)


def _timestamp(record: ConnectRecord) -> datetime.datetime | None:
    return None if record.timestamp_ms is None else timestamp_of(record.timestamp_ms)


def _parse_name(text: str, source: _Source) -> tuple[str, _Source]:
    """Split the name of a new field from its suffix, which decides whether the field is optional."""
    if text.endswith("!"):
        return text[:-1], source
    return text.removesuffix("?"), source._replace(schema=source.schema.as_optional())


def _offset(record: ConnectRecord) -> int:
    if not isinstance(record, SinkRecord):
        found = f"org.apache.kafka.connect.source.{type(record).__name__}"
        raise DataError(f"Only SinkRecord supported for [{_PURPOSE}], found: {found}")
    return record.offset


class InsertFieldKey(OnKey, InsertField):
    """InsertField of keys."""


class InsertFieldValue(OnValue, InsertField):
    """InsertField of values."""
