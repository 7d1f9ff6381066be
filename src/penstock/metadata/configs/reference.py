"""Every config key of the supported release, by the kind of resource that has it.

The keys of brokers, topics, groups and client metrics subscriptions are listed in ``tables/``. Names, types,
defaults and rules are those of Apache Kafka 4.3.1. Our own keys begin with ``penstock.``; the keys of schema
validation are Confluent's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.metadata.configs.definition import ConfigKey, InvalidConfig, read_table
from penstock.metadata.configs.rules import rule_of
from penstock.metadata.configs.tables import (
    client_metrics,
    group,
    groups,
    log,
    metrics,
    network,
    node,
    quorum,
    remote_storage,
    replication,
    security,
    share_groups,
    topic,
    transactions,
)


def _keys(*tables: str) -> dict[str, ConfigKey]:
    return {key.name: key for table in tables for key in read_table(table, rule_of)}


BROKER_KEYS: Final[Mapping[str, ConfigKey]] = _keys(
    node.TABLE,
    network.TABLE,
    log.TABLE,
    replication.TABLE,
    groups.TABLE,
    share_groups.TABLE,
    transactions.TABLE,
    quorum.TABLE,
    security.TABLE,
    metrics.TABLE,
    remote_storage.TABLE,
)
TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = _keys(topic.TABLE)
GROUP_KEYS: Final[Mapping[str, ConfigKey]] = _keys(group.TABLE)
CLIENT_METRICS_KEYS: Final[Mapping[str, ConfigKey]] = _keys(client_metrics.TABLE)

_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.([^.]+)\.")
_PLUGIN_PREFIXES: Final = ("rsm.config.", "rlmm.config.", "config.providers.")
_NEAR: Final = 0.75


def strip_listener_prefix(name: str) -> str:
    """Strip the prefix of a listener: ``listener.name.external.max.connections`` gives ``max.connections``.

    SASL settings may also name a mechanism, as in ``listener.name.x.plain.sasl.jaas.config``. Other names
    stay as they are.
    """
    match = _LISTENER_PREFIX.match(name)
    if match is None:
        return name
    rest = name[match.end() :]
    if rest not in BROKER_KEYS and "." in rest and rest.split(".", 1)[1] in BROKER_KEYS:
        return rest.split(".", 1)[1]
    return rest


def listener_of(name: str) -> str | None:
    """The listener that a config names with its prefix, as in the broker's list of listeners."""
    match = _LISTENER_PREFIX.match(name)
    return match and match[1].upper()


def broker_key(name: str) -> ConfigKey | None:
    """The definition of a broker config, with or without a listener prefix; None if it is unknown."""
    return BROKER_KEYS.get(name) or BROKER_KEYS.get(strip_listener_prefix(name))


def belongs_to_plugin(name: str) -> bool:
    """Whether ``name`` is passed unchanged to a plugin, which alone can interpret it."""
    return name.startswith(_PLUGIN_PREFIXES)


def unknown_key(name: str, known: Iterable[str]) -> InvalidConfig:
    """Create the error for an unknown name, with the most similar known name as a hint."""
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return InvalidConfig(name, f"Unknown config {name}{hint}")
