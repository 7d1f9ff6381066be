"""The format settings of WITH (…) for keys and values, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.registry.client.config import URL, RegistryConfig
from penstock.sql.catalog import Column
from penstock.sql.formats.delimited import delimiter
from penstock.sql.formats.errors import FormatError
from penstock.sql.language.types import SqlType

Fields = tuple[tuple[str, SqlType], ...]
_ALONE: Final = ("JSON", "JSON_SR", "AVRO", "PROTOBUF_NOSR")
"""Formats in which a single key is unwrapped, and so is a single value if WRAP_SINGLE_VALUE is false."""
NULLABLES: Final = ("OPTIONAL", "WRAPPER")


class Side(Enum):
    KEY = "KEY"
    VALUE = "VALUE"

    def __str__(self) -> str:
        return self.value.lower()


@dataclass(frozen=True)
class SideFormat:
    """The format of one side, key or value, of a topic's records.

    ``topic`` determines the subject in the registry. Without it nothing can be registered, and a format that
    registers its schema can only be read. ``is_alone`` means that the one column is not wrapped in a record.
    """

    side: Side
    format: str
    fields: Fields
    is_alone: bool
    topic: str | None = None
    delimiter: str = ","
    schema_id: int | None = None
    full_name: str | None = None
    nullables: str | None = None
    registry: RegistryConfig | None = None

    @property
    def subject(self) -> str:
        if self.topic is None:
            raise FormatError(f"found no topic for the {self.side}'s schema, expected one to register it for")
        return f"{self.topic}-{self.side}"


def side_format(
    side: Side,
    columns: Sequence[Column],
    format_: str,
    settings: Mapping[str, str],
    topic: str | None = None,
) -> SideFormat:
    """Determine the format of one side from the source's settings.

    ``settings`` also contains the registry's properties (schema.registry.url …).
    """
    name = side.value
    fields = tuple((each.name, each.type) for each in columns)
    is_alone = len(fields) == 1 and format_ in _ALONE
    if side is Side.VALUE:
        is_alone = is_alone and settings.get("WRAP_SINGLE_VALUE", "true").lower() == "false"
    full_name = settings.get(f"{name}_SCHEMA_FULL_NAME")
    if side is Side.VALUE and format_ == "AVRO" and full_name is None:
        full_name = settings.get("VALUE_AVRO_SCHEMA_FULL_NAME")
    nullables = settings.get(f"{name}_PROTOBUF_NULLABLE_REPRESENTATION")
    if nullables is not None and nullables.upper() not in NULLABLES:
        raise FormatError(f"found {nullables} for the representation of nulls, expected OPTIONAL or WRAPPER")
    schema_id = settings.get(f"{name}_SCHEMA_ID")
    return SideFormat(
        side,
        format_,
        fields,
        is_alone,
        topic,
        delimiter(settings.get(f"{name}_DELIMITER")),
        None if schema_id is None else int(schema_id),
        full_name,
        None if nullables is None else nullables.upper(),
        registry_of(settings),
    )


def registry_of(settings: Mapping[str, str]) -> RegistryConfig | None:
    names = RegistryConfig.names()
    return (
        RegistryConfig.from_properties({key: value for key, value in settings.items() if key in names})
        if URL in settings
        else None
    )
