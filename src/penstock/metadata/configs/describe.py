"""Configs as DescribeConfigs shows them: the value, its source, and the values it overrides.

The synonyms of a value are all places that set it, nearest first: this broker's dynamic configs, the
cluster's dynamic defaults, the static properties, the reference. A config with several names
(``log.retention.ms``, ``.minutes``, ``.hours``) is searched under each name in each place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definition import ConfigKey, ConfigValue, UpdateMode
from penstock.metadata.configs.reference import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    broker_key,
    strip_listener_prefix,
)
from penstock.metadata.configs.topic_config import topic_default

UNKNOWN_TYPE: Final = 0


class ConfigSource(IntEnum):
    """The source of a value, by its number in DescribeConfigs responses."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """One place that sets a config; the value is None if it must stay secret."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: int
    synonyms: Sequence[Synonym]
    doc: str | None


_ALIASES: Final[Sequence[Sequence[str]]] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_ALIASES_OF: Final = {name: names for names in _ALIASES for name in names}


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """Describe a topic with these ``overrides``; ``names`` limits the result if it is given."""
    for key in _chosen(TOPIC_KEYS.values(), names):
        override = overrides.get(key.name)
        if key.internal and override is None:
            continue
        inherited = _broker_synonyms(key.synonyms[0], broker) if key.synonyms else []
        text = topic_default(key, broker) if override is None else override
        yield _entry(key, text, _overriding(key, override, ConfigSource.TOPIC_CONFIG, inherited))


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """Describe a group with these ``overrides``."""
    for key in _chosen(GROUP_KEYS.values(), names):
        override = overrides.get(key.name)
        if key.synonyms:
            inherited = _broker_synonyms(key.synonyms[0], broker)
        else:
            inherited = [Synonym(key.name, key.default, ConfigSource.DEFAULT_CONFIG)]
        text = override or (inherited[0].value if inherited else key.default)
        yield _entry(key, text, _overriding(key, override, ConfigSource.GROUP_CONFIG, inherited))


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """Describe a client metrics subscription (KIP-714)."""
    for key in _chosen(CLIENT_METRICS_KEYS.values(), names):
        override = overrides.get(key.name)
        text = key.default if override is None else override
        yield _entry(key, text, _overriding(key, override, ConfigSource.CLIENT_METRICS_CONFIG, []))


def describe_broker(broker: BrokerConfig, names: Collection[str] | None = None) -> Iterator[ConfigEntry]:
    """Describe every config of a broker, and settings of names that the reference does not contain."""
    listed = dict.fromkeys(name for name, key in BROKER_KEYS.items() if _is_listed(key))
    for layer in (broker.static, broker.dynamic_default, broker.dynamic_broker):
        listed |= dict.fromkeys(layer)
    for name in listed:
        if names is None or name in names:
            yield _broker_entry(name, _broker_synonyms(name, broker))


def describe_cluster_default(
    broker: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """Describe the dynamic configs that apply to every broker of the cluster."""
    for name in broker.dynamic_default:
        if names is None or name in names:
            synonyms = [
                synonym
                for synonym in _broker_synonyms(name, broker)
                if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            ]
            yield _broker_entry(name, synonyms)


def _chosen(keys: Iterable[ConfigKey], names: Collection[str] | None) -> Iterator[ConfigKey]:
    return (key for key in keys if names is None or key.name in names)


def _is_listed(key: ConfigKey) -> bool:
    """Whether the key is always shown; throttles exist as dynamic configs only and are shown once set."""
    return not key.internal and key.name not in _DYNAMIC_ONLY


_DYNAMIC_ONLY: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


def _overriding(
    key: ConfigKey, override: str | None, source: ConfigSource, inherited: list[Synonym]
) -> list[Synonym]:
    return inherited if override is None else [Synonym(key.name, override, source), *inherited]


def _entry(key: ConfigKey, text: str | None, synonyms: Sequence[Synonym]) -> ConfigEntry:
    return ConfigEntry(
        name=key.name,
        value=None if text is None else to_text(key.parse(text)),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        read_only=False,
        sensitive=False,
        type=key.type,
        synonyms=synonyms,
        doc=key.doc,
    )


def _broker_entry(name: str, synonyms: Sequence[Synonym]) -> ConfigEntry:
    """Describe one broker config; the value of an unknown name stays hidden, because it could be a secret."""
    key = broker_key(name)
    sensitive = key is None or key.sensitive
    nearest = synonyms[0] if synonyms else None
    value = nearest.value if nearest and nearest.name in (name, strip_listener_prefix(name)) else None
    return ConfigEntry(
        name=name,
        value=None if sensitive else value,
        source=nearest.source if nearest else ConfigSource.DEFAULT_CONFIG,
        read_only=name not in BROKER_KEYS or BROKER_KEYS[name].update_mode is UpdateMode.READ_ONLY,
        sensitive=sensitive,
        type=UNKNOWN_TYPE if key is None else key.type,
        synonyms=synonyms,
        doc=None if key is None else key.doc,
    )


def _broker_synonyms(name: str, broker: BrokerConfig) -> list[Synonym]:
    """All places that set the broker config ``name``, starting with those that use this very name."""
    plain = strip_listener_prefix(name)
    aliases = _ALIASES_OF.get(name, (name,) if plain == name else (name, plain))
    places = (
        (broker.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (broker.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (broker.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    key = broker_key(name)
    sensitive = key is None or key.sensitive
    synonyms = [
        Synonym(alias, None if sensitive else layer[alias], source)
        for layer, source in places
        for alias in aliases
        if alias in layer
    ]
    for alias in aliases:
        default = BROKER_KEYS[alias].default if alias in BROKER_KEYS else None
        if default is not None and alias not in _DYNAMIC_ONLY:
            synonyms.append(Synonym(alias, None if sensitive else default, ConfigSource.DEFAULT_CONFIG))
    while synonyms and synonyms[0].name != name:
        del synonyms[0]
    return synonyms


def to_text(value: ConfigValue) -> str | None:
    """Format a typed value as Kafka prints it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case list():
            return ",".join(value)
        case _:
            return str(value)
