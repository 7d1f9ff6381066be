"""HeaderFrom, DropHeaders and InsertHeader: transforms of the headers of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from penstock.connect.data.records import Header
from penstock.connect.data.schema import Schema
from penstock.connect.data.values import parse_text
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import (
    DescribedValidator,
    NonNullValidator,
    ValidList,
    ValidString,
)
from penstock.connect.errors import ConfigInvalid, DataError
from penstock.connect.transforms.fields.part import filled, require_dict, require_struct
from penstock.connect.transforms.fields.schemas import SchemaCache, fields_of, struct_schema
from penstock.connect.transforms.fields.settings import REPLACE_NULL, define_replace_null
from penstock.connect.transforms.transform import R, Transform

_MOVE: Final = "move"


def _check_not_empty(name: str, value: Any) -> None:
    if not value:
        raise invalid(name, value, "Empty list")


_NOT_EMPTY: Final = DescribedValidator(_check_not_empty, "non-empty list")


class HeaderFrom(Transform):
    """Copies or moves fields of the key or value to headers."""

    on_key: ClassVar[bool]
    definition = define_replace_null(
        ConfigDef()
        .define(
            "fields", ConfigType.LIST, validator=_NOT_EMPTY, importance=Importance.HIGH, doc="The fields."
        )
        .define(
            "headers",
            ConfigType.LIST,
            validator=_NOT_EMPTY,
            importance=Importance.HIGH,
            doc="The names of the headers, in the order of their fields.",
        )
        .define(
            "operation",
            ConfigType.STRING,
            validator=ValidString(_MOVE, "copy"),
            importance=Importance.HIGH,
            doc="Either <code>move</code>, which removes the fields, or <code>copy</code>.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        fields: list[str] = config["fields"]
        headers: list[str] = config["headers"]
        if len(fields) != len(headers):
            raise ConfigInvalid("'fields' config must have the same number of elements as 'headers' config.")
        self._fields = frozenset(fields)
        self._headers = list(zip(fields, headers, strict=True))
        self._moves = config["operation"] == _MOVE
        self._purpose = f"header {config['operation']}"
        self._with_defaults = config[REPLACE_NULL]
        self._rests = SchemaCache(self._rest)

    def apply(self, record: R) -> R | None:
        if self.on_key:
            schema, value, headers = self._change(record.key_schema, record.key)
            changed = record.with_key(schema, value) if self._moves else record
        else:
            schema, value, headers = self._change(record.value_schema, record.value)
            changed = record.with_value(schema, value) if self._moves else record
        return changed.with_headers(record.headers + headers)

    def _change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any, tuple[Header, ...]]:
        """Return the schema and value without the moved fields, and the new headers."""
        if schema is None:
            given = require_dict(value, self._purpose)
            rest = given
            if self._moves:
                rest = {name: each for name, each in given.items() if name not in self._fields}
            return None, rest, tuple(Header(name, given.get(field)) for field, name in self._headers)
        struct = require_struct(value, schema, self._purpose)
        values = struct.all_values(with_defaults=self._with_defaults)
        if self._moves:
            changed, places = self._rests.get(schema)
            schema, value = changed, filled(changed, [values[place] for place in places])
        headers = []
        for field_name, name in self._headers:
            if (field := struct.schema.field(field_name)) is None:
                raise DataError(f"{field_name} is not a valid field name")
            if (each := values[field.index]) is None and not field.schema.optional:
                raise DataError(f"A null value requires an optional schema but was {field.schema}")
            headers.append(Header(name, each, field.schema))
        return schema, value, tuple(headers)

    def _rest(self, schema: Schema) -> tuple[Schema, list[int]]:
        """Return the schema without the moved fields, and the places of its values in the struct."""
        kept = [field for field in fields_of(schema) if field.name not in self._fields]
        return struct_schema(((each.name, each.schema) for each in kept), schema), [
            each.index for each in kept
        ]


class HeaderFromKey(HeaderFrom):
    """HeaderFrom of keys."""

    on_key = True


class HeaderFromValue(HeaderFrom):
    """HeaderFrom of values."""

    on_key = False


class DropHeaders(Transform):
    """Removes headers by their names."""

    definition = ConfigDef().define(
        "headers",
        ConfigType.LIST,
        validator=ValidList(may_be_empty=False),
        importance=Importance.HIGH,
        doc="The names of the headers to remove.",
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._names = frozenset(config["headers"])

    def apply(self, record: R) -> R | None:
        return record.with_headers(tuple(each for each in record.headers if each.key not in self._names))


class InsertHeader(Transform):
    """Adds a header with a fixed value, whose schema is inferred from its text."""

    definition = (
        ConfigDef()
        .define(
            "header",
            ConfigType.STRING,
            validator=NonNullValidator(),
            importance=Importance.HIGH,
            doc="The name of the header.",
        )
        .define(
            "value.literal",
            ConfigType.STRING,
            validator=NonNullValidator(),
            importance=Importance.HIGH,
            doc="The text of the value. Numbers, booleans, dates, arrays and maps are recognised.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        schema, value = parse_text(config["value.literal"])
        self._header = Header(config["header"], value, schema)

    def apply(self, record: R) -> R | None:
        return record.with_headers((*record.headers, self._header))
