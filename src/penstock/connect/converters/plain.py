"""Converters of values whose bytes have no schema: strings, bytes, numbers and booleans.

Kafka has them in org.apache.kafka.connect.storage and org.apache.kafka.connect.converters.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from penstock.connect.converters.converter import RecordHeaders, SchemaAndValue
from penstock.connect.converters.properties import converter_definition, parsed_properties
from penstock.connect.converters.string_text import string_text
from penstock.connect.data.schema import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    Schema,
    Type,
)
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance, Width
from penstock.connect.errors import ConfigInvalid, DataError

ENCODING: Final = "converter.encoding"


class StringConverter:
    """Converts any value to its text, and bytes to strings."""

    definition: ClassVar[ConfigDef] = converter_definition().define(
        ENCODING,
        ConfigType.STRING,
        "UTF-8",
        importance=Importance.HIGH,
        doc="The name of the character set in which strings are written and read.",
        width=Width.MEDIUM,
        display_name="Encoding",
    )

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        name = parsed_properties(self.definition, properties, is_key)[ENCODING]
        try:
            self._codec = codecs.lookup(name).name
        except LookupError:
            raise ConfigInvalid(
                f"Invalid value {name} for configuration {ENCODING}: no character set"
            ) from None

    def to_bytes(
        self, topic: str, schema: Schema | None, value: Any, headers: RecordHeaders = ()
    ) -> bytes | None:
        if value is None:
            return None
        text = value if value.__class__ is str else string_text(schema, value)
        if self._codec == "utf-16":  # Java writes the most significant byte first
            return codecs.BOM_UTF16_BE + text.encode("utf-16-be", "replace")
        return text.encode(self._codec, "replace")

    def from_bytes(self, topic: str, data: bytes | None, headers: RecordHeaders = ()) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(OPTIONAL_STRING, None)
        codec = self._codec
        if codec == "utf-16" and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            codec = "utf-16-be"
        return SchemaAndValue(OPTIONAL_STRING, data.decode(codec, "replace"))

    def close(self) -> None:
        """A converter of strings holds nothing."""


class ByteArrayConverter:
    """Passes bytes through."""

    definition: ClassVar[ConfigDef] = converter_definition()

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        parsed_properties(self.definition, properties, is_key)

    def to_bytes(
        self, topic: str, schema: Schema | None, value: Any, headers: RecordHeaders = ()
    ) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is None or value.__class__ is bytes:
            passed: bytes | None = value
            return passed
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise DataError(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")

    def from_bytes(self, topic: str, data: bytes | None, headers: RecordHeaders = ()) -> SchemaAndValue:
        return SchemaAndValue(OPTIONAL_BYTES, data)

    def close(self) -> None:
        """A converter of bytes holds nothing."""


class _FixedConverter:
    """The base of converters whose values have a fixed number of bytes, in network order."""

    definition: ClassVar[ConfigDef] = converter_definition()
    schema: ClassVar[Schema]
    """The schema of what is read; values to write must have its type."""
    packed: ClassVar[struct.Struct]
    class_: ClassVar[type]

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        parsed_properties(self.definition, properties, is_key)

    def to_bytes(
        self, topic: str, schema: Schema | None, value: Any, headers: RecordHeaders = ()
    ) -> bytes | None:
        if value is None:
            return None
        if schema is not None and schema.type is not self.schema.type:
            raise DataError(f"Invalid schema type for {type(self).__name__}: {schema.type.name}")
        try:
            if value.__class__ is not self.class_:
                raise struct.error
            return self.packed.pack(value)
        except (struct.error, OverflowError):
            raise DataError(
                f"{type(self).__name__} is not compatible with {value!r} ({type(value).__name__})"
            ) from None

    def from_bytes(self, topic: str, data: bytes | None, headers: RecordHeaders = ()) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(self.schema, None)
        if len(data) != self.packed.size:
            raise DataError(
                f"Size of data received by {type(self).__name__} is {len(data)}, expected {self.packed.size}"
            )
        return SchemaAndValue(self.schema, self.packed.unpack(data)[0])

    def close(self) -> None:
        """A converter of numbers holds nothing."""


class ShortConverter(_FixedConverter):
    """Converts INT16 to two bytes."""

    schema, packed, class_ = OPTIONAL_INT16, struct.Struct(">h"), int


class IntegerConverter(_FixedConverter):
    """Converts INT32 to four bytes."""

    schema, packed, class_ = OPTIONAL_INT32, struct.Struct(">i"), int


class LongConverter(_FixedConverter):
    """Converts INT64 to eight bytes."""

    schema, packed, class_ = OPTIONAL_INT64, struct.Struct(">q"), int


class FloatConverter(_FixedConverter):
    """Converts FLOAT32 to four bytes of IEEE 754."""

    schema, packed, class_ = OPTIONAL_FLOAT32, struct.Struct(">f"), float


class DoubleConverter(_FixedConverter):
    """Converts FLOAT64 to eight bytes of IEEE 754."""

    schema, packed, class_ = OPTIONAL_FLOAT64, struct.Struct(">d"), float


class BooleanConverter(_FixedConverter):
    """Converts BOOLEAN to one byte, 0 or 1."""

    schema, packed, class_ = OPTIONAL_BOOLEAN, struct.Struct(">?"), bool

    def to_bytes(
        self, topic: str, schema: Schema | None, value: Any, headers: RecordHeaders = ()
    ) -> bytes | None:
        if value is None and schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        return super().to_bytes(topic, schema, value, headers)

    def from_bytes(self, topic: str, data: bytes | None, headers: RecordHeaders = ()) -> SchemaAndValue:
        if data is not None and data not in (b"\x00", b"\x01"):
            raise DataError(f"Unexpected bytes received by BooleanConverter: {data!r}, expected 0 or 1")
        return super().from_bytes(topic, data, headers)
