"""ExtractField, HoistField and ValueToKey: take fields out of a key or value, or put it into a field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.connect.data.records import ConnectRecord
from penstock.connect.data.schema import Schema
from penstock.connect.data.struct import Struct
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import ValidList
from penstock.connect.errors import DataError
from penstock.connect.transforms.fields.part import (
    OnKey,
    OnValue,
    PartTransform,
    filled,
    require_dict,
    require_struct,
)
from penstock.connect.transforms.fields.paths import parse_path, value_in_dict
from penstock.connect.transforms.fields.schemas import SchemaCache, struct_schema
from penstock.connect.transforms.fields.settings import (
    REPLACE_NULL,
    SYNTAX_VERSION,
    define_replace_null,
    define_syntax_version,
)
from penstock.connect.transforms.transform import R, Transform

_EXTRACTION: Final = "field extraction"
_COPYING: Final = "copying fields from value to key"


class ExtractField(PartTransform):
    """Puts one field in place of the key or value; null stays null."""

    definition = define_syntax_version(
        define_replace_null(ConfigDef().define("field", ConfigType.STRING, doc="The field to extract."))
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._name: str = config["field"]
        self._path = parse_path(self._name, config[SYNTAX_VERSION])
        self._with_default = config[REPLACE_NULL]
        self._schemas = SchemaCache(self._extracted)

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        if schema is None:
            if value is None:
                return None, None
            return None, value_in_dict(require_dict(value, _EXTRACTION), self._path)
        if value is not None:
            require_struct(value, schema, _EXTRACTION)
        extracted = self._schemas.get(schema)
        return extracted, None if value is None else self._value(value)

    def _extracted(self, schema: Schema) -> Schema:
        for name in self._path:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Unknown field: {self._name}")
            schema = field.schema
        return schema

    def _value(self, struct: Struct) -> Any:
        for name in self._path[:-1]:
            struct = struct[name]
            if struct is None:
                return None
        name = self._path[-1]
        return struct[name] if self._with_default else struct.without_default(name)


class ExtractFieldKey(OnKey, ExtractField):
    """ExtractField of keys."""


class ExtractFieldValue(OnValue, ExtractField):
    """ExtractField of values."""


class HoistField(PartTransform):
    """Puts the key or value into the only field of a new struct or dict."""

    definition = ConfigDef().define("field", ConfigType.STRING, doc="The name of the new field.")

    def start(self, config: Mapping[str, Any]) -> None:
        self._name: str = config["field"]
        self._schemas = SchemaCache(lambda schema: Schema.struct({self._name: schema}))

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        if schema is None:
            return None, {self._name: value}
        changed = self._schemas.get(schema)
        return changed, filled(changed, [value])


class HoistFieldKey(OnKey, HoistField):
    """HoistField of keys."""


class HoistFieldValue(OnValue, HoistField):
    """HoistField of values."""


class ValueToKey(Transform):
    """Makes a new key of fields of the value."""

    definition = define_replace_null(
        ConfigDef().define(
            "fields",
            ConfigType.LIST,
            validator=ValidList(may_be_empty=False),
            importance=Importance.HIGH,
            doc="The fields of the value that make the key.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._names: list[str] = config["fields"]
        self._with_defaults = config[REPLACE_NULL]
        self._plans = SchemaCache(self._plan)

    def apply(self, record: R) -> R | None:
        if record.value_schema is None:
            value = require_dict(record.value, _COPYING)
            return record.with_key(None, {name: value.get(name) for name in self._names})
        struct = require_struct(record.value, record.value_schema, _COPYING)
        schema, places = self._plans.get(struct.schema)
        values = struct.all_values(with_defaults=self._with_defaults)
        return record.with_key(schema, filled(schema, [values[place] for place in places]))

    def _plan(self, schema: Schema) -> tuple[Schema, list[int]]:
        """Return the schema of the key, and the places of its values in the struct."""
        fields = []
        for name in self._names:
            if (field := schema.field(name)) is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append(field)
        return struct_schema((each.name, each.schema) for each in fields), [each.index for each in fields]
