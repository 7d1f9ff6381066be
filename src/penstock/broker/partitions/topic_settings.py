"""The settings of a topic on this node, resolved from the topic's configs and the broker's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.broker.partitions.schema_validation import SchemaRule, schema_rules
from penstock.metadata.configs import BrokerConfig, topic_config
from penstock.protocol.compression import Codec
from penstock.storage.config import LogConfig


class TopicSettings(NamedTuple):
    log: LogConfig
    compression_levels: dict[int, int]
    """The compression level by codec, for topics whose batches are recompressed."""
    schema_rules: tuple[SchemaRule, ...] = ()
    validates_records: bool = True
    """Whether the broker reads all records of produced batches (`penstock.produce.validation`)."""


def topic_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> TopicSettings:
    """Return the settings of a topic with the configs `overrides` on a broker with `config`."""
    values = topic_config(config, overrides)
    levels = {codec: values.get(f"compression.{codec.name.lower()}.level") for codec in Codec}
    return TopicSettings(
        LogConfig.from_properties(values),
        {int(codec): level for codec, level in levels.items() if isinstance(level, int)},
        schema_rules(values),
        config["penstock.produce.validation"] == "full",
    )
