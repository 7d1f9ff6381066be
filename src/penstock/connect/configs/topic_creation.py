"""The settings of topics that the worker creates for a source, in groups of topics (KIP-158).

    topic.creation.groups=compacted
    topic.creation.default.replication.factor=3
    topic.creation.default.partitions=5
    topic.creation.compacted.include=status\\..*
    topic.creation.compacted.cleanup.policy=compact

A topic gets the settings of the first group whose patterns match it, otherwise those of the default group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.connect.configs.key_table import define_table
from penstock.connect.configs.tables import connectors
from penstock.connect.definitions.config_def import ConfigDef, ConfigType
from penstock.connect.definitions.config_key import Validator
from penstock.connect.definitions.config_types import invalid, parse_type
from penstock.connect.definitions.validators import DescribedValidator, NonNullValidator
from penstock.java.patterns import PatternError, compile_pattern

PREFIX: Final = "topic.creation."
GROUPS: Final = PREFIX + "groups"
DEFAULT: Final = "default"
INCLUDE: Final = "include"
EXCLUDE: Final = "exclude"
REPLICATION_FACTOR: Final = "replication.factor"
PARTITIONS: Final = "partitions"
OWN_KEYS: Final = (INCLUDE, EXCLUDE, REPLICATION_FACTOR, PARTITIONS)
"""The keys of a group that are not configurations of its topics."""
BROKER_DEFAULT: Final = -1
"""In place of a number of partitions or replicas: the broker's default."""
BROKER_DEFAULT_TEXT: Final = "or -1 to use the broker's default"
AT_MOST_BROKERS: Final = "not larger than the number of brokers in the Kafka cluster, " + BROKER_DEFAULT_TEXT


def check_replication_factor(name: str, value: Any) -> None:
    if value is not None and value != BROKER_DEFAULT and value < 1:
        raise invalid(name, value, f"Replication factor must be positive and {AT_MOST_BROKERS}")


def check_partitions(name: str, value: Any) -> None:
    if value is not None and value != BROKER_DEFAULT and value < 1:
        raise invalid(name, value, f"Number of partitions must be positive, {BROKER_DEFAULT_TEXT}")


def check_patterns(name: str, value: Any) -> None:
    try:
        for pattern in value:
            compile_pattern(pattern)
    except PatternError as error:
        raise invalid(name, value, f"Syntax error in regular expression: {error}") from None


REPLICATION_FACTOR_VALIDATOR: Final = DescribedValidator(
    check_replication_factor, f"Positive number {AT_MOST_BROKERS}"
)
PARTITIONS_VALIDATOR: Final = DescribedValidator(check_partitions, f"Positive number, {BROKER_DEFAULT_TEXT}")
PATTERNS_VALIDATOR: Final = DescribedValidator(check_patterns, PARTITIONS_VALIDATOR.valid)
"""Describes itself as the validator of partitions, as in Kafka."""


def group_definition(heading: str, replication_factor: int, partitions: int) -> ConfigDef:
    """The keys of one group, with the numbers that it takes from the default group."""
    defaults = {REPLICATION_FACTOR: replication_factor, PARTITIONS: partitions}
    return _definition(heading, PATTERNS_VALIDATOR, defaults)


def default_group_definition() -> ConfigDef:
    """The keys of the default group, which includes all topics whatever its patterns are."""
    return _definition(DEFAULT, NonNullValidator(), {INCLUDE: ".*"})


def _definition(heading: str, patterns: Validator, defaults: Mapping[str, Any]) -> ConfigDef:
    validators: dict[str, Validator] = {
        INCLUDE: patterns,
        EXCLUDE: patterns,
        REPLICATION_FACTOR: REPLICATION_FACTOR_VALIDATOR,
        PARTITIONS: PARTITIONS_VALIDATOR,
    }
    definition = ConfigDef()
    for key in define_table(ConfigDef(), connectors.TOPIC_GROUP, validators, defaults=defaults).keys.values():
        definition.add(replace(key, group=heading, display_name=f"{key.display_name} {heading}"))
    return definition


@dataclass(frozen=True, slots=True)
class CreationGroup:
    """The settings of one group; `configs` are those of its topics, such as `cleanup.policy`."""

    name: str
    include: str
    exclude: str
    replication_factor: int
    partitions: int
    configs: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        """Whether the group has a topic of this name."""
        if compile_pattern(self.exclude).fullmatch(topic) is not None:
            return False
        return compile_pattern(self.include).fullmatch(topic) is not None


def is_used(properties: Mapping[str, str | None]) -> bool:
    """Whether a connector's configuration asks the worker to create topics."""
    return any(name.startswith(PREFIX) for name in properties)


def creation_groups(properties: Mapping[str, str]) -> list[CreationGroup]:
    """Return the groups of a configuration in the order in which they are tried, the default group last.

    There are none if the configuration has no key of this module.

    Raises:
        ConfigInvalid: a value is missing or not valid.
    """
    if not is_used(properties):
        return []
    aliases: Sequence[str] = parse_type(GROUPS, properties.get(GROUPS), ConfigType.LIST) or ()
    own_patterns = (f"{PREFIX}{DEFAULT}.{INCLUDE}", f"{PREFIX}{DEFAULT}.{EXCLUDE}")
    properties = {name: value for name, value in properties.items() if name not in own_patterns}
    default = _group(DEFAULT, default_group_definition(), properties)
    numbers = (default.replication_factor, default.partitions)
    named = [alias for alias in dict.fromkeys(aliases) if alias != DEFAULT]
    return [*(_group(alias, group_definition(alias, *numbers), properties) for alias in named), default]


def _group(alias: str, definition: ConfigDef, properties: Mapping[str, str]) -> CreationGroup:
    prefix = f"{PREFIX}{alias}."
    parsed = ConfigDef().embed(prefix, alias, 0, definition).parse(properties)
    values = [parsed[prefix + key] for key in OWN_KEYS]
    given = {
        name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)
    }
    configs = {name: value for name, value in given.items() if name not in OWN_KEYS}
    return CreationGroup(alias, "|".join(values[0]), "|".join(values[1]), values[2], values[3], configs)
