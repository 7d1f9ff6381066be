"""Schemas built from others, and a cache of what a transform derived from each schema."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from penstock.connect.data.schema import Field, Schema, Type
from penstock.connect.data.validation import validate_value
from penstock.connect.errors import DataError

T = TypeVar("T")

SCHEMAS_MAX: Final = 16
"""Schemas that a transform keeps, as in Kafka. A topic has few at a time."""
OBJECTS_MAX: Final = 64
"""Objects that are found without comparing schemas. A converter may make equal schemas more than once."""


class SchemaCache(Generic[T]):
    """The values that a transform derived from the schemas of its records, such as a changed schema.

    Records of a task mostly share the object of their schema, so it is looked up by identity first. Comparing
    all its fields would take longer than most transforms.
    """

    def __init__(self, derive: Callable[[Schema], T]) -> None:
        """Derive values by a function that may raise; then nothing is kept."""
        self._derive = derive
        self._by_identity: dict[int, tuple[Schema, T]] = {}  # the schema is kept so that no other has its id
        self._by_equality: OrderedDict[Schema, T] = OrderedDict()

    def get(self, schema: Schema) -> T:
        """Return what was derived from this schema or an equal one."""
        found = self._by_identity.get(id(schema))
        return self._find(schema) if found is None else found[1]

    def _find(self, schema: Schema) -> T:
        if schema in self._by_equality:
            self._by_equality.move_to_end(schema)
        else:
            self._by_equality[schema] = self._derive(schema)
            if len(self._by_equality) > SCHEMAS_MAX:
                self._by_equality.popitem(last=False)
        if len(self._by_identity) >= OBJECTS_MAX:
            self._by_identity.clear()
        derived = self._by_equality[schema]
        self._by_identity[id(schema)] = schema, derived
        return derived


def struct_schema(fields: Iterable[tuple[str, Schema]], like: Schema | None = None) -> Schema:
    """Build a STRUCT schema with these fields and the name, version, doc and parameters of another.

    The other's own default is left out, and so is whether it is optional.

    Raises:
        DataError: two fields have one name.
    """
    made: dict[str, Schema] = {}
    for name, schema in fields:
        if name in made:
            raise duplicate_field(name)
        made[name] = schema
    return Schema.struct(made, **({} if like is None else basics(like)))


def duplicate_field(name: str) -> DataError:
    """Return the error for two fields with one name."""
    return DataError(f"Cannot create field because of field name duplication {name}")


def basics(schema: Schema) -> dict[str, Any]:
    """The parts that a changed schema keeps, whatever its type (SchemaUtil.copySchemaBasics)."""
    return {
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": schema.parameters,
    }


def fields_of(schema: Schema) -> tuple[Field, ...]:
    """The fields of a STRUCT schema. Raises DataError for any other."""
    if schema.type is not Type.STRUCT:
        raise DataError("Cannot list fields on non-struct type")
    return schema.fields


def check_default(schema: Schema) -> Schema:
    """Return the schema if its default fits it, or raise DataError."""
    if schema.default is not None:
        try:
            validate_value(schema, schema.default)
        except DataError as error:
            raise DataError("Invalid default value") from error
    return schema
