"""The options that determine how the sink encodes keys and values."""

from __future__ import annotations

from typing import Final

from penstock.arrow.encoding import ENCODINGS, RECORD, TOPIC, TOPIC_RECORD, Encoding
from penstock.arrow.schema_choice import SCHEMA_TYPES, refuse_idle_registry
from penstock.client.settings import ConfigError, boolean, one_of, text, whole_number
from penstock.registry.client.config import RegistryConfig
from penstock.spark.options import Options

# Our names, and those of Confluent's classes.
_STRATEGIES: Final = {
    "topic": TOPIC,
    "record": RECORD,
    "topic-record": TOPIC_RECORD,
    "topicnamestrategy": TOPIC,
    "recordnamestrategy": RECORD,
    "topicrecordnamestrategy": TOPIC_RECORD,
}


def take_encodings(options: Options) -> tuple[Encoding, ...]:
    """Return the encodings of key and value, for those that have a format. Raises ConfigError."""
    properties = options.take_properties(RegistryConfig.names())
    registers = options.take("auto.register.schemas", boolean, None)
    uses_latest = options.take("use.latest.version", boolean, None)
    normalizes = options.take("normalize.schemas", boolean, None)
    of_the_registry = {
        "auto.register.schemas": registers,
        "use.latest.version": uses_latest,
        "normalize.schemas": normalizes,
    }
    idle = [*properties, *(each for each, value in of_the_registry.items() if value is not None)]
    found = []
    for part in ("key", "value"):
        name = options.take(f"{part}Format", one_of(*ENCODINGS), "")
        schema = options.take(f"{part}Schema", text, None)
        schema_id = options.take(f"{part}SchemaId", whole_number(0, 2**31 - 1), None)
        version = options.take(f"{part}SchemaVersion", whole_number(1), None)
        message = options.take(f"{part}SchemaMessage", text, None)
        strategy = options.take(f"{part}.subject.name.strategy", _strategy, None)
        if not name:
            for option, value in (
                (f"{part}Schema", schema),
                (f"{part}SchemaId", schema_id),
                (f"{part}SchemaVersion", version),
                (f"{part}SchemaMessage", message),
                (f"{part}.subject.name.strategy", strategy),
            ):
                if value is not None:
                    raise ConfigError(f"option '{option}' needs '{part}Format'")
            continue
        is_registered = name in SCHEMA_TYPES
        if strategy is not None and not is_registered:
            refuse_idle_registry([f"{part}.subject.name.strategy"], [name])
        registry = RegistryConfig.from_properties(properties) if is_registered and properties else None
        found.append(
            Encoding(
                part,
                name,
                schema,
                registry,
                strategy or TOPIC,
                registers is not False,
                bool(uses_latest) and is_registered,
                bool(normalizes),
                message,
                schema_id,
                version,
            )
        )
    refuse_idle_registry(idle, [each.name for each in found])
    return tuple(found)


def _strategy(given: str) -> str:
    short = given.rpartition(".")[2].lower()
    if short not in _STRATEGIES:
        raise ValueError("topic, record, topic-record, or the name of one of Confluent's classes for these")
    return _STRATEGIES[short]
