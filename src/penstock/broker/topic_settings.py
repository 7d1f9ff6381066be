"""What a topic's configuration means to this node, resolved from its own configs and the broker's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.broker.schema_validation import SchemaRule, schema_rules
from penstock.metadata.configs import BrokerConfig, topic_config
from penstock.protocol.compression import Codec
from penstock.storage.config import LogConfig


class TopicSettings(NamedTuple):
    log: LogConfig
    compression_levels: dict[int, int]
    """Level by codec, for topics that recompress."""
    schema_rules: tuple[SchemaRule, ...] = ()


def topic_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> TopicSettings:
    """The settings of a topic that sets `overrides` on a broker with `config`."""
    values = topic_config(config, overrides)
    levels = {codec: values.get(f"compression.{codec.name.lower()}.level") for codec in Codec}
    return TopicSettings(
        LogConfig.from_properties(values),
        {int(codec): level for codec, level in levels.items() if isinstance(level, int)},
        schema_rules(values),
    )
