"""Schemas of Kafka Connect (org.apache.kafka.connect.data.Schema), as immutable values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

from penstock.connect.errors import DataError


class Type(Enum):
    """The types of schemas. The value is the name in JSON schemas; `name` is the one in messages."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        """Whether values of this type contain no other values."""
        return self not in (Type.ARRAY, Type.MAP, Type.STRUCT)


@dataclass(frozen=True)
class Field:
    """A field of a STRUCT schema; `index` is its place among the fields, from 0."""

    name: str
    index: int
    schema: Schema


@dataclass(frozen=True)
class Schema:
    """The type of a value, and what else Connect says of it. Two schemas are equal if all their parts are.

    `default` is used for a field that has no value; None means that there is none. `name` marks logical types
    and structs; `parameters` belong to the name. Only the types ARRAY, MAP and STRUCT have parts:
    `value_schema`, `key_schema` and `fields`.
    """

    type: Type
    optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None

    @staticmethod
    def struct(fields: Mapping[str, Schema], **more: Any) -> Schema:
        """A STRUCT with these fields, in this order. ``more`` is any other part, such as its name."""
        made = tuple(Field(name, index, schema) for index, (name, schema) in enumerate(fields.items()))
        return Schema(Type.STRUCT, fields=made, **more)

    @staticmethod
    def array(value_schema: Schema, **more: Any) -> Schema:
        """An ARRAY of values with one schema."""
        return Schema(Type.ARRAY, value_schema=value_schema, **more)

    @staticmethod
    def map(key_schema: Schema, value_schema: Schema, **more: Any) -> Schema:
        """A MAP from keys with one schema to values with another."""
        return Schema(Type.MAP, key_schema=key_schema, value_schema=value_schema, **more)

    def as_optional(self) -> Schema:
        """The same schema for values that may be None."""
        return self if self.optional else replace(self, optional=True)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return self._hash == other._hash and self._parts() == other._parts()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept, because converters look up each record's schema."""
        return hash(
            (self.type, self.optional, self.name, self.version, self.doc, self.fields, *self._inner())
        )

    def _parts(self) -> tuple[Any, ...]:
        own = (self.type, self.optional, self.default, self.name, self.version, self.doc, self.parameters)
        return (*own, self.fields, *self._inner())

    def _inner(self) -> tuple[Schema | None, Schema | None]:
        return self.key_schema, self.value_schema

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the hash: strings hash differently in another process."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """The fields by their names."""
        return {each.name: each for each in self.fields}

    @cached_property
    def defaults(self) -> Sequence[tuple[int, Any]]:
        """The places of the fields that have a default, with it."""
        return [(each.index, each.schema.default) for each in self.fields if each.schema.default is not None]

    @cached_property
    def required(self) -> Sequence[Field]:
        """The fields that need a value, if only their default."""
        return [each for each in self.fields if not each.schema.optional]

    def field(self, name: str) -> Field | None:
        """The field of this name, if there is one. Raises DataError if this is not a STRUCT."""
        if self.type is not Type.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self.by_name.get(name)

    def __str__(self) -> str:
        return f"Schema{{{self.name}:{self.type.name}}}" if self.name else f"Schema{{{self.type.name}}}"


INT8 = Schema(Type.INT8)
INT16 = Schema(Type.INT16)
INT32 = Schema(Type.INT32)
INT64 = Schema(Type.INT64)
FLOAT32 = Schema(Type.FLOAT32)
FLOAT64 = Schema(Type.FLOAT64)
BOOLEAN = Schema(Type.BOOLEAN)
STRING = Schema(Type.STRING)
BYTES = Schema(Type.BYTES)
OPTIONAL_INT8 = INT8.as_optional()
OPTIONAL_INT16 = INT16.as_optional()
OPTIONAL_INT32 = INT32.as_optional()
OPTIONAL_INT64 = INT64.as_optional()
OPTIONAL_FLOAT32 = FLOAT32.as_optional()
OPTIONAL_FLOAT64 = FLOAT64.as_optional()
OPTIONAL_BOOLEAN = BOOLEAN.as_optional()
OPTIONAL_STRING = STRING.as_optional()
OPTIONAL_BYTES = BYTES.as_optional()
