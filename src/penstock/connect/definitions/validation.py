"""Validate a whole configuration and report every error, with values that a user interface can offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.connect.definitions.config_key import ConfigKey
from penstock.connect.definitions.config_types import FindClass, parse_type
from penstock.connect.errors import ConfigInvalid

Keys = Mapping[str, ConfigKey]


@dataclass(slots=True)
class ConfigValue:
    """The result of validating one key. `value` is None if it could not be parsed."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


def validate_all(
    keys: Keys, properties: Mapping[str, str], find_class: FindClass | None = None
) -> dict[str, ConfigValue]:
    """Validate each key, and each dependent that is not defined; parents come before their dependents.

    A dependent of several keys is checked once for each of them, and its errors repeat, as in Kafka.
    """
    values = {name: ConfigValue(name) for name in keys}
    for name in undefined_dependents(keys):
        problem = f"{name} is referred in the dependents, but not defined."
        values[name] = ConfigValue(name, errors=[problem], visible=False)
    dependents = {name for key in keys.values() for name in key.dependents}
    roots = [name for name in keys if name not in dependents]
    parsed: dict[str, Any] = {}
    for name in roots:
        parse_with_dependents(keys, name, properties, find_class, parsed, values)
    for name in roots:
        recommend_with_dependents(keys, name, parsed, values)
    return values


def undefined_dependents(keys: Keys) -> list[str]:
    """The dependents of keys that are no keys themselves."""
    named = dict.fromkeys(name for key in keys.values() for name in key.dependents)
    return [name for name in named if name not in keys]


def parse_with_dependents(
    keys: Keys,
    name: str,
    properties: Mapping[str, str],
    find_class: FindClass | None,
    parsed: dict[str, Any],
    values: Mapping[str, ConfigValue],
) -> None:
    if (key := keys.get(name)) is None:
        return
    found = values[name]
    value = None
    try:
        if name in properties:
            value = parse_type(name, properties[name], key.type, find_class)
        else:
            value = key.default_or_missing()
    except ConfigInvalid as error:
        found.errors.append(str(error))
    if key.validator is not None:
        try:
            key.validator(name, value)
        except ConfigInvalid as error:
            found.errors.append(str(error))
    found.value = parsed[name] = value
    for dependent in key.dependents:
        parse_with_dependents(keys, dependent, properties, find_class, parsed, values)


def recommend_with_dependents(
    keys: Keys, name: str, parsed: Mapping[str, Any], values: Mapping[str, ConfigValue]
) -> None:
    if (key := keys.get(name)) is None:
        return
    found = values[name]
    if key.recommender is not None:
        try:
            recommended = list(key.recommender.valid_values(name, parsed))
            if earlier := found.recommended_values:
                recommended = [value for value in recommended if value in earlier]
            found.recommended_values = recommended
            found.visible = key.recommender.visible(name, parsed)
        except ConfigInvalid as error:
            found.errors.append(str(error))
    for dependent in key.dependents:
        recommend_with_dependents(keys, dependent, parsed, values)
