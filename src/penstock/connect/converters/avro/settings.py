"""How schemas are translated between Connect and Avro, and the attributes for what Avro has no place for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from penstock.connect.data.schema import Schema, Type

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
KEY: Final = "key"
VALUE: Final = "value"

NAME: Final = "connect.name"
DOC: Final = "connect.doc"
VERSION: Final = "connect.version"
DEFAULT: Final = "connect.default"
PARAMETERS: Final = "connect.parameters"
INTERNAL_TYPE: Final = "connect.internal.type"
TYPE: Final = "connect.type"
FIXED_SIZE: Final = "connect.fixed.size"
PRECISION: Final = "connect.decimal.precision"
RECORD_DOC_ONLY: Final = "connect.record.doc"
ENUM_DOC_ONLY: Final = "connect.enum.doc"

RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
ANYTHING: Final = f"{NAMESPACE}.Anything"

AVRO_PREFIX: Final = "avro"
"""Parameters and attributes whose names begin with it are the same in both schemas."""
PRECISION_DEFAULT: Final = 64
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_]")
AVRO_KINDS: Final = {
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroSettings:
    """The properties of an Avro converter that decide how schemas and nulls are translated."""

    enhanced: bool = False
    """Whether enums stay enums, and members of unions are named with their namespaces."""
    has_metadata: bool = True
    """Whether the ``connect.*`` attributes are written and read."""
    ignores_defaults: bool = False
    """Whether a null stays null although the field has a default."""
    optional_map_keys: bool = False
    """Whether maps whose keys are optional strings become Avro's maps."""
    flattens_unions: bool = True
    """Whether a union with one member is read as the member."""
    scrubs_names: bool = False
    """Whether characters that Avro forbids in names are replaced."""
    only_docs_and_defaults: bool = False
    """Whether of docs and defaults only those of Avro's fields are kept (``discard.type.doc.default``)."""

    def is_avro_map(self, schema: Schema) -> bool:
        """Whether a MAP schema becomes a map in Avro, which has only strings as keys."""
        keys = schema.key_schema
        if keys is None or keys.type is not Type.STRING:
            return False
        return not keys.optional or self.optional_map_keys


def scrubbed(name: str) -> str:
    """Return a name that Avro accepts: other characters are encoded as in URLs, with underscores."""
    encoded = quote_plus(name, safe="*").replace("~", "%7E")
    return ("x" if encoded[:1].isdigit() else "") + _FORBIDDEN.sub("_", encoded)


def parameter(schema: Schema, name: str) -> str | None:
    """Return a parameter of a schema, if it has one of this name."""
    return None if schema.parameters is None else schema.parameters.get(name)


def is_union(schema: Schema) -> bool:
    """Whether a STRUCT stands for a union, of which one field has a value."""
    return schema.name == UNION


def is_fixed(schema: Schema) -> bool:
    """Whether a BYTES schema stands for a fixed."""
    named = schema.type is Type.BYTES and schema.name is not None
    return named and parameter(schema, FIXED_SIZE) is not None
