"""ReplaceField: leaves out fields of a key or value, or renames them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.connect.data.records import ConnectRecord
from penstock.connect.data.schema import Field, Schema
from penstock.connect.data.struct import Struct
from penstock.connect.data.validation import validate_struct
from penstock.connect.definitions.config_def import ConfigDef, ConfigType
from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import DescribedValidator, ValidList
from penstock.connect.errors import DataError
from penstock.connect.transforms.fields.part import (
    OnKey,
    OnValue,
    PartTransform,
    filled,
    java_class,
    require_dict,
    require_struct,
)
from penstock.connect.transforms.fields.schemas import SchemaCache, fields_of, struct_schema
from penstock.connect.transforms.fields.settings import REPLACE_NULL, define_replace_null

_PURPOSE: Final = "field replacement"


def parse_renames(pairs: list[str]) -> dict[str, str]:
    """Parse pairs such as ``old:new``.

    Raises:
        ConfigInvalid: one of them is no pair.
    """
    renames = {}
    for pair in pairs:
        parts = java_split(pair)
        if len(parts) != 2:
            raise invalid("renames", pairs, f"Invalid rename mapping: {pair}")
        renames[parts[0]] = parts[1]
    return renames


def java_split(pair: str) -> list[str]:
    """Split at colons as Java's String.split does, which leaves out empty texts at the end."""
    parts = pair.split(":")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if pair.strip(":") or not pair else []


def _check_renames(_name: str, pairs: list[str]) -> None:
    parse_renames(pairs)


class ReplaceField(PartTransform):
    """Leaves out fields, or renames them. Fields to leave out take precedence over fields to keep."""

    definition = define_replace_null(
        ConfigDef()
        .define("exclude", ConfigType.LIST, [], ValidList(), doc="Fields to leave out.")
        .define("include", ConfigType.LIST, [], ValidList(), doc="The only fields to keep; empty keeps all.")
        .define(
            "renames",
            ConfigType.LIST,
            [],
            DescribedValidator(
                _check_renames,
                "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>",
            ),
            doc="New names of fields, as pairs such as <code>old:new</code>.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._excluded = frozenset(config["exclude"])
        self._included = frozenset(config["include"])
        self._renames = parse_renames(config["renames"])
        self._originals = {new: old for old, new in self._renames.items()}
        self._with_defaults = config[REPLACE_NULL]
        self._plans = SchemaCache(self._plan)

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, value
        if schema is None:
            old = require_dict(value, _PURPOSE)
            return None, {self._renamed(name): each for name, each in old.items() if self._kept(name)}
        struct = require_struct(value, schema, _PURPOSE)
        changed, places, others = self._plans.get(struct.schema)
        values = struct.all_values(with_defaults=self._with_defaults)
        replaced = filled(changed, [values[place] for place in places])
        if others:
            _check_others(replaced, others)
        return changed, replaced

    def _kept(self, name: str) -> bool:
        return name not in self._excluded and (not self._included or name in self._included)

    def _renamed(self, name: str) -> str:
        return self._renames.get(name, name)

    def _plan(self, schema: Schema) -> tuple[Schema, list[int], list[tuple[Field, Schema]]]:
        """Return the changed schema, and the places of its values in the struct.

        As in Kafka, a field has the value of the one that is renamed to it, even if that one is left out.
        Such fields come last if the schemas differ, each with that of its value.
        """
        kept = [
            (self._renamed(each.name), each.schema) for each in fields_of(schema) if self._kept(each.name)
        ]
        changed = struct_schema(kept, schema)
        places = []
        others = []
        for new in changed.fields:
            original = self._originals.get(new.name, new.name)
            if (field := schema.field(original)) is None:
                raise DataError(f"{original} is not a valid field name")
            places.append(field.index)
            if field.schema != new.schema:
                others.append((new, field.schema))
        return changed, places, others


def _check_others(struct: Struct, others: list[tuple[Field, Schema]]) -> None:
    """Raise DataError if a value with another schema than its field's does not fit."""
    for field, schema in others:
        value = struct.without_default(field.name)
        if value is not None and schema.type is not field.schema.type:
            raise DataError(
                f"Invalid Java object for schema with type {field.schema.type.name}: class "
                f'{java_class(value, schema)} for field: "{field.name}"'
            )
    validate_struct(struct)


class ReplaceFieldKey(OnKey, ReplaceField):
    """ReplaceField of keys."""


class ReplaceFieldValue(OnValue, ReplaceField):
    """ReplaceField of values."""
