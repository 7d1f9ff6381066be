"""SetSchemaMetadata: gives the schema of a struct another name or version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.connect.data.records import ConnectRecord
from penstock.connect.data.schema import Schema
from penstock.connect.data.struct import Struct
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.errors import ConfigInvalid, DataError
from penstock.connect.transforms.fields.part import OnKey, OnValue, PartTransform, filled
from penstock.connect.transforms.fields.schemas import SchemaCache, fields_of
from penstock.connect.transforms.fields.settings import REPLACE_NULL, define_replace_null


class SetSchemaMetadata(PartTransform):
    """Sets the name or the version of the schema, or both. Kafka refuses any schema but that of a struct."""

    definition = define_replace_null(
        ConfigDef()
        .define("schema.name", ConfigType.STRING, None, importance=Importance.HIGH, doc="The new name.")
        .define("schema.version", ConfigType.INT, None, importance=Importance.HIGH, doc="The new version.")
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._name: str | None = config["schema.name"]
        self._version: int | None = config["schema.version"]
        self._with_defaults = config[REPLACE_NULL]
        self._schemas = SchemaCache(self._changed)
        if self._name is None and self._version is None:
            raise ConfigInvalid("Neither schema name nor version configured")

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        if schema is None:
            if value is None:
                return None, None
            raise DataError("Schema required for [updating schema metadata]")
        changed = self._schemas.get(schema)
        if isinstance(value, Struct):
            value = filled(changed, value.all_values(with_defaults=self._with_defaults))
        return changed, value

    def _changed(self, schema: Schema) -> Schema:
        fields_of(schema)
        return replace(
            schema,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )


class SetSchemaMetadataKey(OnKey, SetSchemaMetadata):
    """SetSchemaMetadata of keys."""


class SetSchemaMetadataValue(OnValue, SetSchemaMetadata):
    """SetSchemaMetadata of values."""
