"""The interfaces of converters (org.apache.kafka.connect.storage.Converter and HeaderConverter)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from penstock.connect.data.schema import Schema
from penstock.connect.definitions.config_def import ConfigDef

RecordHeaders: TypeAlias = Sequence[tuple[str, bytes | None]]
"""The headers of a record as the log has them: names, which may repeat, and bytes."""


class SchemaAndValue(NamedTuple):
    """A value with its schema, or without one."""

    schema: Schema | None
    value: Any


class Converter(Protocol):
    """Converts the keys or the values of records; one object serves either of them."""

    definition: ClassVar[ConfigDef]
    """The properties that `configure` takes."""

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """Take the properties whose prefix, such as ``value.converter.``, the worker has removed.

        The worker calls it once, before any other method. Raises ConfigInvalid.
        """

    def to_bytes(
        self, topic: str, schema: Schema | None, value: Any, headers: RecordHeaders = ()
    ) -> bytes | None:
        """Return the bytes for a topic; None is a null in the log. Raises DataError."""

    def from_bytes(self, topic: str, data: bytes | None, headers: RecordHeaders = ()) -> SchemaAndValue:
        """Return what the bytes of a record mean. Raises DataError."""

    def close(self) -> None:
        """Release what the converter holds, such as connections. The worker calls it last."""


class HeaderConverter(Protocol):
    """Converts the values of headers."""

    definition: ClassVar[ConfigDef]
    """The properties that `configure` takes."""

    def configure(self, properties: Mapping[str, str]) -> None:
        """Take the properties whose prefix ``header.converter.`` the worker has removed.

        The worker calls it once, before any other method. Raises ConfigInvalid.
        """

    def to_bytes(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of the value of the header ``key``. Raises DataError."""

    def from_bytes(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return what the bytes of the header ``key`` mean. Raises DataError."""

    def close(self) -> None:
        """Release what the converter holds. The worker calls it last."""
