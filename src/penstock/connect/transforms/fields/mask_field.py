"""MaskField: puts an empty value of the same type, or a replacement, in place of fields."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from penstock.connect.data.logical import date_of, time_of, timestamp_of
from penstock.connect.data.records import ConnectRecord
from penstock.connect.data.schema import FLOAT64, INT64, Schema
from penstock.connect.data.values import convert_value
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import NonEmptyString, ValidList
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
from penstock.connect.transforms.fields.schemas import SchemaCache
from penstock.connect.transforms.fields.settings import REPLACE_NULL, define_replace_null
from penstock.java.numbers import decimal_of

_PURPOSE: Final = "mask fields"
_EMPTY: Final[dict[type, Callable[[], Any]]] = {
    bool: bool,
    int: int,
    float: float,
    Decimal: Decimal,
    str: str,
    list: list,
    dict: dict,
    datetime.date: lambda: date_of(0),
    datetime.time: lambda: time_of(0),
    datetime.datetime: lambda: timestamp_of(0),
}


class MaskField(PartTransform):
    """Masks fields that have a value; null stays null."""

    definition = define_replace_null(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            validator=ValidList(may_be_empty=False),
            importance=Importance.HIGH,
            doc="Fields to mask.",
        )
        .define(
            "replacement",
            ConfigType.STRING,
            None,
            NonEmptyString(),
            Importance.LOW,
            "A value for fields with numbers and text, in place of 0 and empty text.",
        )
    )

    def start(self, config: Mapping[str, Any]) -> None:
        self._names: list[str] = config["fields"]
        self._replacement: str | None = config["replacement"]
        self._with_defaults = config[REPLACE_NULL]
        self._places = SchemaCache(self._masked_places)

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> tuple[Schema | None, Any]:
        if schema is None:
            masked = dict(require_dict(value, _PURPOSE))
            for name in self._names:
                each = masked.get(name)
                masked[name] = None if each is None else self._mask(each, None)
            return None, masked
        struct = require_struct(value, schema, _PURPOSE)
        values = struct.all_values(with_defaults=self._with_defaults)
        for place, inner in self._places.get(struct.schema):
            if (each := values[place]) is not None:
                values[place] = self._mask(each, inner)
        return schema, filled(struct.schema, values)

    def _masked_places(self, schema: Schema) -> list[tuple[int, Schema]]:
        return [(field.index, field.schema) for field in schema.fields if field.name in self._names]

    def _mask(self, value: Any, schema: Schema | None) -> Any:
        if self._replacement is None:
            if (empty := _EMPTY.get(type(value))) is None:
                raise DataError(f"Cannot mask value of type: class {java_class(value, schema)}")
            return empty()
        if isinstance(value, str):
            return self._replacement
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            found = java_class(value, schema)
            raise DataError(f"Cannot mask value of type class {found} with custom replacement.")
        return _replacing_number(self._replacement, value, schema)


def _replacing_number(text: str, value: float | Decimal, schema: Schema | None) -> int | float | Decimal:
    """Parse a replacement as a number of the same type. Numbers outside of its range wrap, as in Kafka."""
    if (number := decimal_of(text)) is None:
        kind = "number" if isinstance(value, Decimal) else "a number"
        raise DataError(f"Unable to convert {text} (class java.lang.String) to {kind}")
    if isinstance(value, Decimal):
        return number
    if schema is None:
        schema = INT64 if isinstance(value, int) else FLOAT64
    converted: int | float = convert_value(schema, None, number)
    return converted


class MaskFieldKey(OnKey, MaskField):
    """MaskField of keys."""


class MaskFieldValue(OnValue, MaskField):
    """MaskField of values."""
