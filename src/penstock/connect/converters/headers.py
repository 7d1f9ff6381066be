"""Converters of headers: SimpleHeaderConverter, and each of Kafka's other converters in that place."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from penstock.connect.converters.converter import Converter, SchemaAndValue
from penstock.connect.converters.json.converter import JsonConverter
from penstock.connect.converters.plain import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    StringConverter,
)
from penstock.connect.data.schema import BYTES, Schema
from penstock.connect.data.values import parse_text, value_text
from penstock.connect.definitions.config_def import ConfigDef

log = logging.getLogger(__name__)


class SimpleHeaderConverter:
    """Converts values to text, and infers their types from the text (the default of Connect's workers).

    Bytes whose text cannot be parsed stay bytes.
    """

    definition: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, properties: Mapping[str, str]) -> None:
        """There is nothing to configure."""

    def to_bytes(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        text = value_text(schema, value)
        return None if text is None else text.encode(errors="replace")

    def from_bytes(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        try:
            return SchemaAndValue(*parse_text(data.decode(errors="replace")))
        except Exception as error:  # of whatever kind: a header must not stop the connector
            log.warning("header kept as bytes topic=%s header=%s error=%r", topic, key, error)
            return SchemaAndValue(BYTES, data)

    def close(self) -> None:
        """A converter of headers holds nothing."""


class ConverterOfHeaders:
    """The base of header converters that convert values as a converter of records does."""

    converter_class: ClassVar[type[Converter]]
    definition: ClassVar[ConfigDef]

    def __init_subclass__(cls) -> None:
        cls.definition = cls.converter_class.definition

    def __init__(self) -> None:
        self._converter = self.converter_class()

    def configure(self, properties: Mapping[str, str]) -> None:
        self._converter.configure(properties, False)

    def to_bytes(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self._converter.to_bytes(topic, schema, value)

    def from_bytes(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self._converter.from_bytes(topic, data)

    def close(self) -> None:
        self._converter.close()


class JsonHeaderConverter(ConverterOfHeaders):
    """JsonConverter for headers."""

    converter_class = JsonConverter


class StringHeaderConverter(ConverterOfHeaders):
    """StringConverter for headers."""

    converter_class = StringConverter


class ByteArrayHeaderConverter(ConverterOfHeaders):
    """ByteArrayConverter for headers."""

    converter_class = ByteArrayConverter


class ShortHeaderConverter(ConverterOfHeaders):
    """ShortConverter for headers."""

    converter_class = ShortConverter


class IntegerHeaderConverter(ConverterOfHeaders):
    """IntegerConverter for headers."""

    converter_class = IntegerConverter


class LongHeaderConverter(ConverterOfHeaders):
    """LongConverter for headers."""

    converter_class = LongConverter


class FloatHeaderConverter(ConverterOfHeaders):
    """FloatConverter for headers."""

    converter_class = FloatConverter


class DoubleHeaderConverter(ConverterOfHeaders):
    """DoubleConverter for headers."""

    converter_class = DoubleConverter


class BooleanHeaderConverter(ConverterOfHeaders):
    """BooleanConverter for headers."""

    converter_class = BooleanConverter
