"""Define the keys of a configuration, and parse the text of their values (Kafka's ConfigDef).

definition = ConfigDef().define("batch.size", ConfigType.INT, 100, validator=Range(1))
definition.parse({"batch.size": "20"})  # {"batch.size": 20}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.connect.definitions.config_key import (
    REQUIRED,
    ConfigKey,
    Importance,
    Recommender,
    Validator,
    Width,
)
from penstock.connect.definitions.config_types import ConfigType, FindClass, Password, parse_type
from penstock.connect.definitions.embedding import embedded
from penstock.connect.definitions.validation import ConfigValue, undefined_dependents, validate_all
from penstock.connect.errors import ConfigInvalid

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Password",
    "Width",
]


class ConfigDef:
    """The keys of a configuration, in the order in which they were defined."""

    def __init__(self, base: ConfigDef | None = None) -> None:
        """Begin with the keys of another definition, or with none."""
        self.keys: dict[str, ConfigKey] = dict(base.keys) if base is not None else {}

    def define(
        self,
        name: str,
        type: ConfigType,
        default: Any = REQUIRED,
        validator: Validator | None = None,
        importance: Importance = Importance.MEDIUM,
        doc: str = "",
        *,
        group: str | None = None,
        order: int = -1,
        width: Width = Width.NONE,
        display_name: str | None = None,
        dependents: Sequence[str] = (),
        recommender: Recommender | None = None,
        internal: bool = False,
    ) -> ConfigDef:
        """Add a key, and return this definition so that calls can be chained.

        Raises:
            ConfigInvalid: the name is defined already, or the default is not valid.
        """
        if default is not REQUIRED:
            default = parse_type(name, default, type)
            if validator is not None:
                validator(name, default)
        return self.add(
            ConfigKey(
                name=name,
                type=type,
                default=default,
                validator=validator,
                importance=importance,
                doc=doc,
                group=group,
                order=order,
                width=width,
                display_name=name if display_name is None else display_name,
                dependents=tuple(dependents),
                recommender=recommender,
                internal=internal,
            )
        )

    def add(self, key: ConfigKey) -> ConfigDef:
        """Add a key that exists, such as one of another definition, and return this definition.

        Raises:
            ConfigInvalid: its name is defined already.
        """
        if key.name in self.keys:
            raise ConfigInvalid(f"Configuration {key.name} is defined twice.")
        self.keys[key.name] = key
        return self

    def embed(self, prefix: str, group_prefix: str, first_order: int, child: ConfigDef) -> ConfigDef:
        """Add the keys of another definition under a prefix, and return this definition.

        Messages of validators name a key without the prefix, as in Kafka.

        Raises:
            ConfigInvalid: a name is defined already.
        """
        for key in embedded(prefix, group_prefix, first_order, child.keys):
            self.add(key)
        return self

    @property
    def groups(self) -> list[str]:
        """The groups of the keys, in the order of their first key."""
        return list(dict.fromkeys(key.group for key in self.keys.values() if key.group is not None))

    def parse(self, properties: Mapping[str, Any], find_class: FindClass | None = None) -> dict[str, Any]:
        """Parse and check the values of all keys; properties that are not defined are left out.

        `find_class` looks up the values of type CLASS; without it, any name is accepted.

        Raises:
            ConfigInvalid: the first value that is missing or not valid.
        """
        if undefined := undefined_dependents(self.keys):
            problem = "Some configurations in are referred in the dependents, but not defined: "
            raise ConfigInvalid(problem + ",".join(undefined))
        return {key.name: parse_key(key, properties, find_class) for key in self.keys.values()}

    def validate(
        self, properties: Mapping[str, str], find_class: FindClass | None = None
    ) -> list[ConfigValue]:
        """Parse and check the values of all keys, and report every error with the key that has it."""
        return list(validate_all(self.keys, properties, find_class).values())


def parse_key(key: ConfigKey, properties: Mapping[str, Any], find_class: FindClass | None) -> Any:
    if key.name in properties:
        value = parse_type(key.name, properties[key.name], key.type, find_class)
    else:
        value = key.default_or_missing()
    if isinstance(value, list):
        removes_duplicates = getattr(key.validator, "removes_duplicates", False)
        value = list(dict.fromkeys(value)) if removes_duplicates else list(value)
    if key.validator is not None:
        key.validator(key.name, value)
    return value
