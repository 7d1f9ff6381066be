"""The options that say how the sink writes keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.arrow.encoding import ENCODINGS, RECORD, TOPIC, TOPIC_RECORD, Encoding
from penstock.client.settings import ConfigError, boolean, one_of, text
from penstock.registry.client.config import RegistryConfig
from penstock.spark.options import Options

# Names as we have them, and those of Confluent's classes.
_STRATEGIES: Final = {
    "topic": TOPIC,
    "record": RECORD,
    "topic-record": TOPIC_RECORD,
    "topicnamestrategy": TOPIC,
    "recordnamestrategy": RECORD,
    "topicrecordnamestrategy": TOPIC_RECORD,
}


def take_encodings(options: Options) -> tuple[Encoding, ...]:
    """One for keys and one for values, where they are not written as they are. Raises ConfigError."""
    properties = options.take_properties(RegistryConfig.names())
    registers = options.take("auto.register.schemas", boolean, True)
    uses_latest = options.take("use.latest.version", boolean, False)
    normalizes = options.take("normalize.schemas", boolean, False)
    found = []
    for part in ("key", "value"):
        name = options.take(f"{part}Format", one_of(*ENCODINGS), "")
        schema = options.take(f"{part}Schema", text, None)
        strategy = options.take(f"{part}.subject.name.strategy", _strategy, TOPIC)
        if not name:
            if schema is not None:
                raise ConfigError(f"option '{part}Schema' needs '{part}Format'")
            continue
        registry = _registry(name, properties)
        latest = uses_latest and registry is not None
        found.append(Encoding(part, name, schema, registry, strategy, registers, latest, normalizes))
    return tuple(found)


def _registry(name: str, properties: Mapping[str, str]) -> RegistryConfig | None:
    """Of the formats that have schemas in one."""
    if name not in ("avro", "json-schema") or not properties:
        return None
    return RegistryConfig.from_properties(properties)


def _strategy(given: str) -> str:
    short = given.rpartition(".")[2].lower()
    if short not in _STRATEGIES:
        raise ValueError("topic, record, topic-record, or the name of one of Confluent's classes for these")
    return _STRATEGIES[short]
