"""Cast: gives fields, or a whole key or value, another primitive type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.connect.data.records import ConnectRecord
from penstock.connect.data.schema import Schema, Type
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.config_types import SPACE, invalid
from penstock.connect.definitions.validators import DescribedValidator
from penstock.connect.errors import ConfigInvalid
from penstock.connect.transforms.fields.casting import (
    OUTPUT_TYPES,
    Caster,
    cast_without_schema,
    caster,
    names_of,
)
from penstock.connect.transforms.fields.part import (
    OnKey,
    OnValue,
    PartTransform,
    filled,
    require_dict,
    require_struct,
)
from penstock.connect.transforms.fields.replace_field import java_split
from penstock.connect.transforms.fields.schemas import (
    SchemaCache,
    basics,
    check_default,
    fields_of,
    struct_schema,
)
from penstock.connect.transforms.fields.settings import REPLACE_NULL, define_replace_null

_PURPOSE: Final = "cast types"


def parse_spec(pairs: list[str]) -> Type | dict[str, Type]:
    """Parse pairs such as ``field:int8``, or a single type for the whole key or value.

    Raises:
        ConfigInvalid: a type is not one to which values can be cast, or there is more than a single type.
    """
    if not pairs:
        raise ConfigInvalid("Must specify at least one field to cast.")
    whole: Type | None = None
    types: dict[str, Type] = {}
    for pair in pairs:
        match java_split(pair):
            case [type_]:
                whole = _parse_type(type_)
            case [name, type_]:
                types[name.strip(SPACE)] = _parse_type(type_)
            case _:
                # As in Kafka, whose text comes from ReplaceField.
                raise invalid("renames", pairs, f"Invalid rename mapping: {pair}")
    if whole is None:
        return types
    if len(pairs) > 1:
        raise ConfigInvalid(
            "Cast transformations that specify a type to cast the entire value to may only specify a single "
            "cast in their spec"
        )
    return whole


def _parse_type(text: str) -> Type:
    name = text.strip(SPACE)
    try:
        found = Type[name.upper()]
    except KeyError:
        raise ConfigInvalid(f"Invalid type found in casting spec: {name}") from None
    if found not in OUTPUT_TYPES:
        raise ConfigInvalid(
            f"Cast transformation does not support casting to {found.name}; supported types are "
            f"{names_of(OUTPUT_TYPES)}"
        )
    return found


def _check_spec(_name: str, pairs: list[str]) -> None:
    parse_spec(pairs)


class Cast(PartTransform):
    """Casts fields, or a whole key or value, to a primitive type; bytes become text in base 64 only."""

    definition = define_replace_null(
        ConfigDef().define(
            "spec",
            ConfigType.LIST,
            validator=DescribedValidator(
                _check_spec, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
            ),
            importance=Importance.HIGH,
            doc="Fields and their new types as pairs such as <code>field1:int8,field2:string</code>, or a "
            "single type for the whole key or value. The types are int8, int16, int32, int64, float32, "
            "float64, boolean and string.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        spec = parse_spec(config["spec"])
        self._whole = spec if isinstance(spec, Type) else None
        self._types = spec if isinstance(spec, dict) else {}
        self._with_defaults = config[REPLACE_NULL]
        self._whole_plans = SchemaCache(self._plan_whole)
        self._plans = SchemaCache(self._plan)

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, value
        if schema is None:
            return None, self._cast_without_schema(value)
        if self._whole is not None:
            changed, cast = self._whole_plans.get(schema)
            return changed, cast(value)
        changed, casts = self._plans.get(schema)
        values = require_struct(value, schema, _PURPOSE).all_values(with_defaults=self._with_defaults)
        for place, cast in casts:
            if (each := values[place]) is not None:
                values[place] = cast(each)
        return changed, filled(changed, values)

    def _cast_without_schema(self, value: Any) -> Any:
        if self._whole is not None:
            return cast_without_schema(value, self._whole)
        changed = dict(require_dict(value, _PURPOSE))
        for name, type_ in self._types.items():
            each = changed.get(name)
            changed[name] = None if each is None else cast_without_schema(each, type_)
        return changed

    def _plan_whole(self, schema: Schema) -> tuple[Schema, Caster]:
        assert self._whole is not None
        cast = caster(schema, self._whole)
        changed = Schema(self._whole, optional=schema.optional, **basics(schema))
        return _with_default(changed, schema, cast), cast

    def _plan(self, schema: Schema) -> tuple[Schema, list[tuple[int, Caster]]]:
        """Return the changed schema, and the places and casts of its changed values."""
        casts = []
        fields = []
        for field in fields_of(schema):
            inner = field.schema
            if (type_ := self._types.get(field.name)) is not None:
                cast = caster(inner, type_)
                casts.append((field.index, cast))
                inner = _with_default(Schema(type_, optional=inner.optional), inner, cast)
            fields.append((field.name, inner))
        changed = replace(struct_schema(fields, schema), optional=schema.optional)
        return _with_default(changed, schema, caster(schema, Type.STRUCT)), casts


def _with_default(changed: Schema, schema: Schema, cast: Caster) -> Schema:
    """Add the cast default of a schema; as in Kafka, a struct with a default is refused."""
    if schema.default is None:
        return changed
    return check_default(replace(changed, default=cast(schema.default)))


class CastKey(OnKey, Cast):
    """Cast of keys."""


class CastValue(OnValue, Cast):
    """Cast of values."""
