"""A topic's configuration: its own configs, else the broker's under another name, else Kafka's defaults.

A topic that does not set ``retention.ms`` uses the broker's ``log.retention.ms``, else
``log.retention.minutes``, else ``log.retention.hours``, converted from its unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definition import ConfigKey, ConfigValue, InvalidConfig
from penstock.metadata.configs.reference import TOPIC_KEYS

_MS_PER: Final = {"hours": 3_600_000, "minutes": 60_000}


def in_topic_unit(key: ConfigKey, synonym: str, text: str) -> str:
    """Convert the value of a broker config to the unit of the topic config that inherits it."""
    factor = _MS_PER.get(synonym.rsplit(".", 1)[-1])
    if factor is None or not key.name.endswith(".ms"):
        return text
    return str(max(int(text) * factor, -1))  # -1 hours means no limit, too


def topic_default(key: ConfigKey, broker: BrokerConfig) -> str | None:
    """The text that applies to a topic that does not set ``key`` itself."""
    for synonym in key.synonyms:
        text = broker.text(synonym)
        if text is not None:
            return in_topic_unit(key, synonym, text)
    return key.default


def topic_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Every topic config by name, typed; unknown overrides are left out."""
    values: dict[str, ConfigValue] = {}
    for key in TOPIC_KEYS.values():
        text = overrides.get(key.name)
        if text is None:
            text = topic_default(key, broker)
        values[key.name] = None if text is None else key.parse(text)
    if values["internal.segment.bytes"] is not None:
        values["segment.bytes"] = values["internal.segment.bytes"]
    return values


def validate_topic_config(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """Check the topic configs of a request. Raises InvalidConfig with Kafka's message."""
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise InvalidConfig(name, f"Unknown topic config name: {name}")
        key.parse(text)
    values = topic_config(broker, {name: text for name, text in overrides.items() if text is not None})
    for check in _CHECKS:
        check(values)


def _compaction_lags(values: Mapping[str, ConfigValue]) -> None:
    lowest, highest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(lowest, int)
    assert isinstance(highest, int)
    if lowest > highest:
        raise InvalidConfig(
            "min.compaction.lag.ms",
            f"conflict topic config setting min.compaction.lag.ms ({lowest}) > "
            f"max.compaction.lag.ms ({highest})",
        )


def _remote_storage(values: Mapping[str, ConfigValue]) -> None:
    if values["remote.storage.enable"]:
        raise InvalidConfig(
            "remote.storage.enable",
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )


_CHECKS: Final[tuple[Callable[[Mapping[str, ConfigValue]], None], ...]] = (_compaction_lags, _remote_storage)
