"""The columns that records have, by their schemas and the configuration, and the values for them.

A record without a schema whose value is a map has a column for each of its keys, and the types of their
values; a key whose value is null has no type, so it can be written only to a column that exists.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from penstock.connect.connectors.sql.sink.definition import (
    KAFKA,
    KAFKA_COLUMNS,
    NONE,
    RECORD_KEY,
    SinkSettings,
)
from penstock.connect.connectors.sql.sink.refusals import RowRefused
from penstock.connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from penstock.connect.data.records import SinkRecord
from penstock.connect.data.schema import (
    INT32,
    INT64,
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Type,
)
from penstock.connect.data.struct import Struct

LAYOUTS_MAX: Final = 1000
"""Limits the layouts that are kept: maps without schemas can have any number of them."""
Values = Callable[[SinkRecord], list[Any]]

INFERRED: Final[dict[type, Schema]] = {
    bool: OPTIONAL_BOOLEAN,
    int: OPTIONAL_INT64,
    float: OPTIONAL_FLOAT64,
    str: OPTIONAL_STRING,
    bytes: OPTIONAL_BYTES,
    datetime.datetime: timestamp_schema(optional=True),
    datetime.date: date_schema(optional=True),
    datetime.time: time_schema(optional=True),
    list: Schema(Type.MAP, optional=True),
    dict: Schema(Type.MAP, optional=True),
}
"""Schemas for values without one; lists and maps are stored as JSON."""


@dataclass(frozen=True, slots=True)
class FieldOfRow:
    """A column that a record has. Without a schema its type is not known: all its values are null."""

    name: str
    schema: Schema | None

    @property
    def is_required(self) -> bool:
        """Whether the column must not be null."""
        return self.schema is not None and not self.schema.optional


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of records with the same schemas, and how their values are found."""

    keys: tuple[FieldOfRow, ...]
    others: tuple[FieldOfRow, ...]
    key_values: Values
    other_values: Values


class Layouts:
    """Finds the layout of each record; those of equal schemas are kept."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._known: dict[Any, Layout] = {}

    def layout(self, record: SinkRecord) -> Layout:
        """The layout of a record. Raises RowRefused."""
        shape = _shape(record.key_schema, record.key), _shape(record.value_schema, record.value)
        found = self._known.get(shape)
        if found is None:
            if len(self._known) >= LAYOUTS_MAX:
                self._known.clear()
            found = self._known[shape] = self._new(record)
        return found

    def _new(self, record: SinkRecord) -> Layout:
        settings = self._settings
        values = self._value_fields(record)
        key_values: Values
        match settings.key_mode:
            case mode if mode == NONE:
                keys, key_values = [], _nothing
            case mode if mode == KAFKA:
                names = settings.key_fields or KAFKA_COLUMNS
                schemas = (STRING, INT32, INT64)
                keys = [FieldOfRow(*each) for each in zip(names, schemas, strict=True)]
                key_values = _coordinates
            case mode if mode == RECORD_KEY:
                keys, key_values = self._record_key(record)
            case _:
                by_name = {field.name: field for field in values}
                keys = [_named(by_name, name, "value") for name in settings.key_fields or by_name]
                key_values = _values_of([field.name for field in keys], of_key=False)
        key_names = {field.name for field in keys}
        others = [
            field
            for field in values
            if field.name not in key_names and (not settings.whitelist or field.name in settings.whitelist)
        ]
        if not keys and not others:
            raise RowRefused("the record has no fields that become columns")
        other_values = _values_of([field.name for field in others], of_key=False)
        return Layout(tuple(keys), tuple(others), key_values, other_values if others else _nothing)

    def _value_fields(self, record: SinkRecord) -> list[FieldOfRow]:
        value = record.value
        if value is None:
            return []
        if isinstance(value, Struct):
            return [FieldOfRow(each.name, each.schema) for each in value.schema.fields]
        if isinstance(value, Mapping):
            return _fields_of_map(value)
        raise RowRefused(
            f"the value is a {type(value).__name__}; expected a struct or a map (HoistField makes one)"
        )

    def _record_key(self, record: SinkRecord) -> tuple[list[FieldOfRow], Values]:
        names, key = self._settings.key_fields, record.key
        if key is None:
            raise RowRefused("the key is null, but pk.mode is record_key")
        if isinstance(key, Struct):
            fields = {each.name: FieldOfRow(each.name, each.schema) for each in key.schema.fields}
        elif isinstance(key, Mapping):
            fields = {each.name: each for each in _fields_of_map(key)}
        elif isinstance(key, list):
            raise RowRefused("the key is an array; expected a struct, a map or a primitive value")
        elif len(names) != 1:
            raise RowRefused(
                f"the key is a primitive value, so pk.fields needs one name; it has {len(names)}"
            )
        else:
            schema = record.key_schema or _inferred(key)
            return [FieldOfRow(names[0], schema)], lambda each: [each.key]
        keys = [_named(fields, name, "key") for name in names or fields]
        return keys, _values_of([field.name for field in keys], of_key=True)


def _named(fields: Mapping[str, FieldOfRow], name: str, where: str) -> FieldOfRow:
    found = fields.get(name)
    if found is None:
        raise RowRefused(f"pk.fields names {name!r}, but the {where} has only {', '.join(fields)}")
    return found


def _shape(schema: Schema | None, value: Any) -> Any:
    """The parts of a record that its layout depends on."""
    if schema is not None:
        return schema, value is None
    if isinstance(value, Mapping):
        return tuple((name, type(each), _scale(each)) for name, each in value.items())
    return type(value)


def _scale(value: Any) -> Any:
    return value.as_tuple().exponent if isinstance(value, Decimal) else None


def _fields_of_map(value: Mapping[Any, Any]) -> list[FieldOfRow]:
    if wrong := [name for name in value if not isinstance(name, str)]:
        raise RowRefused(f"the map has the key {wrong[0]!r}; expected the name of a column")
    return [FieldOfRow(name, _inferred(each)) for name, each in value.items()]


def _inferred(value: Any) -> Schema | None:
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return decimal_schema(max(-exponent, 0) if isinstance(exponent, int) else 0, optional=True)
    return None if value is None else INFERRED.get(type(value), INFERRED[dict])


def _values_of(names: Sequence[str], *, of_key: bool) -> Values:
    """Return the values of these fields of structs or maps."""

    def values(record: SinkRecord) -> list[Any]:
        holder = record.key if of_key else record.value
        if isinstance(holder, Struct) and holder.schema is known[0]:
            found = holder.all_values() if known[2] else holder.own_values
            return [found[place] for place in known[1]]
        if isinstance(holder, Struct):
            schema = holder.schema
            known[:] = [schema, [schema.by_name[name].index for name in names], bool(schema.defaults)]
            return values(record)
        return [holder[name] for name in names]

    known: list[Any] = [None, [], False]
    return values


def _coordinates(record: SinkRecord) -> list[Any]:
    return [record.topic, record.partition, record.offset]


def _nothing(record: SinkRecord) -> list[Any]:
    return []
