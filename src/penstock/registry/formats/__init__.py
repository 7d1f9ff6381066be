"""What a schema says, for the three formats of the registry. Nothing here reads a file, a socket or a
clock.

`parse(format, text, references, find)` gives a `Schema`, or raises a `SchemaError` that names what was
found, what was expected and where. A schema knows its text as the registry stores it (`canonical`), its
normal form (`normalized`), other ways to print it (`formatted`), whether another one is the same
(`identity`), and what it can't read of what another one wrote (`incompatibilities`). `levels.check` turns
that into the verdict of BACKWARD, FORWARD, FULL, their transitive forms, or NONE, in the messages that
`verbose=true` shows.

References are found by the function that is passed in: the text of subject and version, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from penstock.registry.formats import references as resolution
from penstock.registry.formats.avro.schema import AvroSchema
from penstock.registry.formats.errors import SchemaError, bounded
from penstock.registry.formats.json_schema.schema import JsonSchema
from penstock.registry.formats.protobuf.schema import ProtobufSchema
from penstock.registry.formats.references import Find, Reference
from penstock.registry.formats.schema import Schema

__all__ = ["FORMATS", "Find", "Reference", "Schema", "SchemaError", "parse"]

# What a record of `_schemas` may hold by default (max.message.bytes). An operator who raises that raises
# this.
SCHEMA_BYTES_MAX: Final = 1_048_576

_Parser = Callable[..., Schema]
FORMATS: Final[dict[str, _Parser]] = {
    AvroSchema.format: AvroSchema.parse,
    JsonSchema.format: JsonSchema.parse,
    ProtobufSchema.format: ProtobufSchema.parse,
}


def parse(
    format: str,
    text: str,
    references: Sequence[Reference] = (),
    find: Find | None = None,
    *,
    is_new: bool = True,
    bytes_max: int = SCHEMA_BYTES_MAX,
) -> Schema:
    """The schema of a text. ``is_new`` asks for what a schema must keep to register it (Avro's names and
    defaults), which one that is stored already may not. ``bytes_max`` holds for the text and all it refers
    to together.
    """
    parser = FORMATS.get(format)
    if parser is None:
        raise SchemaError(f"schema type {format!r} is not supported, expected one of {', '.join(FORMATS)}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise SchemaError(
            f"the schema is no Unicode text: half a surrogate pair at position {error.start}"
        ) from None
    if size > bytes_max:
        raise SchemaError(f"the schema has {size} bytes, expected at most {bytes_max}")
    if not text.strip():
        raise SchemaError("the schema is empty")
    resolved = resolution.resolve(references, find, bytes_max - size)
    with bounded():
        return parser(text, tuple(references), resolved, is_new=is_new)
