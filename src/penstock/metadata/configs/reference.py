"""Every config key of the target release, by the kind of resource that has it.

The keys of brokers, topics, groups and client metrics subscriptions stand in ``tables/``; names, types,
defaults and rules are those of Apache Kafka 4.3.1. Keys of our own begin with ``penstock.``; those of schema
validation are Confluent's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.metadata.configs.definition import ConfigError, ConfigKey, read_table
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

_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.[^.]+\.")
_PLUGIN_PREFIXES: Final = ("rsm.config.", "rlmm.config.", "config.providers.")
_NEAR: Final = 0.75


def strip_listener_prefix(name: str) -> str:
    """``max.connections`` for ``listener.name.external.max.connections``; other names as they are.

    SASL settings may name a mechanism too: ``listener.name.x.plain.sasl.jaas.config``.
    """
    match = _LISTENER_PREFIX.match(name)
    if match is None:
        return name
    rest = name[match.end() :]
    if rest not in BROKER_KEYS and "." in rest and rest.split(".", 1)[1] in BROKER_KEYS:
        return rest.split(".", 1)[1]
    return rest


def broker_key(name: str) -> ConfigKey | None:
    """The definition of a broker config, listener prefix or not; None where there is none."""
    return BROKER_KEYS.get(name) or BROKER_KEYS.get(strip_listener_prefix(name))


def belongs_to_plugin(name: str) -> bool:
    """Whether ``name`` is handed to a plugin as it is, which alone knows its meaning."""
    return name.startswith(_PLUGIN_PREFIXES)


def unknown_key(name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that nobody knows, with the nearest that somebody does."""
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return ConfigError(name, f"Unknown config {name}{hint}")
