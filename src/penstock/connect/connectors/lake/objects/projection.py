"""Values of one version of a schema as those of another (Connect's SchemaProjector)."""

from __future__ import annotations

from typing import Any

from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError


def projected(value: Any, schema: Schema) -> Any:
    """Return a value as another schema has it: it keeps the fields that are there, others get their default.

    Raises DataError if a field has no default and may not be null, or has a value of another kind.
    """
    if value is None:
        if schema.default is None and not schema.optional:
            raise DataError(f"a value is missing that {schema} needs")
        return schema.default
    if schema.type is not Type.STRUCT:
        return value
    if not isinstance(value, Struct):
        raise DataError(f"expected a struct for {schema}, found {type(value).__name__}")
    found = []
    for field in schema.fields:
        try:
            found.append(projected(value.get(field.name), field.schema))
        except DataError as error:
            raise DataError(
                f"the field {field.name!r} does not fit another version of the schema: {error}"
            ) from error
    return Struct.of_values(schema, found)
