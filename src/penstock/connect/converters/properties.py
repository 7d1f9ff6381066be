"""The properties that Connect's own converters have in common."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import ValidString

TYPE: Final = "converter.type"


class ConverterType(Enum):
    """The use of a converter; the value is the one of the property ``converter.type``."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"


def converter_definition() -> ConfigDef:
    """Begin the definition of a converter's properties with its type, which the worker sets."""
    valid = ValidString(*(each.value for each in ConverterType))
    doc = "What the converter is used for."
    return ConfigDef().define(TYPE, ConfigType.STRING, validator=valid, importance=Importance.LOW, doc=doc)


def parsed_properties(definition: ConfigDef, properties: Mapping[str, str], is_key: bool) -> dict[str, Any]:
    """Parse the properties of a converter of keys or values. Raises ConfigInvalid."""
    type_ = ConverterType.KEY if is_key else ConverterType.VALUE
    return definition.parse({**properties, TYPE: type_.value})
