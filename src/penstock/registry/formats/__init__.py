"""Parse, print and compare schemas of the registry's three formats, without any files, sockets or clocks.

`parse(format, text, references, find)` returns a `Schema`, or raises a `SchemaError` that says what was
found, what was expected and where. A schema can give its text as the registry stores it (`canonical`), its
normal form (`normalized`), other printed forms (`formatted`), a key that equal schemas share (`identity`),
and the reasons why it can't read data of another schema (`incompatibilities`). `levels.check` turns these
reasons into the verdict of BACKWARD, FORWARD, FULL, their transitive forms, or NONE, with the messages that
`verbose=true` shows.

The caller passes a function that finds references: it returns the text of a subject and version, or None.
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

# The default maximum of a record in `_schemas` (max.message.bytes). An operator who raises the topic's limit
# must raise this one too.
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
    """Parse the text of a schema. Raises SchemaError if it is invalid.

    ``is_new`` enforces the rules for schemas that are being registered (Avro's names and defaults), which a
    stored schema may violate. ``bytes_max`` limits the text and everything it refers to together.
    """
    parser = FORMATS.get(format)
    if parser is None:
        raise SchemaError(f"schema type {format!r} is not supported, expected one of {', '.join(FORMATS)}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise SchemaError(
            f"the schema is not valid Unicode: half a surrogate pair at position {error.start}"
        ) from None
    if size > bytes_max:
        raise SchemaError(f"the schema has {size} bytes, expected at most {bytes_max}")
    if not text.strip():
        raise SchemaError("the schema is empty")
    resolved = resolution.resolve(references, find, bytes_max - size)
    with bounded():
        return parser(text, tuple(references), resolved, is_new=is_new)
