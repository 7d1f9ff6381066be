"""Flatten: makes one struct or dict of nested ones, whose fields have the joined names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from penstock.connect.data.records import ConnectRecord
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.definitions.config_def import ConfigDef, ConfigType
from penstock.connect.errors import DataError
from penstock.connect.transforms.fields.casting import type_without_schema
from penstock.connect.transforms.fields.part import (
    OnKey,
    OnValue,
    PartTransform,
    java_class,
    refuse_null,
    require_dict,
    require_struct,
)
from penstock.connect.transforms.fields.schemas import (
    SchemaCache,
    check_default,
    duplicate_field,
    fields_of,
    struct_schema,
)

_PURPOSE: Final = "flattening"


class _Leaf(NamedTuple):
    """A field that keeps its value: its place in the struct, and that in the flat one."""

    place: int
    flat_place: int


class _Inner(NamedTuple):
    """A field with a struct, and the fields inside it."""

    place: int
    fields: list[_Leaf | _Inner]


class Flatten(PartTransform):
    """Moves the fields of nested structs or dicts to the top; arrays stay as they are."""

    definition = ConfigDef().define(
        "delimiter", ConfigType.STRING, ".", doc="The text between the joined names of fields."
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._delimiter: str = config["delimiter"]
        self._plans = SchemaCache(self._plan)

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, value
        if schema is None:
            flat: dict[str, Any] = {}
            self._flatten_dict(require_dict(value, _PURPOSE), "", flat)
            return None, flat
        struct = require_struct(value, schema, _PURPOSE)
        changed, fields = self._plans.get(schema)
        values: list[Any] = [None] * len(changed.fields)
        _fill(struct, fields, values, changed)
        return changed, Struct.of_values(changed, values)

    def _joined(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _flatten_dict(self, value: dict[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for name, each in value.items():
            joined = self._joined(prefix, name)
            if isinstance(each, dict):
                self._flatten_dict(each, joined, flat)
            elif isinstance(each, Struct):
                raise DataError(
                    f"Flatten transformation does not support class {java_class(each)} for record without "
                    f"schemas (for field {joined})."
                )
            elif each is not None and type_without_schema(each) is None:
                raise DataError(
                    f"Flatten transformation was passed a value of type class {java_class(each)} which is "
                    "not supported by Connect's data API"
                )
            else:
                flat[joined] = each

    def _plan(self, schema: Schema) -> tuple[Schema, list[_Leaf | _Inner]]:
        leaves: dict[str, Schema] = {}
        fields = self._flatten(schema, "", schema.optional, schema.default, leaves)
        return struct_schema(leaves.items(), schema), fields

    def _flatten(
        self,
        schema: Schema,
        prefix: str,
        optional: bool,
        default: Struct | None,
        leaves: dict[str, Schema],
    ) -> list[_Leaf | _Inner]:
        """Add the flat fields of a struct to ``leaves``, and return where its values are.

        Fields are optional below an optional struct, and have the values of its default as theirs.
        """
        found: list[_Leaf | _Inner] = []
        for field in fields_of(schema):
            inner = field.schema
            name = self._joined(prefix, field.name)
            own_default = inner.default
            if own_default is None and default is not None:
                own_default = default[field.name]
            may_be_null = optional or inner.optional
            if inner.type is Type.STRUCT:
                fields = self._flatten(inner, name, may_be_null, own_default, leaves)
                found.append(_Inner(field.index, fields))
            elif inner.type is Type.MAP:
                raise DataError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            else:
                if name in leaves:
                    raise duplicate_field(name)
                found.append(_Leaf(field.index, len(leaves)))
                flat = replace(inner, optional=may_be_null, default=own_default)
                leaves[name] = check_default(flat)
        return found


def _fill(struct: Struct, fields: list[_Leaf | _Inner], values: list[Any], flat: Schema) -> None:
    """Set the flat values of a struct. A nested struct without a value leaves its fields without one."""
    own = struct.all_values(with_defaults=False)
    filled = struct.all_values()
    for each in fields:
        if isinstance(each, _Leaf):
            value = filled[each.place]
            if value is None:
                refuse_null(flat.fields[each.flat_place])
            values[each.flat_place] = value
        elif (inner := own[each.place]) is not None:
            _fill(inner, each.fields, values, flat)


class FlattenKey(OnKey, Flatten):
    """Flatten of keys."""


class FlattenValue(OnValue, Flatten):
    """Flatten of values."""
