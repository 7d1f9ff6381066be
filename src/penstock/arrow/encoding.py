"""The options that determine how keys and values are written; `column_encoder` applies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.arrow.schema_choice import SCHEMA_TYPES
from penstock.client.settings import ConfigError
from penstock.registry.client.config import RegistryConfig

ENCODINGS: Final = ("binary", "bytes", "string", "json", "csv", *SCHEMA_TYPES)
TOPIC, RECORD, TOPIC_RECORD = "topic", "record", "topic-record"


class Unwritable(ValueError):
    """The schema has no representation for a row; the message names the field."""


def at_path(path: str) -> str:
    """Describe a place in a column, for messages."""
    return f"field '{path.lstrip('.')}'" if path else "it"


@dataclass(frozen=True, slots=True)
class Encoding:
    """How to write keys or values (``part``). It can be pickled.

    The schema is ``schema``, or one of the registry: the one with ``schema_id``, the ``version`` of the
    topic's subject, or its latest. Otherwise it is derived from the column's type. ``message`` selects a
    message of a Protobuf file; None is the first.
    """

    part: str
    name: str
    schema: str | None = None
    registry: RegistryConfig | None = None
    strategy: str = TOPIC
    registers: bool = True
    uses_latest: bool = False
    normalizes: bool = False
    message: str | None = None
    schema_id: int | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        choices = {
            f"{self.part}.schema": self.schema is not None,
            f"{self.part}.schema.id": self.schema_id is not None,
            f"{self.part}.schema.version": self.version is not None,
            "use.latest.version": self.uses_latest,
        }
        chosen = [name for name, is_given in choices.items() if is_given]
        if len(chosen) > 1:
            raise ConfigError(f"'{chosen[0]}' and '{chosen[1]}' exclude each other: each selects the schema")
        if chosen and self.name not in SCHEMA_TYPES:
            raise ConfigError(
                f"the format '{self.name}' is written without a schema: only {', '.join(SCHEMA_TYPES)} "
                "have one"
            )
        if chosen and self.schema is None and self.registry is None:
            raise ConfigError(f"'{chosen[0]}' needs a registry: 'schema.registry.url'")
        if (self.uses_latest or self.version is not None) and self.strategy != TOPIC:
            told = f"'{chosen[0]}' needs the subject's name from the topic"
            raise ConfigError(f"{told}, found the strategy '{self.strategy}'")
        if self.message is not None and (self.name != "protobuf" or not chosen):
            raise ConfigError(
                f"'{self.part}.schema.message' selects a message of an existing Protobuf schema: "
                "give that schema as well"
            )
