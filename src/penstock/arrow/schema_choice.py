"""The reader schema of a column, as options and arguments select it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from penstock.client.settings import ConfigError

# Formats whose schemas are in a registry, with the registry's names for them.
SCHEMA_TYPES: Final = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """The schema to read a column by.

    It is ``schema``: a text (DDL, Avro's JSON, a JSON Schema, a Protobuf file) or Arrow's type. Or it is what
    ``subject`` has in the registry, as ``version`` or the latest. ``message`` selects a message of a Protobuf
    file. ``registry`` holds the properties of the registry's client.
    """

    schema: str | pa.Schema | pa.DataType | None = None
    subject: str | None = None
    version: int | None = None
    message: str | None = None
    # hidden from repr, as it may contain a password
    registry: Mapping[str, str] | None = field(default=None, repr=False)

    def completed(self, part: str, topics: Sequence[str], registry: Mapping[str, str] | None) -> SchemaChoice:
        """Return the choice with the registry, and with the topic's subject if none is named.

        The subject is ``<topic>-value`` or ``<topic>-key``.
        """
        subject = self.subject
        if subject is None and self.schema is None and len(topics) == 1:
            subject = f"{topics[0]}-{part}"
        return replace(self, subject=subject, registry=self.registry or registry)


def refuse_idle_registry(options: Iterable[str], formats: Iterable[str]) -> None:
    """Raise ConfigError if there are ``options`` of a registry that none of the ``formats`` uses.

    Perhaps ``json-schema`` was meant instead of ``json``, which has no schema ids.
    """
    name = next(iter(options), None)
    if name is not None and not any(each in SCHEMA_TYPES for each in formats):
        found = " and ".join(dict.fromkeys(filter(None, formats))) or "none"
        raise ConfigError(f"'{name}' is for the formats {', '.join(SCHEMA_TYPES)}: found {found}")
