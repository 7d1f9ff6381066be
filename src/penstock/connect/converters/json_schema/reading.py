"""Reads values as Confluent's JsonSchemaConverter does, where that differs from JsonConverter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from penstock.connect.converters.json.reading import Read, Reading
from penstock.connect.converters.json_schema.settings import KEY, VALUE, is_object_map, is_union
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

_ABSENT: Final = object()
_CLASSES: Final[dict[Type, tuple[type, ...]]] = {
    Type.INT8: (int,),
    Type.INT16: (int,),
    Type.INT32: (int,),
    Type.INT64: (int,),
    Type.FLOAT32: (int, float, Decimal),
    Type.FLOAT64: (int, float, Decimal),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (Decimal,),
    Type.ARRAY: (list,),
    Type.MAP: (dict, list),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReading(Reading):
    """The settings of a converter for reading values.

    A property may be missing although it is required, and a map whose keys are not strings is an array of
    objects.
    """

    def _struct(self, schema: Schema) -> Read:
        if is_union(schema):
            return self._union(schema)
        inner = replace(self, refuses_nulls=True)
        fields = [(each.name, each.schema.default, inner.reader(each.schema)) for each in schema.fields]

        def read(value: Any) -> Struct:
            if value.__class__ is not dict:
                raise DataError(f"Structs should be encoded as JSON objects, but found {value!r}")
            values = []
            for name, default, read_field in fields:
                found = value.get(name, _ABSENT)
                values.append(default if found is _ABSENT else read_field(found))
            return Struct.of_values(schema, values)

        return read

    def _map(self, schema: Schema) -> Read:
        if is_object_map(schema):
            return Reading._map(self, schema)
        read_key, read_value = self.reader(schema.key_schema), self.reader(schema.value_schema)

        def read(value: Any) -> dict[Any, Any]:
            if value.__class__ is not list:
                raise DataError(f"Maps with other keys should be encoded as JSON arrays, but found {value!r}")
            found = {}
            for entry in value:
                if entry.__class__ is not dict or entry.keys() != {KEY, VALUE}:
                    raise DataError(f"Found invalid map entry {entry!r}, expected an object of key and value")
                key = read_key(entry[KEY])
                if isinstance(key, list | dict):
                    raise DataError(f"{key!r} cannot be the key of a map in Python")
                found[key] = read_value(entry[VALUE])
            return found

        return read

    def _union(self, schema: Schema) -> Read:
        readers = [self.reader(each.schema) for each in schema.fields]

        def read(value: Any) -> Struct:
            at = _member(schema, value)
            values = [None] * len(readers)
            values[at] = readers[at](value)
            return Struct.of_values(schema, values)

        return read


def _member(schema: Schema, value: Any) -> int:
    """Return the place of the first member of a union that takes a value; of structs, the most similar."""
    best, matches_of_best = -1, 0
    for each in schema.fields:
        classes = _CLASSES.get(each.schema.type, ())
        if isinstance(value, classes) and (not isinstance(value, bool) or bool in classes):
            return each.index
        matches = _matches(each.schema, value)
        if matches > matches_of_best:
            best, matches_of_best = each.index, matches
    if best < 0:
        raise DataError(f"Did not find matching oneof field for data {value!r}")
    return best


def _matches(schema: Schema, value: Any) -> int:
    """Count the properties of an object, and of the objects inside, that a struct has as fields."""
    if schema.type is not Type.STRUCT or not isinstance(value, dict):
        return 0
    found = [each for each in schema.fields if each.name in value]
    return len(found) + sum(_matches(each.schema, value[each.name]) for each in found)
