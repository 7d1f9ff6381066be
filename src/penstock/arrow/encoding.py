"""How keys and values are to be written, as options say it. `column_encoder` does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.client.settings import ConfigError
from penstock.registry.client.config import RegistryConfig

# Format → the registry's name for it. What writes them is loaded when it is asked for.
SCHEMA_TYPES: Final = {"avro": "AVRO", "json-schema": "JSON"}
ENCODINGS: Final = ("binary", "bytes", "string", "json", "csv", *SCHEMA_TYPES)
TOPIC, RECORD, TOPIC_RECORD = "topic", "record", "topic-record"


class Unwritable(ValueError):
    """A row that the schema has no form for; says which field."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How keys or values (``part``) are written. Can be pickled."""

    part: str
    name: str
    schema: str | None = None
    registry: RegistryConfig | None = None
    strategy: str = TOPIC
    registers: bool = True
    uses_latest: bool = False
    normalizes: bool = False

    def __post_init__(self) -> None:
        if self.name not in SCHEMA_TYPES and self.schema is not None:
            raise ConfigError(
                f"the format '{self.name}' is written without a schema: only {', '.join(SCHEMA_TYPES)} "
                "have one"
            )
        if self.schema is not None and self.uses_latest:
            raise ConfigError("a schema that is given and 'use.latest.version' exclude each other")
        if self.uses_latest and (self.registry is None or self.strategy != TOPIC):
            raise ConfigError("'use.latest.version' needs a registry, and the subject's name from the topic")
