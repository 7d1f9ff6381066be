"""The names that select converters in configurations: the names of Java's classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.connect.converters import headers, plain
from penstock.connect.converters.converter import Converter, HeaderConverter
from penstock.connect.converters.json.converter import JsonConverter

_APACHE: Final = "org.apache.kafka.connect"

CONVERTERS: Final[Mapping[str, type[Converter]]] = {
    f"{_APACHE}.json.JsonConverter": JsonConverter,
    f"{_APACHE}.storage.StringConverter": plain.StringConverter,
    f"{_APACHE}.converters.ByteArrayConverter": plain.ByteArrayConverter,
    f"{_APACHE}.converters.ShortConverter": plain.ShortConverter,
    f"{_APACHE}.converters.IntegerConverter": plain.IntegerConverter,
    f"{_APACHE}.converters.LongConverter": plain.LongConverter,
    f"{_APACHE}.converters.FloatConverter": plain.FloatConverter,
    f"{_APACHE}.converters.DoubleConverter": plain.DoubleConverter,
    f"{_APACHE}.converters.BooleanConverter": plain.BooleanConverter,
}
"""Converters of keys and values by the names of Java's classes."""

HEADER_CONVERTERS: Final[Mapping[str, type[HeaderConverter]]] = {
    f"{_APACHE}.storage.SimpleHeaderConverter": headers.SimpleHeaderConverter,
    f"{_APACHE}.json.JsonConverter": headers.JsonHeaderConverter,
    f"{_APACHE}.storage.StringConverter": headers.StringHeaderConverter,
    f"{_APACHE}.converters.ByteArrayConverter": headers.ByteArrayHeaderConverter,
    f"{_APACHE}.converters.ShortConverter": headers.ShortHeaderConverter,
    f"{_APACHE}.converters.IntegerConverter": headers.IntegerHeaderConverter,
    f"{_APACHE}.converters.LongConverter": headers.LongHeaderConverter,
    f"{_APACHE}.converters.FloatConverter": headers.FloatHeaderConverter,
    f"{_APACHE}.converters.DoubleConverter": headers.DoubleHeaderConverter,
    f"{_APACHE}.converters.BooleanConverter": headers.BooleanHeaderConverter,
}
"""Converters of headers by the names of Java's classes."""

REGISTRY_CONVERTERS: Final[Mapping[str, str]] = {
    "io.confluent.connect.avro.AvroConverter": "penstock.connect.converters.avro.converter:AvroConverter",
    "io.confluent.connect.json.JsonSchemaConverter": (
        "penstock.connect.converters.json_schema.converter:JsonSchemaConverter"
    ),
}
"""Converters of keys and values that need the extra `registry`, as ``module:Class``."""
