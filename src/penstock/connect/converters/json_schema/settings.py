"""How schemas are translated between Connect and JSON Schema, and the keywords that Connect adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.connect.data.schema import Schema, Type

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
UNION: Final = f"{NAMESPACE}.OneOf"
UNION_FIELD: Final = f"{UNION}.field."
NULL: Final = "<NULL>"
"""The symbol of an enum that stands for null."""
KEY: Final = "key"
VALUE: Final = "value"
TYPE: Final = "connect.type"
INDEX: Final = "connect.index"
VERSION: Final = "connect.version"
PARAMETERS: Final = "connect.parameters"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchemaSettings:
    """The properties of a converter that decide how schemas are translated."""

    additional_properties: bool = True
    """Whether objects may have properties that their schema does not name."""
    optional_unless_required: bool = False
    """Whether a property that is not required is optional."""
    decimals_are_numbers: bool = False
    flattens_unions: bool = True
    """Whether a union with one member is read as the member."""


def is_union(schema: Schema) -> bool:
    """Whether a STRUCT stands for a union, of which one field has a value."""
    return schema.type is Type.STRUCT and schema.name == UNION


def is_object_map(schema: Schema) -> bool:
    """Whether a MAP schema becomes an object, whose names are strings."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and not keys.optional
