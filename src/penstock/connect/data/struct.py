"""Values of STRUCT schemas (org.apache.kafka.connect.data.Struct)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.connect.data.schema import Field, Schema, Type
from penstock.connect.errors import DataError


class Struct:
    """The values of a STRUCT schema's fields.

    ``struct["name"]`` gives a field's value, or its default if it has none. Values are checked by
    `validation.validate_value` when a converter writes the struct, not when they are set.
    """

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        """Raise DataError if the schema is not a STRUCT, or a value's name is not one of its fields."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self[name] = value

    @classmethod
    def of_values(cls, schema: Schema, values: Iterable[Any]) -> Struct:
        """A struct whose values come in the order of the fields."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        made = cls.__new__(cls)
        made.schema = schema
        made._values = list(values)
        return made

    @property
    def own_values(self) -> Sequence[Any]:
        """The fields' own values in the order of the fields; None for those that have none."""
        return self._values

    def __getitem__(self, name: str) -> Any:
        found = self._field(name)
        value = self._values[found.index]
        return found.schema.default if value is None else value

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[self._field(name).index] = value

    def __contains__(self, name: object) -> bool:
        """Whether the schema has a field of this name."""
        return name in self.schema.by_name

    def get(self, name: str, default: Any = None) -> Any:
        """A field's value as ``struct[name]``, or ``default`` if the schema has no such field."""
        return self[name] if name in self.schema.by_name else default

    def without_default(self, name: str) -> Any:
        """A field's own value; None if it has none, whatever the default."""
        return self._values[self._field(name).index]

    def all_values(self, *, with_defaults: bool = True) -> list[Any]:
        """The fields' values in their order, or their defaults where they have none, in a new list."""
        values = list(self._values)
        if with_defaults:
            for place, default in self.schema.defaults:
                if values[place] is None:
                    values[place] = default
        return values

    def to_dict(self) -> dict[str, Any]:
        """The fields' values by name, defaults included; structs inside become dicts as well."""
        return {each.name: _plain(self[each.name]) for each in self.schema.fields}

    def _field(self, name: str) -> Field:
        found = self.schema.by_name.get(name)
        if found is None:
            raise DataError(f"{name} is not a valid field name")
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.schema == other.schema and self._values == other._values

    def __hash__(self) -> int:
        return hash((self.schema, _hashable(self._values)))

    def __repr__(self) -> str:
        shown = (f"{each.name}={self._values[each.index]!r}" for each in self.schema.fields)
        return f"Struct{{{','.join(shown)}}}"


def _hashable(value: Any) -> Any:
    """Turn lists and dicts into values that `hash` accepts; equal values stay equal."""
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((key, _hashable(each)) for key, each in value.items())
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.to_dict()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value
