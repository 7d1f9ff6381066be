"""A type of values: its schema, the function that reads PostgreSQL's text, and the value in place of null."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct


@dataclass(frozen=True, slots=True)
class ValueType:
    """A schema of values that are not null; `fallback` stands for null in a column that may not be null."""

    schema: Schema
    convert: Callable[[str], Any]
    fallback: Any


def bound(convert: Callable[[str], Any], schema: Schema) -> Callable[[str], Any]:
    """The function for a field with this schema: a struct has to have its field's schema, optional or not."""
    if schema.type is not Type.STRUCT:
        return convert

    def bound_convert(text: str) -> Struct:
        made = convert(text)
        return Struct.of_values(schema, [made.without_default(each.name) for each in schema.fields])

    return bound_convert


def is_true(text: str) -> bool:
    """Whether the text of a boolean is true."""
    return text == "t"


def named(kind: Type, name: str, parameters: Mapping[str, str] | None = None) -> Schema:
    """A schema of one of Debezium's logical types; all have version 1."""
    return Schema(kind, name=name, version=1, parameters=parameters)


def strings(name: str | None = None, parameters: Mapping[str, str] | None = None) -> ValueType:
    """Texts as they are, of a logical type if it has a name."""
    schema = named(Type.STRING, name, parameters) if name else Schema(Type.STRING)
    return ValueType(schema, str, "")
