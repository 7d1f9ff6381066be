"""Makes a struct of a text with JSON, with a schema by what is there (Debezium's JsonSchemaData). Pure.

Where the objects of an array have different fields, the schema has those of all objects in the order in which
they appear; Debezium's order depends on hashes.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Final

from penstock.connect.data.schema import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    Schema,
    Type,
)
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError

_INT32: Final = 2**31
_INT64: Final = 2**63


class NullFields(Enum):
    """The choices for a null in JSON: it becomes no field, or a field of optional bytes."""

    IGNORE = "ignore"
    OPTIONAL_BYTES = "optional_bytes"


def expanded(name: str, text: str, nulls: NullFields) -> tuple[Struct, Schema]:
    """The struct and its schema, whose name is ``name``.

    Raises:
        ValueError: the text is not JSON, or is no object.
        DataError: an array has elements of different types, or a number has no type.
    """
    if not text.startswith("{"):
        raise DataError(f"expected a JSON object; the payload starts with {text[:1]!r}")
    found, _ = json.JSONDecoder().raw_decode(text)
    schema = _schema(name, found, nulls)
    assert schema is not None, "an object has a schema"
    made = _value(found, schema)
    assert isinstance(made, Struct), "an object becomes a struct"
    return made, schema


def _schema(key: str | None, found: Any, nulls: NullFields) -> Schema | None:
    """The schema of a value; None if it has none, and so no field."""
    if found is None:
        return OPTIONAL_BYTES if nulls is NullFields.OPTIONAL_BYTES else None
    if isinstance(found, bool):
        return OPTIONAL_BOOLEAN
    if isinstance(found, str):
        return OPTIONAL_STRING
    if isinstance(found, int):
        if -_INT32 <= found < _INT32:
            return OPTIONAL_INT32
        return OPTIONAL_INT64 if -_INT64 <= found < _INT64 else OPTIONAL_FLOAT64
    if isinstance(found, float):
        return OPTIONAL_FLOAT64
    if isinstance(found, list):
        return Schema.array(_element(key, found, nulls), optional=True) if found else None
    fields = {}
    for name, each in found.items():
        schema = _schema(f"{key}.{name}" if key and key.strip() else name, each, nulls)
        if schema is not None:
            fields[name] = schema
    return Schema.struct(fields, name=key, optional=True)


def _element(key: str | None, found: list[Any], nulls: NullFields) -> Schema:
    sample = _sample(found, nulls)
    if isinstance(sample, dict):
        fields: dict[str, Schema] = {}
        for each in found:
            made = _schema(key, each, nulls) if isinstance(each, dict) else None
            for field in made.fields if made is not None else ():
                known = fields.get(field.name)
                if known is None or (known.type is Type.BYTES and field.schema.type is not Type.BYTES):
                    fields[field.name] = field.schema
        return Schema.struct(fields, name=key, optional=True)
    schema = _schema(None, sample, nulls)
    if schema is None:
        raise DataError("an array has only elements without a schema")
    return schema


def _sample(found: list[Any], nulls: NullFields) -> Any:
    """The first element that is not null, if all others have its type."""
    sample = None
    for each in found:
        if each is None:
            continue
        if sample is None:
            sample = each
        is_same = _kind(each) == _kind(sample)
        if is_same and _kind(each) == "number":
            is_same = _schema(None, each, nulls) == _schema(None, sample, nulls)
        if not is_same:
            raise DataError(f"Field is not a homogenous array ({sample!r} x {each!r})")
    return sample


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _value(found: Any, schema: Schema) -> Any:
    if isinstance(found, dict):
        values = {
            each.name: _value(found[each.name], each.schema) for each in schema.fields if each.name in found
        }
        return Struct(schema, values)
    if isinstance(found, list):
        if schema.value_schema is None:
            raise DataError("an array meets a schema of another type")
        return [_value(each, schema.value_schema) for each in found]
    if isinstance(found, int) and not isinstance(found, bool) and schema.type is Type.FLOAT64:
        raise DataError(f"the number {found} has no type")
    return found
