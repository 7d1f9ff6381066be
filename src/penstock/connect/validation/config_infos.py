"""The result of validating a connector's configuration, as the REST API shows it (Connect's ConfigInfos)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.connect.definitions.config_key import ConfigKey
from penstock.connect.definitions.config_types import printed
from penstock.connect.definitions.validation import ConfigValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKeyInfo:
    """The definition of one key. `default_value` is text, and None if the key is required or has none."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "default_value": self.default_value,
            "importance": self.importance,
            "documentation": self.documentation,
            "group": self.group,
            "width": self.width,
            "display_name": self.display_name,
            "dependents": list(self.dependents),
            "order_in_group": self.order_in_group,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValueInfo:
    """The value of one key as text, with its errors and the values that are useful for it."""

    name: str
    value: str | None
    recommended_values: tuple[str | None, ...]
    errors: tuple[str, ...]
    visible: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "recommended_values": list(self.recommended_values),
            "errors": list(self.errors),
            "visible": self.visible,
        }


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """One key: its definition, which an unknown key lacks, and its value, which few defined keys lack."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo | None

    def as_json(self) -> dict[str, Any]:
        return {
            "definition": None if self.definition is None else self.definition.as_json(),
            "value": None if self.value is None else self.value.as_json(),
        }


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """The result of a whole configuration; `name` is its ``connector.class``."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": list(self.groups),
            "configs": [config.as_json() for config in self.configs],
        }

    @classmethod
    def merged(cls, name: str, parts: Iterable[ConfigInfos]) -> ConfigInfos:
        """Put the keys of several results together."""
        parts = list(parts)
        return cls(
            name,
            sum(part.error_count for part in parts),
            tuple(dict.fromkeys(group for part in parts for group in part.groups)),
            tuple(config for part in parts for config in part.configs),
        )

    @property
    def errors(self) -> list[str]:
        """The messages of all errors, in the order of the keys."""
        return [error for config in self.configs if config.value is not None for error in config.value.errors]


def key_info(key: ConfigKey, prefix: str = "") -> ConfigKeyInfo:
    """Show the definition of a key, under a prefix if it has one in the configuration."""
    return ConfigKeyInfo(
        name=prefix + key.name,
        type=key.type.name,
        required=not key.has_default,
        default_value=printed(key.default) if key.has_default else None,
        importance=key.importance.name,
        documentation=key.doc,
        group=key.group,
        order_in_group=key.order,
        width=key.width.name,
        display_name=key.display_name,
        dependents=key.dependents,
    )


def value_info(value: ConfigValue, prefix: str = "") -> ConfigValueInfo:
    """Show the value of a key, under a prefix if it has one in the configuration."""
    return ConfigValueInfo(
        name=prefix + value.name,
        value=printed(value.value),
        recommended_values=tuple(map(printed, value.recommended_values)),
        errors=tuple(value.errors),
        visible=value.visible,
    )


def connector_infos(
    name: str, keys: Mapping[str, ConfigKey], values: Sequence[ConfigValue], groups: Iterable[str]
) -> ConfigInfos:
    """Show all keys with their values; the last value of a key counts. Values without a key come first."""
    last = {value.name: value for value in values}
    unknown = [value for value in values if value.name not in keys]
    known = [value for value in last.values() if value.name in keys]
    configs = [ConfigInfo(None, value_info(value)) for value in unknown]
    for key in keys.values():
        found = last.get(key.name)
        configs.append(ConfigInfo(key_info(key), None if found is None else value_info(found)))
    return ConfigInfos(
        name, sum(len(value.errors) for value in (*unknown, *known)), tuple(groups), tuple(configs)
    )


def prefixed_infos(keys: Mapping[str, ConfigKey], values: Iterable[ConfigValue], prefix: str) -> ConfigInfos:
    """Show values, such as those of a converter, under a prefix. Each key counts as one error at most."""
    values = list(values)
    found = [keys.get(value.name) for value in values]
    return ConfigInfos(
        "",
        sum(bool(value.errors) for value in values),
        tuple(dict.fromkeys(key.group for key in found if key is not None and key.group is not None)),
        tuple(
            ConfigInfo(
                None if key is None else key_info(key, prefix),
                replace(value_info(value, prefix), visible=True),
            )
            for key, value in zip(found, values, strict=True)
        ),
    )
