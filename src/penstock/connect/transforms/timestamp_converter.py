"""TimestampConverter: gives a key, a value or a field another form of a timestamp."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.connect.data.logical import (
    DATE_NAME,
    MS_PER_DAY,
    TIME_NAME,
    TIMESTAMP_NAME,
    date_of,
    date_schema,
    time_of,
    time_schema,
    timestamp_of,
    timestamp_schema,
)
from penstock.connect.data.records import ConnectRecord
from penstock.connect.data.schema import INT64, STRING, Field, Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.data.values import temporal_millis
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import ValidString
from penstock.connect.errors import ConfigInvalid, ConnectError, DataError
from penstock.connect.transforms.fields.part import (
    OnKey,
    OnValue,
    PartTransform,
    filled,
    java_class,
    require_dict,
    require_struct,
)
from penstock.connect.transforms.fields.schemas import SchemaCache, fields_of, struct_schema
from penstock.connect.transforms.fields.settings import REPLACE_NULL, define_replace_null
from penstock.java.dates import SimpleDateFormat

_PURPOSE: Final = "converting timestamp formats"
_SCHEMAS: Final = {
    "string": STRING,
    "unix": INT64,
    "Date": date_schema(),
    "Time": time_schema(),
    "Timestamp": timestamp_schema(),
}
"""The forms of timestamps, and their schemas."""
_PER_MS: Final = {"nanoseconds": 1_000_000, "microseconds": 1000, "milliseconds": 1}
_MS_PER_SECOND: Final = 1000
_LONG: Final = 1 << 63

_Convert = Callable[[Any], Any]


class TimestampConverter(PartTransform):
    """Converts between text, numbers since 1970, and Connect's Date, Time and Timestamp."""

    definition = define_replace_null(
        ConfigDef()
        .define(
            "field",
            ConfigType.STRING,
            "",
            importance=Importance.HIGH,
            doc="The field with the timestamp; empty if the whole key or value is one.",
        )
        .define(
            "target.type",
            ConfigType.STRING,
            validator=ValidString(*_SCHEMAS),
            importance=Importance.HIGH,
            doc="The new form: string, unix, Date, Time or Timestamp.",
        )
        .define(
            "format",
            ConfigType.STRING,
            "",
            doc="The pattern, for Java's <code>SimpleDateFormat</code>, of timestamps that are text.",
        )
        .define(
            "unix.precision",
            ConfigType.STRING,
            "milliseconds",
            ValidString("nanoseconds", "microseconds", "milliseconds", "seconds"),
            Importance.LOW,
            "The unit of numbers since 1970. Parts of milliseconds are lost.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._field: str = config["field"]
        self._target: str = config["target.type"]
        self._unit: str = config["unix.precision"]
        self._with_defaults = config[REPLACE_NULL]
        self._format = _date_format(config["format"], self._target)
        self._plans = SchemaCache(self._plan)
        self._readers: dict[str, Callable[[Any], int]] = {
            "string": self._parse,
            "unix": lambda value: _millis(value, self._unit),
        }
        self._writers: dict[str, Callable[[int], Any]] = {
            "string": self._text,
            "unix": lambda millis: _since_1970(millis, self._unit),
            "Date": lambda millis: date_of(millis // MS_PER_DAY),
            "Time": lambda millis: time_of(millis % MS_PER_DAY),
            "Timestamp": timestamp_of,
        }

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        if schema is None:
            return None, self._without_schema(value)
        if not self._field:
            form = _form(schema)
            target = _SCHEMAS[self._target]
            changed = target.as_optional() if schema.optional else target
            return changed, None if value is None else self._convert(value, form)
        if value is not None:
            require_struct(value, schema, _PURPOSE)
        changed, field = self._plans.get(schema)
        return changed, None if value is None else self._struct(value, changed, field)

    def _without_schema(self, value: Any) -> Any:
        if value is None:
            return None
        if not self._field:
            return self._convert(value, _form_without_schema(value))
        changed = dict(require_dict(value, _PURPOSE))
        each = changed.get(self._field)
        changed[self._field] = None if each is None else self._convert(each, _form_without_schema(each))
        return changed

    def _plan(self, schema: Schema) -> tuple[Schema, Field | None]:
        """Return the changed schema, and the field to convert, if there is one."""
        fields = []
        for field in fields_of(schema):
            inner = field.schema
            if field.name == self._field:
                inner = replace(_SCHEMAS[self._target], optional=inner.optional)
            fields.append((field.name, inner))
        converted = schema.field(self._field)
        changed = replace(struct_schema(fields, schema), optional=schema.optional)
        if schema.default is not None:
            changed = replace(changed, default=self._struct(schema.default, changed, converted))
        return changed, converted

    def _struct(self, struct: Struct, changed: Schema, field: Field | None) -> Struct:
        values = struct.all_values(with_defaults=self._with_defaults)
        if field is not None:
            form = _form(field.schema)
            if (value := values[field.index]) is not None:
                values[field.index] = self._convert(value, form)
        return filled(changed, values)

    def _convert(self, value: Any, form: str) -> Any:
        read = self._readers.get(form, temporal_millis)
        return self._writers[self._target](read(value))

    def _parse(self, text: str) -> int:
        if self._format is None:
            raise DataError(f"Could not parse timestamp: value ({text}) needs the setting format")
        millis = self._format.parse(text)
        if millis is None:
            raise DataError(
                f"Could not parse timestamp: value ({text}) does not match pattern ({self._format.pattern})"
            )
        return millis

    def _text(self, millis: int) -> str:
        assert self._format is not None, "the target string needs a format"
        return self._format.format(millis)


def _date_format(pattern: str, target: str) -> SimpleDateFormat | None:
    if not pattern.strip():
        if target == "string":
            raise ConfigInvalid(
                "TimestampConverter requires format option to be specified when using string timestamps"
            )
        return None
    try:
        return SimpleDateFormat(pattern)
    except ValueError as error:
        raise ConfigInvalid(
            "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: "
            f"{pattern}"
        ) from error


def _form(schema: Schema) -> str:
    """Return the form of the timestamps with a schema. Raises ConnectError if they are none."""
    match schema.name, schema.type:
        case str(name), _ if name == TIMESTAMP_NAME:
            return "Timestamp"
        case str(name), _ if name == DATE_NAME:
            return "Date"
        case str(name), _ if name == TIME_NAME:
            return "Time"
        case _, Type.STRING:
            return "string"
        case _, Type.INT64:
            return "unix"
    raise ConnectError(f"Schema {schema} does not correspond to a known timestamp type format")


def _form_without_schema(value: Any) -> str:
    """Return the form of a timestamp without a schema. Raises DataError if it is none."""
    match value:
        case bool():
            pass
        case int():
            return "unix"
        case str():
            return "string"
        case datetime.date() | datetime.time():
            return "Timestamp"
    raise DataError(f"TimestampConverter does not support class {java_class(value)} objects as timestamps")


def _millis(value: int, unit: str) -> int:
    """Convert a number since 1970 to milliseconds, without their parts."""
    if unit == "seconds":
        return _saturated(value * _MS_PER_SECOND)
    return _toward_zero(value, _PER_MS[unit])


def _since_1970(millis: int, unit: str) -> int:
    if unit == "seconds":
        return _toward_zero(millis, _MS_PER_SECOND)
    return _saturated(millis * _PER_MS[unit])


def _toward_zero(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def _saturated(value: int) -> int:
    """Limit a number to 64 bits, as Java's TimeUnit does."""
    return max(-_LONG, min(_LONG - 1, value))


class TimestampConverterKey(OnKey, TimestampConverter):
    """TimestampConverter of keys."""


class TimestampConverterValue(OnValue, TimestampConverter):
    """TimestampConverter of values."""
