"""Which schema a column is to be read by, as options and arguments say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from penstock.client.settings import ConfigError

# Formats whose schemas are in a registry, by the registry's names for them.
SCHEMA_TYPES: Final = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """Which schema a column is read by: a text (DDL, Avro's JSON, a JSON Schema, a Protobuf file) or Arrow's,
    or what a subject of the registry holds, as ``version`` or the latest. ``message``: which of Protobuf's.
    ``registry``: properties of its client.
    """

    schema: str | pa.Schema | pa.DataType | None = None
    subject: str | None = None
    version: int | None = None
    message: str | None = None
    registry: Mapping[str, str] | None = field(default=None, repr=False)  # there may be a password in it

    def completed(self, part: str, topics: Sequence[str], registry: Mapping[str, str] | None) -> SchemaChoice:
        """With the registry, and the topic's subject (``<topic>-value``) where none is named."""
        subject = self.subject
        if subject is None and self.schema is None and len(topics) == 1:
            subject = f"{topics[0]}-{part}"
        return replace(self, subject=subject, registry=self.registry or registry)


def refuse_idle_registry(options: Iterable[str], formats: Iterable[str]) -> None:
    """Raise ConfigError if there are ``options`` of a registry that none of the ``formats`` uses. Perhaps
    ``json-schema`` was meant instead of ``json``, which has no schema ids.
    """
    name = next(iter(options), None)
    if name is not None and not any(each in SCHEMA_TYPES for each in formats):
        found = " and ".join(dict.fromkeys(filter(None, formats))) or "none"
        raise ConfigError(f"'{name}' is for the formats {', '.join(SCHEMA_TYPES)}: found {found}")
