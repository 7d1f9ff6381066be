"""Writes records and schemas in the form of DebeziumRecords.java, so that both can be compared."""

import datetime
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from penstock.connect.data.records import SourceRecord
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct

_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_DAY_MS = 86_400_000
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def written(record: SourceRecord) -> dict[str, Any]:
    """The record as DebeziumRecords.java prints it."""
    return {
        "topic": record.topic,
        "partition": dict(record.source_partition),
        "offset": dict(record.source_offset),
        "key_schema": schema_written(record.key_schema),
        "key": value_written(record.key),
        "value_schema": schema_written(record.value_schema),
        "value": value_written(record.value),
        "headers": [
            [each.key, [schema_written(each.schema) or "", value_written(each.value)]]
            for each in record.headers
        ],
    }


def schema_written(schema: Schema | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    parts: dict[str, Any] = {"type": schema.type.name}
    if schema.optional:
        parts["optional"] = True
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            parts[name] = getattr(schema, name)
    if schema.default is not None:
        parts["default"] = value_written(schema.default)
    if schema.parameters:
        parts["parameters"] = dict(schema.parameters)
    if schema.type is Type.STRUCT:
        parts["fields"] = [[each.name, schema_written(each.schema)] for each in schema.fields]
    if schema.type is Type.MAP:
        parts["keys"] = schema_written(schema.key_schema)
    if schema.value_schema is not None:
        parts["values"] = schema_written(schema.value_schema)
    return parts


def value_written(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name.name: value_written(value.without_default(name.name)) for name in value.schema.fields}
    if isinstance(value, list):
        return [value_written(each) for each in value]
    if isinstance(value, dict):
        return {key: value_written(each) for key, each in value.items()}
    if isinstance(value, bytes):
        return f"bytes {value.hex()}"
    if isinstance(value, float):
        return (
            value
            if math.isfinite(value)
            else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        )
    return _logical_written(value)


def _logical_written(value: Any) -> Any:
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        unscaled = int("".join(map(str, digits)))
        assert isinstance(exponent, int)
        return f"decimal {-unscaled if sign else unscaled} scale {-exponent}"
    if isinstance(value, datetime.datetime):
        return f"date {(value - _EPOCH) // datetime.timedelta(milliseconds=1)}"
    if isinstance(value, datetime.date):
        return f"date {(value - _EPOCH.date()).days * _DAY_MS}"
    if isinstance(value, datetime.time):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return f"date {seconds * 1000 + value.microsecond // 1000}"
    return value


def differences(ours: Any, theirs: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """The places where two records differ, with both texts."""
    if ours == theirs:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            yield from differences(ours.get(name, "-"), theirs.get(name, "-"), f"{place}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(left, right, f"{place}[{index}]")
    else:
        yield place, str(ours), str(theirs)
