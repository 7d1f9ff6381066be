"""The options that say how the sink writes keys and values."""

from __future__ import annotations

from typing import Final

from penstock.arrow.encoding import ENCODINGS, RECORD, TOPIC, TOPIC_RECORD, Encoding
from penstock.arrow.schema_choice import SCHEMA_TYPES
from penstock.client.settings import ConfigError, boolean, one_of, text, whole_number
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
        schema_id = options.take(f"{part}SchemaId", whole_number(0, 2**31 - 1), None)
        version = options.take(f"{part}SchemaVersion", whole_number(1), None)
        message = options.take(f"{part}SchemaMessage", text, None)
        strategy = options.take(f"{part}.subject.name.strategy", _strategy, TOPIC)
        if not name:
            for option, value in (
                ("", schema),
                ("Id", schema_id),
                ("Version", version),
                ("Message", message),
            ):
                if value is not None:
                    raise ConfigError(f"option '{part}Schema{option}' needs '{part}Format'")
            continue
        is_registered = name in SCHEMA_TYPES
        registry = RegistryConfig.from_properties(properties) if is_registered and properties else None
        found.append(
            Encoding(
                part,
                name,
                schema,
                registry,
                strategy,
                registers,
                uses_latest and is_registered,
                normalizes,
                message,
                schema_id,
                version,
            )
        )
    return tuple(found)


def _strategy(given: str) -> str:
    short = given.rpartition(".")[2].lower()
    if short not in _STRATEGIES:
        raise ValueError("topic, record, topic-record, or the name of one of Confluent's classes for these")
    return _STRATEGIES[short]
